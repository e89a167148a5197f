"""What the package knows of the released checkpoint, against the published sizes and digests; nothing is downloaded."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from music3_cli.checkpoint.layout import COMPONENTS
from music3_cli.checkpoint.released import released_small_files, released_table
from music3_cli.checkpoint.write import released_index, released_shards, shard_name
from tests.conftest import Music3
from tests.support.released_layout import header_bytes, released_shapes, write_hollow_release

TENSORS, PARAMETERS, BYTES, FILES = 1012, 11_741_745_387, 28_517_609_106, 24


@pytest.fixture(scope="session")
def hollow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("released") / "checkpoint"
    root.mkdir()
    write_hollow_release(root)
    return root


def test_the_table_is_the_published_one() -> None:
    table = released_table()
    assert len(table.files) == FILES and table.total_bytes == BYTES
    assert all(len(entry.sha256) == 64 for entry in table.files.values())


def test_small_files_are_byte_for_byte_the_published_ones() -> None:
    files = released_small_files()
    assert len(files) == 8
    for path, content in files.items():
        entry = released_table().files[path]
        assert (len(content), hashlib.sha256(content).hexdigest()) == (entry.bytes, entry.sha256), path


@pytest.mark.parametrize("component", COMPONENTS.values(), ids=list(COMPONENTS))
def test_converted_weight_files_would_have_the_published_layout(component) -> None:  # type: ignore[no-untyped-def]
    """Sizes of all weight files, and the digests of both indexes, which hold every tensor's shard."""
    table, shapes = released_table().files, released_shapes()[component.name]
    shards = released_shards(component, shapes)
    weight_map = {}
    for number, names in enumerate(shards, start=1):
        file = shard_name(component, number, len(shards))
        head, body = header_bytes(component, names, shapes)
        assert len(head) + body == table[f"{component.name}/{file}"].bytes
        weight_map.update(dict.fromkeys(names, file))
    if len(shards) > 1:
        text = released_index(component, shapes, weight_map).encode()
        assert hashlib.sha256(text).hexdigest() == table[f"{component.name}/{component.index_file}"].sha256
    assert len(table) == FILES


def test_inspect_from_headers_alone(hollow: Path, music3: Music3) -> None:
    ran = music3("inspect", "checkpoint", hollow, "--json")
    assert ran.code == 0
    seen = json.loads(ran.out)
    assert seen["totals"] == {"tensors": TENSORS, "parameters": PARAMETERS, "bytes": BYTES, "files": FILES}
    assert {row["component"]: row["tensors"] for row in seen["components"] if row["tensors"]} == {
        "language_model": 399,
        "rvq_depth_decoder": 47,
        "condition_encoder": 4,
        "transformer": 441,
        "vocoder": 121,
    }
    memory = seen["memory"]
    assert memory["resident_bytes"] == memory["talker_bytes"] + memory["acoustic_bytes"]
    assert memory["swapped_bytes"] == max(memory["talker_bytes"], memory["acoustic_bytes"])
    text = music3("inspect", "checkpoint", hollow, "--tensors", "vocoder/*weight_g")
    for said in ("1,012", "11,741,745,387", "28,517,609,106", "packaging: modular", "never here"):
        assert said in text.out
    listed = [line for line in text.out.splitlines() if line.strip().startswith("vocoder ") and "weight_g" in line]
    assert f"{len(listed)} tensors match" in text.out and len(listed) == 30


def test_quick_passes_and_size_is_not_all(hollow: Path, music3: Music3) -> None:
    """All headers and sizes right, every weight zero: only the digests see it (read here is the tokenizer alone)."""
    from music3_cli.checkpoint.inventory import survey

    assert not survey(hollow).findings
    assert music3("verify", hollow, "--quick").code == 0


def test_inspect_a_damaged_folder_shows_what_is_there(
    hollow: Path, music3: Music3, demo_root: Path, tmp_path: Path
) -> None:
    from tests.support.damage import VOCODER, cut, linked_copy

    root = linked_copy(demo_root, tmp_path / "damaged")
    cut(VOCODER, 1000)(root)
    ran = music3("inspect", "checkpoint", root, "--json")
    assert ran.code == 5
    seen = json.loads(ran.out)
    assert seen["memory"] is None and seen["digest"] is None
    assert [(one["kind"], one["file"]) for one in seen["findings"]][0] == ("header", VOCODER)
    rows = {row["component"]: row for row in seen["components"]}
    assert rows["transformer"]["tensors"] == 33 and rows["vocoder"]["tensors"] == 0 and rows["vocoder"]["files"] == 2


def test_inspect_says_where_it_is_from(demo_root: Path, music3: Music3) -> None:
    seen = json.loads(music3("inspect", "checkpoint", "demo", "--json").out)
    assert seen["demo"] and seen["verified"]["by"] == "demo" and seen["revision"]
    assert "verified: every file had the right sha256 at the making, " in music3("inspect", "checkpoint", "demo").out
