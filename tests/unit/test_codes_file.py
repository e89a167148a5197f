"""Codes files: written, read, repeated, and refused when anything about them is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from music3_cli.errors import InputError
from music3_cli.song.codes import CODES_A_BOOK, SongCodes, check_codes, codes_path, read_codes, write_codes

RECORD = {
    "song": {"title": "夜の歌"},
    "settings": {"lyrics": "[verse]\nla", "caption": "a song", "seed": 2**64 - 1},
    "checkpoint": {"name": "demo", "digest": "d" * 64},
}


def codes(frames: int = 5, state: bool = False) -> SongCodes:
    rng = np.random.default_rng(frames)
    numbers = np.stack([rng.integers(0, size, frames + 1) for size in CODES_A_BOOK], 1).astype(np.int16)
    noise_state = rng.integers(0, 256, 5056).astype(np.uint8) if state else None
    return SongCodes(numbers[1:], numbers[0], "end", noise_state)


@pytest.mark.parametrize("state", [False, True])
def test_what_is_written_is_read(tmp_path: Path, state: bool) -> None:
    written, path = codes(300, state), tmp_path / "a.codes.safetensors"
    write_codes(path, written, RECORD)
    read = read_codes(path)
    assert np.array_equal(read.codes_FC, written.codes_FC) and np.array_equal(read.priming_C, written.priming_C)
    assert (read.noise_state is None) == (not state) and read.digest == written.digest and read.finish_reason == "end"
    assert read.record["settings"]["seed"] == 2**64 - 1 and read.record["song"]["title"] == "夜の歌"
    assert read.steps_FC.shape == (301, 8) and np.array_equal(read.steps_FC[0], written.priming_C)
    assert path.stat().st_size < 300 * 16 + (7000 if state else 2000)
    check_codes(read, path.name, "d" * 64)


def test_equal_codes_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_codes(tmp_path / name, codes(50, True), RECORD)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_path_is_beside_the_song() -> None:
    assert codes_path(Path("out/night.flac")) == Path("out/night.flac.codes.safetensors")


def rewrite(path: Path, change: Callable[[dict[str, np.ndarray], dict[str, Any]], None]) -> None:
    """The same file with tensors and record changed by hand, a valid safetensors file again."""
    from safetensors import safe_open

    with safe_open(path, "numpy") as file:
        record = json.loads(file.metadata()["music3"])
    tensors = load_file(path)
    change(tensors, record)
    save_file(tensors, path, {"music3": json.dumps(record)})


CHANGES: list[tuple[Callable[[dict[str, np.ndarray], dict[str, Any]], Any], str]] = [
    (lambda tensors, _: tensors.update(codes=tensors["codes"][:, :7].copy()), r"codes is \[5, 7\].*\[frames, 8\]"),
    (lambda tensors, _: tensors.update(codes=tensors["codes"][:0].copy()), r"codes is \[0, 8\]"),
    (lambda tensors, _: tensors.update(codes=tensors["codes"].astype(np.int32)), "int32; .*int16 was expected"),
    (lambda tensors, _: tensors.pop("priming"), "tensor priming is missing"),
    (lambda tensors, _: tensors["codes"].__setitem__((3, 0), 7), "do not match their digest"),
    (lambda tensors, _: tensors["priming"].__setitem__(1, 7), "do not match their digest"),
    (lambda _, record: record.update(version=99), "version 99; 1 was expected"),
    (lambda _, record: record.update(settings=3), "not a codes file"),
    (lambda _, record: record.pop("digest"), "not a codes file"),
    (lambda _, record: record.update(finish_reason="?"), "end or ceiling was expected"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_a_changed_file_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "a.codes.safetensors"
    write_codes(path, codes(), RECORD)
    rewrite(path, change)
    with pytest.raises(InputError, match=message) as caught:
        read_codes(path)
    assert str(path) in caught.value.message


def test_codes_outside_their_books_are_refused(tmp_path: Path) -> None:
    path, wrong = tmp_path / "a", codes()
    wrong.codes_FC[2, 3] = 1024
    write_codes(path, wrong, RECORD)
    with pytest.raises(InputError, match="step 3 has code 1024 in codebook 3"):
        read_codes(path)


def test_another_checkpoints_codes_are_refused(tmp_path: Path) -> None:
    write_codes(tmp_path / "a", codes(), RECORD)
    with pytest.raises(InputError, match="drawn with checkpoint demo") as caught:
        check_codes(read_codes(tmp_path / "a"), "a", "e" * 64)
    assert "--checkpoint" in caught.value.hint


def test_missing_and_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_codes(tmp_path / "none")
    (tmp_path / "text").write_text("words")
    with pytest.raises(InputError, match="not a readable codes file"):
        read_codes(tmp_path / "text")
    save_file({"x": np.zeros(3, np.float32)}, tmp_path / "other")
    with pytest.raises(InputError, match="not a codes file of music3"):
        read_codes(tmp_path / "other")


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_damage_anywhere_is_an_input_error_or_changes_only_the_record(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damage") / "a"
    write_codes(path, codes(), RECORD)
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:at]
    else:
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    try:
        read = read_codes(path)
    except InputError:
        return
    assert read.digest == codes().digest
