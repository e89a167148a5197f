"""`music3 verify`: every known way to break a checkpoint is found and named, and a whole one is not blamed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from music3_cli.checkpoint.inventory import open_checkpoint
from music3_cli.checkpoint.record import RECORD_FILE
from music3_cli.checkpoint.verify import DEFAULT, QUICK, verify
from music3_cli.checkpoint.workers import finish
from music3_cli.errors import CheckpointError, ManyErrors
from tests.conftest import ROOT, Music3
from tests.support.corruptions import CORRUPTIONS, DEEP, Corruption, D, Q
from tests.support.damage import flip, linked_copy, swap

DEPTHS = (Q, D, DEEP)
NAMES = {Q: QUICK, D: DEFAULT, DEEP: "deep"}
DOCUMENT = ROOT / "docs" / "verify.md"


@pytest.fixture
def copy(demo_root: Path, tmp_path: Path) -> Path:
    return linked_copy(demo_root, tmp_path / "checkpoint")


@pytest.mark.parametrize("corruption", CORRUPTIONS, ids=lambda corruption: corruption.name)
def test_every_corruption_is_found_and_named(corruption: Corruption, copy: Path, music3: Music3) -> None:
    corruption.change(copy)
    for depth in DEPTHS[: DEPTHS.index(corruption.depth)]:
        assert not finish(verify(copy, NAMES[depth])).findings, f"found before {corruption.depth}"
    if corruption.depth == Q:
        with pytest.raises((CheckpointError, ManyErrors)) as refused:
            open_checkpoint(copy)
        assert refused.value.exit_code == 5
    ran = music3("verify", copy, *(DEEP.split() if corruption.depth == DEEP else ()), "-q")
    assert ran.code == 5
    lines = [line.replace(str(copy), "FOLDER") for line in ran.out.splitlines()]
    assert {tuple(line.split(": ")[:2]) for line in lines} == corruption.found
    row = next(line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if f"| {corruption.name} |" in line)
    text = "<br>".join(f"`{line}`" for line in lines).replace("|", "\\|")
    assert row.endswith(f"| 5 | {text} |"), "run `make docs`"


def test_json_names_the_same(copy: Path, music3: Music3) -> None:
    corruption = next(one for one in CORRUPTIONS if one.name == "the index lists a tensor in another shard")
    corruption.change(copy)
    ran = music3("verify", copy, "--json")
    assert ran.code == 5
    report = json.loads(ran.out)
    assert not report["ok"]
    assert {(one["kind"], one["file"]) for one in report["findings"]} == corruption.found
    assert all(one["found"] and one["hint"] for one in report["findings"])


def test_the_document_has_every_corruption() -> None:
    rows = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line[:3].strip("| ").isdecimal()]
    assert len(rows) == len(CORRUPTIONS) >= 25


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_whole_checkpoint_passes(depth: str, copy: Path, music3: Music3) -> None:
    ran = music3("verify", copy, *depth.split(), "--json")
    assert ran.code == 0
    report = json.loads(ran.out)
    assert report["ok"] and not report["findings"]
    assert report["files"] == (0 if depth == Q else 24)
    if depth == DEEP:
        assert sum(row["tensors"] for row in report["statistics"].values()) == 212
        assert all(row["not_finite"] == 0 and row["deviation"] > 0 for row in report["statistics"].values())


def test_several_faults_are_all_told(copy: Path, music3: Music3) -> None:
    for change in (flip("LICENSE", 3), swap("vocoder/config.json", "transformer/config.json")):
        change(copy)
    (copy / "tokenizer" / "tokenizer_config.json").unlink()
    ran = music3("verify", copy)
    assert ran.code == 5
    for line in ("changed: LICENSE: ", "swapped: vocoder/config.json: ", "missing: tokenizer/tokenizer_config.json: "):
        assert line in ran.out
    assert "4 findings" in ran.err


def test_files_that_are_links_as_in_the_hubs_cache(demo_root: Path, tmp_path: Path, music3: Music3) -> None:
    root = tmp_path / "snapshot"
    for file in (file for file in demo_root.rglob("*") if file.is_file()):
        link = root / file.relative_to(demo_root)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)
    assert music3("verify", root, "--deep").code == 0


def test_without_a_record_the_published_digests_count(copy: Path, music3: Music3) -> None:
    (copy / RECORD_FILE).unlink()
    demo = music3("verify", copy)
    assert demo.code == 0 and "no digests are known" in demo.out
    (copy / "config.json").unlink()
    (copy / "config.json").write_text('{"model_type": "minimax-music3"}')
    ran = music3("verify", copy)
    assert ran.code == 5
    assert "the published digests of MiniMaxAI/MiniMax-Music3" in ran.out
    assert "truncated: " in ran.out or "changed: " in ran.out
    assert music3("verify", copy, "--quick").code == 0


def test_unreadable_files_are_told(copy: Path, music3: Music3) -> None:
    file = copy / "LICENSE"
    file.unlink()
    file.symlink_to(copy / "nowhere")
    ran = music3("verify", copy)
    assert ran.code == 5 and "missing: LICENSE" in ran.out


def test_names_cannot_talk_to_the_terminal(copy: Path, music3: Music3) -> None:
    from tests.support.damage import DEPTH, edit_header

    def rename(entries: dict[str, object]) -> None:
        entries["\x1b[31mred"] = entries.pop("projection.weight")

    edit_header(DEPTH, rename)(copy)
    for ran in (music3("verify", copy, "--quick"), music3("inspect", "checkpoint", copy, "--tensors", "*red")):
        assert ran.code == 5
        assert "\x1b" not in ran.out + ran.err
        assert "\\x1b[31mred" in ran.out + ran.err


def test_nothing_outside_is_read(copy: Path, music3: Music3, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that points out of the folder: the file behind it is never opened."""
    from tests.support.damage import LM_INDEX, edit_map

    secret = copy.parent / "secret.safetensors"
    secret.write_bytes(b"secret")
    edit_map(LM_INDEX, "lm_head.weight", "../../secret.safetensors")(copy)
    opened = []
    real = Path.open

    def spy(self: Path, *args: object, **options: object) -> object:
        opened.append(str(self.resolve()))
        return real(self, *args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", spy)
    assert music3("verify", copy).code == 5
    assert str(secret) not in opened and opened


def test_quick_and_deep_exclude_each_other(music3: Music3) -> None:
    assert music3("verify", "demo", "--quick", "--deep").code == 2
