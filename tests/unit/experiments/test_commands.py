"""The command lines that a sweep runs."""

from fairseq_headprune.experiments import commands
from fairseq_headprune.experiments.commands import Budget
from fairseq_headprune.experiments.points import Point

STOCK = {
    "encoder_embed_dim": 512,
    "encoder_ffn_embed_dim": 2048,
    "decoder_embed_dim": 512,
    "decoder_ffn_embed_dim": 2048,
    "dropout": 0.1,
    "encoder_normalize_before": False,
}


def value(command, flag):
    return command[command.index(flag) + 1]


def finetune(point):
    return commands.finetune(point, "base.pt", STOCK, "data", "save", Budget(extra=("--fp16",)))


def test_a_control_differs_from_a_pruned_point_by_gates_and_penalty_alone():
    control = finetune(Point("c", "enc", "control", 300, 100))
    pruned = finetune(Point("p", "enc", "l0", 300, 100, l0_lambda=0.01))
    assert value(control, "--gate-types") == "none" and value(pruned, "--gate-types") == "enc-self"
    extra = [part for part in pruned if part not in control]
    assert set(extra) == {
        "enc-self",
        "--gate-lr-scale",
        "30",
        "--l0-warmup-updates",
        "100",
        "--l0-lambda",
        "0.01",
    }
    assert value(control, "--freeze") == value(pruned, "--freeze") == "decoder"
    assert control[-1] == "--fp16"


def test_targets_and_settings_reach_the_command():
    command = finetune(Point("p", "all", "l0-target", 300, 100, target="48"))
    assert value(command, "--l0-target-heads") == "48" and "--l0-lambda" not in command
    assert value(command, "--gate-types") == "all" and value(command, "--freeze") == "none"


def test_settling_and_scratch_use_the_layout():
    point = Point("p", "enc", "l0", 300, 100)
    settle = commands.settle(point, "removed.pt", "layout.json", STOCK, "data", "save", Budget())
    assert value(settle, "--head-layout") == "layout.json" and value(settle, "--max-update") == "100"
    assert value(settle, "--finetune-from-model") == "removed.pt" and value(settle, "--freeze") == "decoder"
    only = Point("p", "enc", "criterion", 0, 400, criterion="random")
    only = commands.settle(
        only, "removed.pt", "layout.json", STOCK, "data", "save", Budget(lr=0.5, settle_lr=0.25)
    )
    assert (value(only, "--lr"), value(only, "--max-update")) == ("0.5", "400")
    new = commands.scratch(point, "layout.json", STOCK, "data", "save", Budget())
    assert "--finetune-from-model" not in new and value(new, "--max-update") == "300"


def test_environment_names_one_gpu():
    assert commands.environment("3", 2)["CUDA_VISIBLE_DEVICES"] == "3"
    assert commands.environment("", 2)["OMP_NUM_THREADS"] == "2"
