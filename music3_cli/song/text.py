"""Reading text that people wrote: bytes to clean UTF-8, with a report of everything that was changed.

Cleaning is limited to what an editor puts in without being asked: a byte-order mark and carriage returns.
Everything else is the author's and part of the model's contract.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from music3_cli.errors import InputError

MAX_TEXT_BYTES = 4 * 2**20


@dataclass(frozen=True)
class SourceText:
    """Text with its origin.

    Attributes:
        name: what messages call it, a path or `<stdin>`.
        text: decoded, line ends are `\\n`, no byte-order mark.
        notes: what was changed on reading, a sentence each.
    """

    name: str
    text: str
    notes: tuple[str, ...] = ()


def decode_text(data: bytes, name: str) -> SourceText:
    """Decode UTF-8 strictly and drop what editors add.

    Raises:
        InputError: not UTF-8 (with line and byte offset), binary, or larger than 4 MiB.
    """
    if len(data) > MAX_TEXT_BYTES:
        raise InputError(
            f"{name}: {len(data):,} bytes; a text file of at most 4 MiB was expected", hint="Is it the right file?"
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(
            f"{name}: the file is UTF-16 (byte-order mark at byte 0); UTF-8 was expected",
            hint=f"Convert it: iconv -f UTF-16 -t UTF-8 {name} > utf8.txt",
        )
    notes = []
    bom = data.startswith(b"\xef\xbb\xbf")
    if bom:
        data = data[3:]
        notes.append("removed a byte-order mark")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        offset = error.start + (3 if bom else 0)
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            f"{name}:{line}: byte 0x{data[error.start]:02x} at offset {offset} is not UTF-8",
            hint="Save the file as UTF-8, or convert it: iconv -f WINDOWS-1252 -t UTF-8",
        ) from None
    if "\x00" in text:
        line = text[: text.index("\x00")].count("\n") + 1
        raise InputError(f"{name}:{line}: a zero byte; a text file was expected", hint="Is it the right file?")
    returns = text.count("\r")
    if returns:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        notes.append(f"turned {returns} carriage return{'s' * (returns > 1)} into plain line ends")
    return SourceText(name, text, tuple(notes))


def read_text(path: str) -> SourceText:
    """Read `path`, or standard input for `-`.

    Raises:
        InputError: it cannot be read or decoded.
    """
    if path == "-":
        return decode_text(sys.stdin.buffer.read(MAX_TEXT_BYTES + 1), "<stdin>")
    file = Path(path)
    try:
        if file.is_dir():
            raise InputError(f"{path}: is a folder; a text file was expected")
        with file.open("rb") as stream:
            return decode_text(stream.read(MAX_TEXT_BYTES + 1), path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", hint=_nearest_file(file)) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None


def _nearest_file(file: Path) -> str:
    """A neighbour with nearly the same name, for typing mistakes."""
    from difflib import get_close_matches

    try:
        names = [entry.name for entry in file.parent.iterdir() if entry.is_file()]
    except OSError:
        return ""
    near = get_close_matches(file.name, names, n=1, cutoff=0.7)
    return f"Did you mean {file.parent / near[0]}?" if near else ""
