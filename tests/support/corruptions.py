"""Everything that can go wrong with a checkpoint folder, done to a copy of the demo checkpoint on purpose.

`python -m tests.support.corruptions` writes docs/verify.md from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.support.damage import (
    CONDITION,
    DEPTH,
    LM,
    LM_INDEX,
    SHARD_1,
    SHARD_2,
    SHARD_4,
    TOKENIZER,
    VOCODER,
    Change,
    add,
    append,
    cut,
    delete,
    drop_tensor,
    edit,
    edit_header,
    edit_map,
    first,
    flip,
    header_length,
    linked_copy,
    make_native,
    move_token,
    pipe,
    recorded,
    replace,
    shift_offsets,
    swap,
    twice,
    write_values,
)


@dataclass(frozen=True)
class Corruption:
    """One way to break a checkpoint.

    Attributes:
        name: as people say it.
        change: does it to a folder.
        found: every (kind, file) that `verify` must name, and no other.
        depth: flags of the shallowest depth that finds it: `--quick`, nothing, or `--deep`.
    """

    name: str
    change: Change
    found: frozenset[tuple[str, str]]
    depth: str


def _c(name: str, change: Change, depth: str, *found: tuple[str, str]) -> Corruption:
    return Corruption(name, change, frozenset(found), depth)


Q, D, DEEP = "--quick", "", "--deep"

CORRUPTIONS = [
    _c("a shard is missing", delete(SHARD_2), Q, ("missing", SHARD_2)),
    _c("a config is missing", delete("vocoder/config.json"), Q, ("missing", "vocoder/config.json")),
    _c("a component is missing", delete("transformer"), Q, ("missing", "transformer")),
    _c("the tokenizer is missing", delete(TOKENIZER), Q, ("missing", TOKENIZER)),
    _c("the licence is missing", delete("LICENSE"), Q, ("missing", "LICENSE")),
    _c("the modular index is missing", delete("modular_model_index.json"), Q, ("missing", "modular_model_index.json")),
    _c(
        "a shard too many",
        add(f"{LM}/model-00005-of-00004.safetensors"),
        D,
        ("extra", "language_model/model-00005-of-00004.safetensors"),
    ),
    _c("a file too many in the root", add("model.safetensors"), D, ("extra", "model.safetensors")),
    _c("a shard lacks its last byte", cut(SHARD_1, -1), Q, ("truncated", SHARD_1)),
    _c("a weight file is empty", cut(VOCODER, 0), Q, ("truncated", VOCODER)),
    _c("a weight file ends in its header", cut(DEPTH, 100), Q, ("header", DEPTH), ("truncated", DEPTH)),
    _c("the tokenizer lacks its end", cut(TOKENIZER, 20000), Q, ("tokens", TOKENIZER), ("truncated", TOKENIZER)),
    _c("a weight file has bytes behind its end", append(CONDITION, bytes(100)), Q, ("longer", CONDITION)),
    _c("one bit of the weights is flipped", flip(SHARD_4, 10_000_000), D, ("changed", SHARD_4)),
    _c(
        "one bit of the tokenizer's template is flipped",
        flip("tokenizer/chat_template.jinja", 20),
        D,
        ("changed", "tokenizer/chat_template.jinja"),
    ),
    _c("two shards are swapped", swap(SHARD_1, SHARD_4), Q, ("swapped", SHARD_1), ("swapped", SHARD_4)),
    _c(
        "two components' weights are swapped", swap(VOCODER, CONDITION), Q, ("swapped", CONDITION), ("swapped", VOCODER)
    ),
    _c(
        "two configs are swapped",
        swap("vocoder/config.json", "transformer/config.json"),
        Q,
        ("swapped", "transformer/config.json"),
        ("swapped", "vocoder/config.json"),
    ),
    _c(
        "two small files are swapped",
        swap("LICENSE", "tokenizer/chat_template.jinja"),
        Q,
        ("swapped", "LICENSE"),
        ("swapped", "tokenizer/chat_template.jinja"),
    ),
    _c(
        "a header says that it is 2^60 bytes long",
        header_length(VOCODER, 2**60),
        Q,
        ("changed", VOCODER),
        ("header", VOCODER),
    ),
    _c(
        "a header says that it is 40 bytes long",
        header_length(VOCODER, 40),
        Q,
        ("changed", VOCODER),
        ("header", VOCODER),
    ),
    _c("a header is no JSON", flip(VOCODER, 8), Q, ("changed", VOCODER), ("header", VOCODER)),
    _c("tensors overlap", edit_header(CONDITION, shift_offsets(-4)), Q, ("changed", CONDITION), ("header", CONDITION)),
    _c(
        "a gap between tensors",
        edit_header(CONDITION, shift_offsets(4)),
        Q,
        ("changed", CONDITION),
        ("header", CONDITION),
    ),
    _c(
        "a tensor's bytes do not fit its shape",
        edit_header(CONDITION, lambda e: first(e, shape=[7])),
        Q,
        ("changed", CONDITION),
        ("header", CONDITION),
    ),
    _c(
        "a tensor is in the header twice",
        edit_header(CONDITION, twice),
        Q,
        ("header", CONDITION),
        ("longer", CONDITION),
    ),
    _c(
        "a tensor begins before the file",
        edit_header(CONDITION, lambda e: first(e, data_offsets=[-32, 0])),
        Q,
        ("changed", CONDITION),
        ("header", CONDITION),
    ),
    _c(
        "the index leaves the folder",
        edit_map(LM_INDEX, "lm_head.weight", "../../../secret.safetensors"),
        Q,
        ("changed", LM_INDEX),
        ("index", LM_INDEX),
    ),
    _c(
        "the index names an absolute path",
        edit_map(LM_INDEX, "lm_head.weight", "/secret.safetensors"),
        Q,
        ("changed", LM_INDEX),
        ("index", LM_INDEX),
    ),
    _c(
        "the index lists a tensor in another shard",
        edit_map(LM_INDEX, "model.norm.weight", SHARD_1.split("/")[1]),
        Q,
        ("changed", LM_INDEX),
        ("index", SHARD_1),
        ("tensor", LM),
    ),
    _c(
        "the index lists a shard that is not there",
        edit_map(LM_INDEX, "lm_head.weight", "more.safetensors"),
        Q,
        ("changed", LM_INDEX),
        ("missing", "language_model/more.safetensors"),
    ),
    _c("the index is no JSON", cut(LM_INDEX, 500), Q, ("index", LM_INDEX), ("truncated", LM_INDEX)),
    _c(
        "a tensor has another name",
        edit_header(DEPTH, drop_tensor),
        Q,
        ("changed", DEPTH),
        ("tensor", "rvq_depth_decoder"),
    ),
    _c(
        "a tensor has another shape",
        edit_header(DEPTH, lambda e: e["projection.weight"].update(shape=[32, 128])),
        Q,
        ("changed", DEPTH),
        ("tensor", DEPTH),
    ),
    _c(
        "a tensor holds whole numbers",
        edit_header(DEPTH, lambda e: e["projection.weight"].update(dtype="I16")),
        Q,
        ("changed", DEPTH),
        ("tensor", DEPTH),
    ),
    _c(
        "a config lacks a field",
        edit("vocoder/config.json", sampling_rate=...),
        Q,
        ("changed", "vocoder/config.json"),
        ("config", "vocoder/config.json"),
    ),
    _c(
        "a config is no JSON",
        cut("vocoder/config.json", 60),
        Q,
        ("config", "vocoder/config.json"),
        ("truncated", "vocoder/config.json"),
    ),
    _c(
        "a config is another model's",
        edit("vocoder/config.json", _class_name="AutoencoderOobleck"),
        Q,
        ("changed", "vocoder/config.json"),
        ("config", "vocoder/config.json"),
    ),
    _c(
        "a config asks for a million million layers",
        edit("transformer/config.json", num_layers=10**12),
        Q,
        ("changed", "transformer/config.json"),
        ("config", "transformer/config.json"),
    ),
    _c(
        "hidden sizes disagree",
        edit("rvq_depth_decoder/config.json", hidden_size=128),
        Q,
        ("changed", "rvq_depth_decoder/config.json"),
        ("config", "."),
        ("tensor", DEPTH),
    ),
    _c(
        "codebooks disagree",
        edit("condition_encoder/config.json", num_condition_layers=9),
        Q,
        ("changed", "condition_encoder/config.json"),
        ("config", "."),
        ("tensor", CONDITION),
    ),
    _c(
        "rates disagree",
        edit("vocoder/config.json", sampling_rate=48000),
        Q,
        ("changed", "vocoder/config.json"),
        ("config", "."),
    ),
    _c(
        "hops disagree",
        edit("condition_encoder/config.json", output_hop_length=1024),
        Q,
        ("changed", "condition_encoder/config.json"),
        ("config", "."),
    ),
    _c("a special token has another id", move_token, Q, ("changed", TOKENIZER), ("tokens", TOKENIZER)),
    _c("the tokenizer is no JSON", cut(TOKENIZER, 40), Q, ("tokens", TOKENIZER), ("truncated", TOKENIZER)),
    _c(
        "the modular index names another class",
        edit("modular_model_index.json", vocoder=["diffusers", "AutoencoderOobleck"]),
        Q,
        ("changed", "modular_model_index.json"),
        ("index", "modular_model_index.json"),
    ),
    _c(
        "the scheduler has another time grid",
        edit("scheduler/scheduler_config.json", shift=3.0),
        Q,
        ("changed", "scheduler/scheduler_config.json"),
        ("config", "scheduler/scheduler_config.json"),
    ),
    _c("a pipe instead of a file", pipe(CONDITION), Q, ("unreadable", CONDITION)),
    _c("a download has not finished", lambda root: (root / ".music3-partial").mkdir(), Q, ("unfinished", ".")),
    _c(
        "the completion record is no JSON",
        lambda root: replace(root / ".music3-checkpoint.json", b"{"),
        Q,
        ("record", ".music3-checkpoint.json"),
    ),
    _c("the native packaging", make_native, Q, ("packaging", ".")),
    _c(
        "a weight is not a number",
        recorded(write_values(VOCODER, "conv_in.bias", float("nan"))),
        DEEP,
        ("values", VOCODER),
    ),
    _c(
        "a weight is infinite",
        recorded(write_values(CONDITION, "layer_scale", float("inf"))),
        DEEP,
        ("values", CONDITION),
    ),
    _c(
        "a weight-norm scale is zero",
        recorded(write_values(VOCODER, "conv_out.weight_g", 0.0)),
        DEEP,
        ("values", VOCODER),
    ),
]


def printed(root: Path, depth: str) -> tuple[int, list[str]]:
    """Exit code and finding lines of `music3 verify` in a process of its own, the folder's own path left out."""
    import subprocess
    import sys

    command = [sys.executable, "-m", "music3_cli", "verify", str(root), "-q", *depth.split()]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.returncode, [line.replace(str(root), "FOLDER") for line in ran.stdout.splitlines()]


