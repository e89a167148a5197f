"""Reading text that people wrote: bytes to clean UTF-8, with a report of everything that was changed.

Cleaning is limited to what an editor puts in without being asked: a byte-order mark and carriage returns.
Everything else is the author's and part of the model's contract. `as_is` switches even that off.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from music3_cli.errors import InputError

MAX_TEXT_BYTES = 4 * 2**20


class SourceFault(InputError):
    """A text that cannot be used as it is, with its place.

    Attributes:
        rule: the id of the lint rule that reports it.
        what: the message without its place.
        line, column: counted from 1; 0 where the fault is the whole text's.
    """

    def __init__(self, rule: str, name: str, what: str, *, line: int = 0, column: int = 0, hint: str = "") -> None:
        super().__init__(f"{name}:{line}: {what}" if line else f"{name}: {what}", hint=hint)
        self.rule, self.what, self.line, self.column = rule, what, line, column


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


def decode_text(data: bytes, name: str, *, as_is: bool = False, most: int = MAX_TEXT_BYTES) -> SourceText:
    """Decode UTF-8 strictly and drop what editors add; with `as_is`, drop nothing.

    Raises:
        SourceFault: not UTF-8 (with line and byte offset), binary, or larger than `most` bytes.
    """
    if len(data) > most:
        raise SourceFault(
            "file-unreadable",
            name,
            f"{len(data):,} bytes; a text file of at most {most // 2**20} MiB was expected",
            hint="Is it the right file?",
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SourceFault(
            "text-utf16",
            name,
            "the file is UTF-16 (byte-order mark at byte 0); UTF-8 was expected",
            hint=f"Convert it: iconv -f UTF-16 -t UTF-8 {name} > utf8.txt",
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        raise SourceFault(
            "text-not-utf8",
            name,
            f"byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8",
            line=before.count(b"\n") + 1,
            column=len(before[before.rfind(b"\n") + 1 :].decode("utf-8")) + 1,
            hint="Save the file as UTF-8, or convert it: iconv -f WINDOWS-1252 -t UTF-8",
        ) from None
    return SourceText(name, text) if as_is else clean_text(text, name)


def clean_text(text: str, name: str) -> SourceText:
    """Drop a byte-order mark at the head and turn carriage returns into line ends, and tell so.

    Raises:
        SourceFault: a zero byte, which no text has.
    """
    notes = []
    if text.startswith("\ufeff"):
        text = text[1:]
        notes.append("removed a byte-order mark")
    if "\x00" in text:
        before = text[: text.index("\x00")]
        raise SourceFault(
            "text-zero-byte",
            name,
            "a zero byte; a text file was expected",
            line=before.count("\n") + 1,
            column=len(before) - before.rfind("\n"),
            hint="Is it the right file?",
        )
    returns = text.count("\r")
    if returns:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        notes.append(f"turned {returns} carriage return{'s' * (returns > 1)} into plain line ends")
    return SourceText(name, text, tuple(notes))


def visible(text: str) -> str:
    """`text` with every character that does not show on a screen spelled out, such as `<U+00A0>`."""
    return "".join(
        character if character.isprintable() or character == "\n" else f"<U+{ord(character):04X}>" for character in text
    )


def read_text(path: str, *, as_is: bool = False) -> SourceText:
    """Read `path`, or standard input for `-`.

    Raises:
        SourceFault: it cannot be read or decoded.
    """
    return decode_text(read_bytes(path), "<stdin>" if path == "-" else path, as_is=as_is)


def read_bytes(path: str, most: int = MAX_TEXT_BYTES) -> bytes:
    """The bytes of `path` or of standard input (`-`), one more than `most` at most.

    Raises:
        SourceFault: there is no such file, or it cannot be read.
    """
    if path == "-":
        return sys.stdin.buffer.read(most + 1)
    file = Path(path)
    try:
        if file.is_dir():
            raise SourceFault("file-unreadable", path, "is a folder; a text file was expected")
        with file.open("rb") as stream:
            return stream.read(most + 1)
    except FileNotFoundError:
        raise SourceFault("file-unreadable", path, "no such file", hint=_nearest_file(file)) from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        raise SourceFault("file-unreadable", path, f"cannot be read ({reason})") from None


def _nearest_file(file: Path) -> str:
    """A neighbour with nearly the same name, for typing mistakes."""
    from difflib import get_close_matches

    try:
        names = [entry.name for entry in file.parent.iterdir() if entry.is_file()]
    except OSError:
        return ""
    near = get_close_matches(file.name, names, n=1, cutoff=0.7)
    return f"Did you mean {file.parent / near[0]}?" if near else ""
