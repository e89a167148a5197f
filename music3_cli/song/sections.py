"""Sections of a song: the guide's tags, other names that people use for them, and a sheet cut at its tags.

The model has no list of allowed tags. The nine names here are those of its guide, the ones that it is known to follow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from music3_cli.song.lyrics import LEADING_TAGS, TAG

GUIDE_TAGS = (
    "intro",
    "verse",
    "pre-chorus",
    "chorus",
    "post-chorus",
    "bridge",
    "instrumental",
    "solo",
    "outro",
)
LONGEST_NAME = 40
"""Characters; a longer text names no section."""

WORDLESS_TAGS = ("intro", "instrumental", "solo", "outro")
"""Sections that are usual without words."""

REPEATED_TAGS = ("pre-chorus", "chorus", "post-chorus")
"""Sections that come back with the same words."""

_OTHER_NAMES = {
    "intro": "introduction opening 前奏 引子 イントロ 전주 인트로 introducción introdução introduzione "
    "вступление wstęp",
    "verse": "strophe 主歌 aメロ ヴァース 벌스 절 estrofa verso couplet vers strofa zwrotka куплет",
    "pre-chorus": "build lift 预副歌 預副歌 导歌 導歌 bメロ 프리코러스 precoro pré-refrão pré-refrain pre-ritornello",
    "chorus": "hook refrain 副歌 サビ 후렴 코러스 estribillo coro refrão ritornello refren refrein припев",
    "post-chorus": "tag 后副歌 後副歌 포스트코러스 poscoro",
    "bridge": "middle-eight middle-8 桥段 橋段 桥 ブリッジ cメロ 브릿지 브리지 puente ponte pont brücke mostek бридж",
    "instrumental": "interlude instrumental-break break 间奏 間奏 간주 interludio interlúdio zwischenspiel проигрыш",
    "solo": "guitar-solo piano-solo sax-solo drum-solo synth-solo 独奏 獨奏 ソロ 솔로 соло",
    "outro": "ending end coda fade-out fadeout finale 尾奏 尾声 尾聲 结尾 結尾 "
    "アウトロ 후주 아웃트로 final finał концовка",
}
_NAMES = {name: tag for tag, names in _OTHER_NAMES.items() for name in names.split()}
_NAMES |= {tag: tag for tag in GUIDE_TAGS}
_NAMES |= {"prechorus": "pre-chorus", "postchorus": "post-chorus", "inst": "instrumental", "instr": "instrumental"}

_NUMBER = r"(?:\d{1,2}|[ivx]{1,4}|one|two|three|four|five|first|second|third|last|final|一|二|三|四|①|②|③|④)"
_NUMBERED = re.compile(
    rf"(?:{_NUMBER}[ .]+)?(.+?)(?:(?<=[a-z])[ #.:-]*\d{{1,2}}|[ #.:-]+{_NUMBER}|[0-9一二三四①②③④]{{1,2}})?"
)
_EDGES = re.compile(r"^[\s:：.\-–—]+|[\s:：.\-–—]+$")
_BLANKS = re.compile(r"[\s_-]+")


@lru_cache(maxsize=4096)
def section_name(text: str) -> str | None:
    """The guide's tag that `text` names, in any case, with a number or in another common language; else None."""
    if len(text) > LONGEST_NAME:
        return None
    plain = _BLANKS.sub(" ", _EDGES.sub("", text).lower())
    for candidate in (plain, _without_number(plain)):
        if found := _NAMES.get(candidate.replace(" ", "-")) or _NAMES.get(candidate.replace(" ", "")):
            return found
    return None


def _without_number(plain: str) -> str:
    matched = _NUMBERED.fullmatch(plain)
    return matched.group(1).strip() if matched else plain


def is_other_name(text: str) -> bool:
    """Whether `text` is a whole name of a section, but not the guide's (`hook`, `副歌`)."""
    plain = _BLANKS.sub("-", _EDGES.sub("", text).lower())
    return plain in _NAMES and plain not in GUIDE_TAGS and _NAMES[plain].replace("-", "") != plain.replace("-", "")


def near_section(text: str) -> str | None:
    """The guide's tag that `text` was probably meant to be, one or two letters off."""
    near = get_close_matches(text.strip().lower(), GUIDE_TAGS, n=1, cutoff=0.8)
    return near[0] if near else None


@dataclass(frozen=True)
class Section:
    """A tag with the lines up to the next one.

    Attributes:
        name: the guide's tag where there is one for it, else the tag in lower case; empty for words before any tag.
        start: offset of the tag's line in the sheet.
        body_start, body_end: offsets of the lines below.
        lines: those lines that have something on them, stripped.
    """

    name: str
    start: int
    body_start: int
    body_end: int
    lines: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The lines that will be sung: those that are not a direction such as (instrumental)."""
        return tuple(line for line in self.lines if not is_direction(line))


def is_direction(line: str) -> bool:
    """Whether a line is the convention `(instrumental)`, or names a wordless section in round brackets."""
    inner = line.strip().strip("()（）").strip()
    return line.strip()[:1] in ("(", "（") and section_name(inner) in ("instrumental", "solo")


def split_sections(text: str) -> list[Section]:
    """Cut a sheet at its tag lines, as the model's contract reads them (words behind a tag are not there)."""
    sections: list[Section] = []
    name, start, body, offset = "", 0, 0, 0
    lines: list[str] = []
    for line in text.split("\n"):
        end = offset + len(line) + 1
        if tags := LEADING_TAGS.match(line):
            if sections or name or lines:
                sections.append(Section(name, start, body, offset, tuple(lines)))
            last = TAG.findall(tags.group(1))[-1]
            name, start, body, lines = section_name(last) or last.strip().lower(), offset, end, []
        elif line.strip():
            lines.append(line.strip())
        offset = end
    if name or lines:
        sections.append(Section(name, start, min(body, len(text)), len(text), tuple(lines)))
    return sections