HEAD = """# What `music3 verify` finds

Every line below was done to a copy of the demo checkpoint, and `music3 verify` was run on it. A test does all of it
again and compares the exit codes and every line. The file is made by `python -m tests.support.corruptions`.

- `--quick`: files, sizes, headers, names and shapes against the configs, configs against each other. Every command that
  opens a checkpoint makes this check, in milliseconds, and refuses with the same findings.
- without a flag: also sha256 of every file, against the published digests or against the completion record; special
  tokens, the modular index, the scheduler; files that do not belong.
- `--deep`: also every value: finite, no weight-norm scale of zero; statistics a component.

The column *from* names the first depth that finds something; the lines are those of the default depth (of `--deep`
where only that finds it). Exit code 5 means findings, 0 none.

Kinds of findings:

"""


def document(source: Path, work: Path) -> str:
    """docs/verify.md."""
    from music3_cli.checkpoint.findings import KINDS

    lines = [HEAD + "\n".join(f"- `{kind}`: {meaning}" for kind, meaning in KINDS.items()), ""]
    lines += ["| # | what was done | from | exit code | what `verify` prints |", "|---|---|---|---|---|"]
    for number, corruption in enumerate(CORRUPTIONS, start=1):
        root = linked_copy(source, work / str(number))
        corruption.change(root)
        code, out = printed(root, DEEP if corruption.depth == DEEP else D)
        text = "<br>".join(f"`{line}`" for line in out).replace("|", "\\|")
        lines.append(f"| {number} | {corruption.name} | `{corruption.depth or 'default'}` | {code} | {text} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    import tempfile

    from music3_cli.checkpoint.demo import write_demo
    from music3_cli.checkpoint.record import write_record
    from music3_cli.checkpoint.stock import read_files, table_of
    from music3_cli.checkpoint.workers import finish

    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "demo"
        write_demo(made)
        write_record(made, table_of(finish(read_files(made, (), "verify")), "demo", "1"), "demo")
        target = Path(__file__).parents[2] / "docs" / "verify.md"
        target.parent.mkdir(exist_ok=True)
        target.write_text(document(made, Path(folder)), encoding="utf-8")
