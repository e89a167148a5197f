"""Rules about what comes along when lyrics are pasted: chords, timestamps, repeat marks, markdown, HTML, head lines."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from music3_cli.song.lint.rule import Edit, Hit, Rule, register
from music3_cli.song.lyrics import FRONT_MATTER_FIELDS, LEADING_TAGS
from music3_cli.song.sections import section_name

TIMESTAMP = register(
    Rule(
        "lyrics-timestamp",
        "warning",
        "lyrics",
        "Time stamps or head lines of an LRC file. The model takes them for tags and drops the words behind them.",
        "the time stamp {words} counts as a tag: {lost}",
        "Delete time stamps; the model decides when a line is sung.",
        fix="removes them",
        example="[verse]\n[00:12.40]Morning light\n[00:15.10]On the pine\n[outro]\n",
    )
)
CHORD = register(
    Rule(
        "lyrics-chord",
        "warning",
        "lyrics",
        "Chords between the words. In square brackets they count as tags and words vanish; in lines they are sung.",
        "{words} are chords: {lost}",
        "Delete them; describe the harmony in the caption.",
        fix="removes them",
        example="[verse]\n[Am]Morning [F]light on the pine\nC  G7  Am\nStay with me\n[outro]\n",
    )
)
REPEAT = register(
    Rule(
        "lyrics-repeat-mark",
        "warning",
        "lyrics",
        "A repeat mark such as x2. The model does not repeat anything: it sings the mark, or drops it behind a tag.",
        "{words} repeats nothing: the model sings what is written, once",
        "Write the lines out as often as they are to be sung.",
        example="[chorus] x2\nMorning light on the pine\n[outro]\n",
    )
)
MARKDOWN = register(
    Rule(
        "lyrics-markdown",
        "warning",
        "lyrics",
        "Markdown in lyrics. Only the caption is cleaned of it: in lyrics the marks are part of the prompt.",
        "markdown {words} in lyrics is part of the prompt",
        "Write plain words. A song's title belongs into front matter (title: ...).",
        fix="removes the marks, but not those of a heading, which would then be sung",
        example="[verse]\n**Morning** light on the pine\n* Stay with me\n[outro]\n",
    )
)
HTML = register(
    Rule(
        "lyrics-html",
        "warning",
        "lyrics",
        "HTML tags or character references from a web page.",
        "{words} is HTML and is part of the prompt",
        "Write plain words and line ends.",
        fix="turns it into plain text",
        example="[verse]\nMorning light<br>On the pine &amp; me\n[outro]\n",
    )
)
CARET = register(
    Rule(
        "lyrics-caret",
        "info",
        "lyrics",
        "A ^ between blanks. The model's contract turns it into a line end.",
        "{words}: the ^ between blanks becomes a line end",
        "Press Enter there instead.",
        fix="puts a line end there",
        example="[verse]\nMorning light ^ on the pine\n[outro]\n",
    )
)
HEAD_LINE = register(
    Rule(
        "lyrics-head-line",
        "warning",
        "lyrics",
        "Lines such as `Title: ...` above the first tag, outside front matter. They are part of what is sung.",
        "{words} stands outside front matter and will be sung",
        "Put such lines between two lines of --- at the head of the file ("
        + ", ".join(FRONT_MATTER_FIELDS)
        + "), or delete them.",
        fix="puts them into front matter, if all of them are fields that it knows",
        example="Title: Morning Light\nSeed: 7\n[verse]\nMorning light on the pine\n[outro]\n",
    )
)

_STAMP = re.compile(r"[ \t]*[\[<]\d{1,3}:\d{2}(?:[.:]\d{1,3})?[\]>][ \t]*")
_LRC_HEAD = re.compile(r"[ \t]*\[(?:ti|ar|al|au|by|la|re|ve|length|offset|tool):[^\]]*\][ \t]*", re.IGNORECASE)
_CHORD = r"[A-G][#b♯♭]?(?:maj|min|m|M|dim|aug|sus|add|°|ø|\+)?\d{0,2}(?:(?:sus|add|b|#|maj)\d{0,2})*(?:/[A-G][#b♯♭]?)?"
_CHORD_TAG = re.compile(rf"\[({_CHORD})\]")
_CHORD_LINE = re.compile(rf"[ \t|]*(?:{_CHORD})(?:[ \t|/-]+(?:{_CHORD}|%|N\.?C\.?))*[ \t|]*")
_SURE_CHORD = re.compile(r"(?<![\w'])[A-G](?:[#b♯♭]|m\b|m\d|maj|min|dim|aug|sus|add|\d)")
_REPEAT = re.compile(
    r"\(?\[?[ \t]*(?:[x×][ \t]?\d{1,2}|\d{1,2}[ \t]?[x×]"
    r"|repeat(?:[ \t]+(?:x[ \t]?\d+|\d+|chorus|verse|\d+ times|twice))?|bis|twice|ad lib(?:itum)?)[ \t.!]*\]?\)?",
    re.IGNORECASE,
)
_REPEAT_BEHIND = re.compile(
    r"(?<=\S)[ \t]+(\(?[x×][ \t]?\d{1,2}\)?|\(?\d{1,2}[ \t]?[x×]\)?|\(repeat\)|\(bis\))[ \t]*$", re.I
)
_BOLD = re.compile(r"(\*\*|__|~~)(?=\S)([^*_~\n]+?)(?<=\S)\1")
_ITALIC = re.compile(r"(?<![*\w])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![*\w])|(?<![_\w])_(?=\S)([^_\n]+?)(?<=\S)_(?![_\w])")
_LINE_MARK = re.compile(r"[ \t]*(?:[*+•][ \t]+|>[ \t]+)")
_HEADING = re.compile(r"[ \t]*#{1,6}[ \t]+\S.*")
_RULE = re.compile(r"[ \t]*(?:[-*_=][ \t]*){3,}")
_CODE = re.compile(r"[ \t]*(?:```|~~~).*")
_HTML_TAG = re.compile(
    r"</?(?:br|p|b|i|u|em|strong|span|div|font|h[1-6]|ul|li|a|center)\b[^<>\n]{0,200}>", re.IGNORECASE
)
_HTML_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|nbsp|#\d{1,6}|#x[0-9a-f]{1,6});", re.IGNORECASE)
_HEAD = re.compile(r"[ \t]*([A-Za-z][A-Za-z _-]{1,15}?)[ \t]*:[ \t]*(\S.*)")
_HEAD_NAMES = {*FRONT_MATTER_FIELDS, "max duration", "lyrics", "song", "by", "written by", "genre", "style", "key"}
_HEAD_NAMES |= {"tempo", "bpm", "album", "author", "composer", "mood", "language", "duration", "length", "tags"}


def is_repeat_mark(words: str) -> bool:
    return _REPEAT.fullmatch(words.strip()) is not None


def pasted_line(line: str) -> Hit | None:
    """Time stamps and chords in a line; they come before all tag rules, which would take them for tags."""
    if _LRC_HEAD.fullmatch(line):
        return TIMESTAMP.hit(0, line.strip(), [Edit(0, len(line) + 1, "")], lost="it is no section")
    if stamps := list(_STAMP.finditer(line)):
        rest = _STAMP.sub(" ", line).strip()
        lost = f"{rest!r} behind it is dropped" if rest and stamps[0].start() == 0 else "it is no section"
        edits = [Edit(s.start(), s.end(), "" if s.start() == 0 or s.end() == len(line) else " ") for s in stamps]
        return TIMESTAMP.hit(stamps[0].start(), stamps[0].group().strip(), edits, lost=lost)
    chords = list(_CHORD_TAG.finditer(line))
    if chords and (len(chords) > 1 or line.strip() != chords[0].group()):
        words = _CHORD_TAG.sub("", line).strip()
        lost = f"they count as tags, and of {words!r} words are dropped" if words else "they count as tags"
        edits = [Edit(c.start(), c.end(), "") for c in chords] if words else [Edit(0, len(line) + 1, "")]
        return CHORD.hit(chords[0].start(), " ".join(c.group() for c in chords), edits, lost=lost)
    if _CHORD_LINE.fullmatch(line) and len(line.split()) > 1 and _SURE_CHORD.search(line):
        return CHORD.hit(0, line.strip(), [Edit(0, len(line) + 1, "")], lost="the model sings their letters")
    return None


def check_pasted(text: str) -> Iterator[Hit]:
    """Repeat marks, carets, markdown, HTML and head lines."""
    yield from _head_lines(text)
    start = 0
    for line in text.split("\n"):
        if line.strip():
            yield from _repeats(line, start)
            yield from _markdown(line, start)
            yield from _html(line, start)
            if " ^ " in line:
                edits = [Edit(start + m.start(), start + m.end(), "\n") for m in re.finditer(r" \^ ", line)]
                yield CARET.hit(start + line.index(" ^ ") + 1, line.strip(), edits)
        start += len(line) + 1


def _repeats(line: str, start: int) -> Iterator[Hit]:
    words = line.strip()
    if LEADING_TAGS.match(line):
        return  # a mark behind a tag is the tag rules' business
    if is_repeat_mark(words) and words.lower() not in ("bis", "twice", "repeat"):
        yield REPEAT.hit(start + line.index(words), words)
    elif behind := _REPEAT_BEHIND.search(line):
        yield REPEAT.hit(start + behind.start(1), behind.group(1))


def _markdown(line: str, start: int) -> Iterator[Hit]:
    if _RULE.fullmatch(line) or _CODE.fullmatch(line):
        yield MARKDOWN.hit(start, line.strip(), [Edit(start, start + len(line) + 1, "")])
        return
    if _HEADING.fullmatch(line):
        if section_name(line.strip().strip("#*_ ")) is None:
            yield MARKDOWN.hit(start, line.strip())
        return
    if mark := _LINE_MARK.match(line):
        if section_name(line[mark.end() :].strip("*_ ")) is None:
            yield MARKDOWN.hit(start, mark.group().strip(), [Edit(start, start + mark.end(), "")])
        return
    for pattern in (_BOLD, _ITALIC):
        for match in pattern.finditer(line):
            inner = next(group for group in reversed(match.groups()) if group)
            if section_name(line.strip().strip("*_:： ")) is None:
                yield MARKDOWN.hit(
                    start + match.start(), match.group(), [Edit(start + match.start(), start + match.end(), inner)]
                )


def _html(line: str, start: int) -> Iterator[Hit]:
    for match in _HTML_TAG.finditer(line):
        breaks = match.group()[1:].lstrip("/").lower().startswith(("br", "p", "div", "li", "h"))
        ends = not line[match.end() :].strip() or not line[: match.start()].strip()
        new = "\n" if breaks and not ends else ""
        yield HTML.hit(start + match.start(), match.group(), [Edit(start + match.start(), start + match.end(), new)])
    for match in _HTML_ENTITY.finditer(line):
        meant = html.unescape(match.group()).replace("\u00a0", " ")
        if meant.isprintable():
            edit = Edit(start + match.start(), start + match.end(), meant)
            yield HTML.hit(start + match.start(), match.group(), [edit])


def _head_lines(text: str) -> Iterator[Hit]:
    """Field lines above the first tag or blank line."""
    lines: list[tuple[int, str, str, str]] = []
    offset = 0
    for line in text.split("\n"):
        matched = _HEAD.fullmatch(line)
        if matched is None or matched.group(1).lower().replace("_", " ") not in {
            n.replace("_", " ") for n in _HEAD_NAMES
        }:
            break
        lines.append((offset, line, matched.group(1).lower().replace(" ", "_"), matched.group(2).strip()))
        offset += len(line) + 1
    if not lines:
        return
    names = [name for _, _, name, _ in lines]
    known = all(name in FRONT_MATTER_FIELDS for name in names) and len(set(names)) == len(names)
    # The edit goes to the text's very beginning, which `fix.py` does only where no front matter stands above.
    block = "\n".join(f"{name}: {_yaml_value(name, value)}" for _, _, name, value in lines)
    edits = [Edit(0, min(offset, len(text)), f"---\n{block}\n---\n")] if known else []
    for index, (start, line, _, _) in enumerate(lines):
        yield HEAD_LINE.hit(start, line.strip(), edits if index == 0 else [])


def _yaml_value(name: str, value: str) -> str:
    if name in ("seed", "max_duration") and re.fullmatch(r"[\d:.]+|random", value):
        return f'"{value}"' if ":" in value else value
    return "'" + value.strip("\"'").replace("'", "''") + "'"
