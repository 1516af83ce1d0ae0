#!/usr/bin/env bash
# The whole path on a small language of our own, in a few minutes on two CPU cores: make a corpus,
# train a Transformer, prune it with gates, remove the closed heads, translate, and compare.
#
#   bash scripts/demo.sh [OUT]        (default OUT: demo-out; run again to continue where it stopped)
#
# The environment may change the scale: DEMO_SENTENCES (20000 pairs to train on), DEMO_TEST (600),
# DEMO_UPDATES (1700), DEMO_PRUNE_UPDATES (400). What the heads of its models do: see analysis/README.md.
set -eu
. "$(dirname "$0")/setup_env.sh"
out=${1:-demo-out}
mkdir -p "$out"
cd "$out"
# One thread: two may add up in another order, and train another model than that of the README.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
user_dir="$root/fairseq_headprune"
updates=${DEMO_UPDATES:-1700}
prune_updates=${DEMO_PRUNE_UPDATES:-400}

step() { # step FILE WHAT COMMAND...: run unless FILE is there; the log tells what went wrong
    local file=$1 what=$2
    shift 2
    if [ -e "$file" ]; then
        echo "-- $what: done before ($file)"
        return
    fi
    echo "-- $what"
    echo "   $*"
    local start=$SECONDS
    if ! "$@" > "$what.log" 2>&1; then
        tail -n 15 "$what.log" >&2
        echo "error: '$what' failed; the whole log is $out/$what.log" >&2
        exit 1
    fi
    echo "   $((SECONDS - start)) s"
}

sizes="--encoder-layers 3 --decoder-layers 2 --encoder-embed-dim 128 --decoder-embed-dim 128
    --encoder-ffn-embed-dim 256 --decoder-ffn-embed-dim 256
    --encoder-attention-heads 4 --decoder-attention-heads 4 --share-all-embeddings
    --encoder-normalize-before --decoder-normalize-before --dropout 0.0"
common="--source-lang src --target-lang tgt --user-dir $user_dir --cpu --seed 1 --num-workers 0
    --optimizer adam --adam-betas (0.9,0.98) --clip-norm 1.0 --max-tokens 1000
    --lr-scheduler polynomial_decay --end-learning-rate 0
    --no-epoch-checkpoints --validate-interval 1000 --validate-interval-updates 500
    --save-interval 1000 --log-format simple --log-interval 50"

step corpus/test.bpe.tgt corpus \
    python "$root/scripts/make_demo_corpus.py" --out corpus --seed 1 \
    --train "${DEMO_SENTENCES:-20000}" --valid "${DEMO_TEST:-600}" --test "${DEMO_TEST:-600}"
step data-bin/test.src-tgt.tgt.idx preprocess \
    fairseq-preprocess --source-lang src --target-lang tgt --joined-dictionary --destdir data-bin \
    --trainpref corpus/train.bpe --validpref corpus/valid.bpe --testpref corpus/test.bpe
# Weight decay makes heads divide the work: without it several look at the word before now and then.
step baseline/checkpoint_last.pt train \
    fairseq-train data-bin --arch transformer $sizes $common --save-dir baseline \
    --criterion cross_entropy --weight-decay 0.2 --lr 0.004 --warmup-updates 300 \
    --max-update "$updates" --total-num-update "$updates"
step gated/checkpoint_last.pt prune \
    fairseq-train data-bin --arch gated_transformer $sizes $common --save-dir gated \
    --finetune-from-model baseline/checkpoint_last.pt \
    --criterion label_smoothed_cross_entropy_l0 --label-smoothing 0.0 \
    --l0-lambda 0.04 --l0-warmup-updates 50 --gate-lr-scale 60 --lr 0.001 \
    --max-update "$prune_updates" --total-num-update "$prune_updates"
step removed.pt remove \
    python -m fairseq_headprune remove gated/checkpoint_last.pt removed.pt
step translations.txt translate sh -c "fairseq-generate data-bin --source-lang src --target-lang tgt \
    --user-dir $user_dir --path removed.pt --gen-subset test --beam 5 --max-sentences 32 \
    --remove-bpe --cpu > translations.partial && mv translations.partial translations.txt"
echo "-- compare"
python -m fairseq_headprune compare --data data-bin --json comparison.json \
    before=baseline/checkpoint_last.pt gated=gated/checkpoint_last.pt removed=removed.pt 2> compare.log \
    || { tail -n 5 compare.log >&2; exit 1; }
