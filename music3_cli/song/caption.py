"""The caption's cleaning, the model's contract (spec section 2)."""

from __future__ import annotations

import re

_SPECIAL_TAG = re.compile(r"<\|([^|]*)\|>")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+")
_BULLET = re.compile(r"^\s*[*+-]\s+")
_STAR_BULLET = re.compile(r"^\s*\*\s+")
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_ITALIC = re.compile(r"(?<!\*)\*([^*\n]+)\*(?!\*)")
_RULE = re.compile(r"^\s*[-*_]{3,}\s*$", re.MULTILINE)
_NEWLINES = re.compile(r"\n{2,}")


def clean_caption(caption: str) -> str:
    """Strip the markup that the model was not trained on, exactly as its reference does and in its order.

    `<|a b c|>` becomes `a is b c`; headings, bullets, bold and italic lose their marks; rules become blank;
    `"• "` and runs of four spaces go; several newlines become one.
    """
    text = _SPECIAL_TAG.sub(_spell_out_tag, caption)
    text = "\n".join(_clean_line(line) for line in text.splitlines())
    text = _RULE.sub("", text).replace("• ", "").replace("    ", "")
    return _NEWLINES.sub("\n", text)


def _spell_out_tag(tag: re.Match[str]) -> str:
    words = tag.group(1).strip().split(None, 1)
    return " is ".join(words) if len(words) == 2 else tag.group(1).strip()


def _clean_line(line: str) -> str:
    for mark in (_HEADING, _BULLET, _STAR_BULLET):
        line = mark.sub("", line)
    unwrapped = _BOLD.sub(r"\1", line)
    while unwrapped != line:
        line, unwrapped = unwrapped, _BOLD.sub(r"\1", unwrapped)
    return _ITALIC.sub(r"\1", line).rstrip()
