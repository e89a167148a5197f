"""Rules about characters that nobody sees: what editors, web pages and other encodings leave in a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from music3_cli.song.lint.rule import Edit, Hit, Rule, register

UNREADABLE = register(
    Rule(
        "file-unreadable",
        "error",
        "file",
        "The file is not there, is a folder, cannot be read, or is larger than 4 MiB.",
        "{what}",
        "{hint}",
    )
)
NOT_UTF8 = register(
    Rule(
        "text-not-utf8",
        "error",
        "file",
        "The bytes are not UTF-8, so which letters were meant is a guess that music3 does not make.",
        "{what}",
        "{hint}",
    )
)
UTF16 = register(
    Rule(
        "text-utf16",
        "error",
        "file",
        "The file is UTF-16 or UTF-32, as some Windows programs save text.",
        "{what}",
        "{hint}",
        fix="writes the same text as UTF-8",
    )
)
ZERO_BYTE = register(
    Rule("text-zero-byte", "error", "file", "A zero byte: the file is not a text.", "{what}", "{hint}"),
)
BOM = register(
    Rule(
        "text-bom",
        "info",
        "file",
        "The file begins with a byte-order mark. It is dropped on reading (and with `--lyrics as-is` it is not).",
        "the file begins with a byte-order mark, which is dropped on reading",
        "Save as UTF-8 without it.",
        fix="removes it",
        example="\ufeff[verse]\nMorning light on the pine\n[outro]\n",
    )
)
RETURNS = register(
    Rule(
        "text-carriage-return",
        "info",
        "file",
        "Line ends of Windows or old Macs. They are turned into plain ones on reading (not with `--lyrics as-is`).",
        "{count} carriage returns, which are turned into plain line ends on reading",
        "Save with Unix line ends.",
        fix="turns them into plain line ends",
        example="[verse]\r\nMorning light on the pine\r\n[outro]\r\n",
    )
)
SEPARATOR = register(
    Rule(
        "text-line-separator",
        "warning",
        "file",
        "A character that editors show as a new line and the model does not: behind a tag it makes words vanish.",
        "{name} looks like a new line and is none for the model",
        "Press Enter there instead.",
        fix="puts a real line end there",
        example="[verse]\u2028Morning light on the pine\n[outro]\n",
    )
)
SPACE = register(
    Rule(
        "text-space",
        "warning",
        "file",
        "A space that is not the plain one (non-breaking, thin, ...). In front of a tag it hides the tag.",
        "{name} instead of a plain space, in {words}",
        "Type a plain space there.",
        fix="puts a plain space there",
        example="\u00a0[verse]\nMorning\u00a0light on the pine\n[outro]\n",
    )
)
INVISIBLE = register(
    Rule(
        "text-invisible",
        "warning",
        "file",
        "A character without width (zero-width space, soft hyphen, direction mark). It hides tags and splits words.",
        "{name} is invisible and is part of the prompt, in {words}",
        "Delete it; it often comes with text copied from a web page.",
        fix="removes it",
        example="[verse]\nMorn\u200bing light on the pine\n[outro]\n",
    )
)
CONTROL = register(
    Rule(
        "text-control",
        "warning",
        "file",
        "A control character, which is no part of any word.",
        "control character {name}, in {words}",
        "Delete it.",
        fix="removes it",
        example="[verse]\nMorning\x07 light on the pine\n[outro]\n",
    )
)
MOJIBAKE = register(
    Rule(
        "text-mojibake",
        "warning",
        "file",
        "Letters that were once UTF-8 and were read as Windows-1252 by some program on the way.",
        "{words} is UTF-8 that was read in another encoding; {meant} was meant",
        "Write the letters as they were meant.",
        fix="restores the letters",
        example="[verse]\nUn cafÃ© le matin\n[outro]\n",
    )
)
REPLACEMENT = register(
    Rule(
        "text-replacement",
        "warning",
        "file",
        "The replacement character: a program on the way could not read a letter and threw it away.",
        "a letter is lost (replacement character U+FFFD), in {words}",
        "Write the letter again.",
        example="[verse]\nUn caf\ufffd le matin\n[outro]\n",
    )
)

_SEPARATORS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f]")
_WIDE_SPACE = re.compile("^\u3000+(?=[ \t]*\\[)|(?<=\\])\u3000+", re.MULTILINE)
_INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb]")
_JOINERS = "\u200c\u200d"
_CONTROL = re.compile("[\x01-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f]")
_LEADS = "ÂÃÄÅÐÑâ"
_HIGH_RUN = re.compile("[\u0080-\u00ff€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]{2,}")


def check_raw(text: str) -> Iterator[Hit]:
    """What reading cleans: hits in the text as decoded, before it is cleaned."""
    if text.startswith("\ufeff"):
        yield BOM.hit(0, edits=[Edit(0, 1, "")])
    if "\r" in text:
        edits = [Edit(match.start(), match.end(), "\n") for match in re.finditer("\r\n?", text)]
        yield RETURNS.hit(text.index("\r"), edits=edits, count=text.count("\r"))


def check_characters(text: str) -> Iterator[Hit]:
    """What hides in the cleaned text, one hit a line and rule."""
    yield from _runs(text, _SEPARATORS, SEPARATOR, "\n")
    yield from _runs(text, _SPACES, SPACE, " ")
    yield from _runs(text, _WIDE_SPACE, SPACE, " ")
    yield from _runs(text, _INVISIBLE, INVISIBLE, "")
    yield from _runs(text, _CONTROL, CONTROL, "")
    for match in _HIGH_RUN.finditer(text):
        if (meant := _as_meant(match.group())) is not None:
            yield MOJIBAKE.hit(
                match.start(), match.group(), [Edit(match.start(), match.end(), meant)], meant=repr(meant)
            )
    yield from _runs(text, re.compile("\ufffd"), REPLACEMENT, None)


def _runs(text: str, pattern: re.Pattern[str], rule: Rule, new: str | None) -> Iterator[Hit]:
    """One hit for each line with matches, mending all of the line's."""
    edits: list[Edit] = []
    line, first, name = -1, 0, ""
    for match in pattern.finditer(text):
        if match.group() in _JOINERS and not _is_stray_joiner(text, match.start()):
            continue
        here = text.rfind("\n", 0, match.start())
        if here != line and edits:
            yield _run_hit(text, rule, first, name, edits, new)
            edits = []
        if not edits:
            line, first, name = here, match.start(), _name(match.group()[0])
        edge = text[match.start() - 1 : match.start()] in ("", "\n") or text[match.end() : match.end() + 1] in (
            "",
            "\n",
        )
        edits.append(Edit(match.start(), match.end(), "" if edge and new == " " else new or ""))
    if edits:
        yield _run_hit(text, rule, first, name, edits, new)


