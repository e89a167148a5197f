"""Reading what people saved."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from music3_cli.errors import InputError
from music3_cli.song.text import decode_text, read_text


def test_a_windows_editor_s_file_is_cleaned_and_said_so() -> None:
    source = decode_text(b"\xef\xbb\xbf[verse]\r\nHi\r\n", "a.txt")
    assert source.text == "[verse]\nHi\n"
    assert len(source.notes) == 2
    assert "byte-order mark" in source.notes[0]


def test_clean_text_is_left_alone() -> None:
    source = decode_text("[verse]\n  夜\u00a0の \t\n".encode(), "a.txt")
    assert source.text == "[verse]\n  夜\u00a0の \t\n"
    assert source.notes == ()


def test_another_encoding_names_line_and_offset() -> None:
    with pytest.raises(InputError, match=r"a\.txt:2: byte 0xfc at offset 8 is not UTF-8"):
        decode_text("[a]\nhellü".encode("latin-1"), "a.txt")


def test_the_offset_counts_the_byte_order_mark() -> None:
    with pytest.raises(InputError, match="offset 4 "):
        decode_text(b"\xef\xbb\xbfa\xff", "a.txt")


@pytest.mark.parametrize("data", ["hi".encode("utf-16"), b"a\x00b", b"x" * (4 * 2**20 + 1)])
def test_what_is_no_utf8_text_is_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        decode_text(data, "a.txt")


def test_a_missing_file_gets_its_nearest_neighbour(tmp_path: Path) -> None:
    (tmp_path / "morning.txt").write_text("x")
    with pytest.raises(InputError) as error:
        read_text(str(tmp_path / "mornin.txt"))
    assert "morning.txt" in error.value.hint


@given(st.binary())
def test_any_bytes_are_text_or_an_input_error(data: bytes) -> None:
    try:
        assert "\r" not in decode_text(data, "a.txt").text
    except InputError as error:
        assert error.message.startswith("a.txt")
