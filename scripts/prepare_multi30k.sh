#!/usr/bin/env bash
# Multi30k for fairseq: Moses tokenisation (sacremoses), joint BPE (subword-nmt), fairseq-preprocess.
#
#   bash scripts/prepare_multi30k.sh OUT [TARGET] [RAW]
#
# TARGET: de (default) or fr. RAW: a folder with train, val, test_2016_flickr, test_2017_flickr and
# test_2017_mscoco (.en and .TARGET, gzipped or not); without it they are downloaded. MERGES (8000) and
# BPE_CODES (a codes file to use instead of learning one) may be set in the environment.
# Writes OUT/data-bin (test = 2016 Flickr, test1 = 2017 Flickr, test2 = 2017 COCO), OUT/bpe.codes and
# OUT/text. The captions are for research use only.
set -eu
. "$(dirname "$0")/setup_env.sh"
out=${1:?"usage: prepare_multi30k.sh OUT [de|fr] [RAW]"}
target=${2:-de}
raw=${3:-}
url=https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw
splits="train val test_2016_flickr test_2017_flickr test_2017_mscoco"

die() { echo "error: $*" >&2; exit 2; }

case $target in de | fr) ;; *) die "the target language is de or fr, not '$target'" ;; esac
[ -z "$raw" ] || [ -d "$raw" ] || die "$raw is no folder of raw text"
[ -z "${BPE_CODES:-}" ] || [ -f "$BPE_CODES" ] || die "BPE_CODES $BPE_CODES does not exist"
[ ! -e "$out/data-bin/dict.en.txt" ] || die "$out/data-bin is there already: remove it or choose another OUT"
mkdir -p "$out/raw" "$out/text"

for split in $splits; do
    for lang in en "$target"; do
        file=$out/raw/$split.$lang
        [ -s "$file" ] && continue
        if [ -n "$raw" ] && [ -f "$raw/$split.$lang" ]; then
            cp "$raw/$split.$lang" "$file"
        elif [ -n "$raw" ] && [ -f "$raw/$split.$lang.gz" ]; then
            gzip -dc "$raw/$split.$lang.gz" > "$file"
        elif [ -n "$raw" ]; then
            die "$raw has neither $split.$lang nor $split.$lang.gz"
        else
            curl -fsSL "$url/$split.$lang.gz" | gzip -dc > "$file.partial" \
                || die "cannot download $url/$split.$lang.gz: give a folder of raw text as third argument"
            mv "$file.partial" "$file"
        fi
        echo "tokenising $split.$lang"
        sacremoses -q -l "$lang" -j 1 tokenize -a < "$file" > "$out/text/$split.tok.$lang"
    done
    lines=$(wc -l < "$out/text/$split.tok.en")
    [ "$lines" = "$(wc -l < "$out/text/$split.tok.$target")" ] || die "$split has different numbers of lines"
done

if [ -n "${BPE_CODES:-}" ]; then
    cp "$BPE_CODES" "$out/bpe.codes"
else
    echo "learning ${MERGES:-8000} BPE merges"
    cat "$out/text/train.tok.en" "$out/text/train.tok.$target" \
        | subword-nmt learn-bpe -s "${MERGES:-8000}" -o "$out/bpe.codes"
fi
for split in $splits; do
    for lang in en "$target"; do
        subword-nmt apply-bpe -c "$out/bpe.codes" < "$out/text/$split.tok.$lang" > "$out/text/$split.bpe.$lang"
    done
done
text=$out/text
fairseq-preprocess --source-lang en --target-lang "$target" --joined-dictionary --workers 2 \
    --trainpref "$text/train.bpe" --validpref "$text/val.bpe" --destdir "$out/data-bin" \
    --testpref "$text/test_2016_flickr.bpe,$text/test_2017_flickr.bpe,$text/test_2017_mscoco.bpe"
echo "done: $out/data-bin"