def _run_hit(text: str, rule: Rule, first: int, name: str, edits: list[Edit], new: str | None) -> Hit:
    return rule.hit(first, _around(text, first), edits if new is not None else [], name=name)


def _is_stray_joiner(text: str, index: int) -> bool:
    """Joiners belong into several scripts and into emoji; between Latin letters and blanks they are left-overs."""
    before, after = text[index - 1 : index], text[index + 1 : index + 2]
    return not before or not after or (before < "\u0370" and after < "\u0370") or before.isspace() or after.isspace()


def _name(character: str) -> str:
    code = f"U+{ord(character):04X}"
    name = unicodedata.name(character, "").lower()
    return f"{name} ({code})" if name else code


def _around(text: str, index: int) -> str:
    """The words around a place, on its line; whole ones, if they are not too long."""
    first = text.rfind("\n", 0, index) + 1
    last = text.find("\n", index)
    last = last if last >= 0 else len(text)
    start, end = max(first, index - 16), min(last, index + 17)
    if start > first:
        start = text.find(" ", start, index) + 1 or start
    if end < last:
        end = max(text.rfind(" ", index + 1, end), index + 1) if " " in text[index + 1 : end] else end
    return text[start:end]


def _as_meant(run: str) -> str | None:
    """`run` read again as UTF-8, if it can be and begins as such runs do.

    Short runs such as `É»` at the end of a French quotation can be read so by chance.
    """
    if run[0] not in _LEADS and len(run) < 6 and not run.startswith("ï»¿"):
        return None
    data = bytearray()
    for character in run:
        try:
            data += character.encode("cp1252")
        except UnicodeEncodeError:
            if ord(character) > 0xFF:
                return None
            data.append(ord(character))
    try:
        meant = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return meant if not _CONTROL.search(meant) else None
