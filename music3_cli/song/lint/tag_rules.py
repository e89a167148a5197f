"""Rules about section tags: words that a tag swallows, and tags in shapes that the model sings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from music3_cli.song.lint.pasted_rules import REPEAT, is_repeat_mark, pasted_line
from music3_cli.song.lint.rule import Edit, Hit, Rule, moved, register
from music3_cli.song.lyrics import LEADING_TAGS, TAG
from music3_cli.song.sections import GUIDE_TAGS, LONGEST_NAME, WORDLESS_TAGS, is_other_name, near_section, section_name

LINE_WORDS = register(
    Rule(
        "tag-line-words",
        "warning",
        "tags",
        "Words behind a section tag on the same line. The model's contract drops them: nobody will sing them.",
        "the model will not see {words}: words behind the tag {tag} on the same line are dropped",
        "Move them to a line of their own.",
        fix="moves them to the next line",
        example="[Verse] Morning light\nOn the pine\n[outro]\n",
    )
)
INSIDE_LINE = register(
    Rule(
        "tag-inside-line",
        "warning",
        "tags",
        "Square brackets in the middle of a line. The model takes them for a tag, and the line is split there.",
        "{words} stands in the middle of a line, where the model takes it for a tag",
        "Put a tag on a line of its own; put words for a second voice in round brackets.",
        fix="puts it on a line of its own, if it names a section",
        example="[verse]\nMorning light on the pine [chorus] sing with me\n[outro]\n",
    )
)
BRACKETS = register(
    Rule(
        "tag-brackets",
        "warning",
        "tags",
        "A section's name in round, curly, angle or full-width brackets. The model sings it.",
        "{words} is not in square brackets: it will be sung",
        "Write {tag} on a line of its own.",
        fix="writes the tag in square brackets, if it names a section",
        example="(Verse 1)\nMorning light on the pine\n【副歌】\nStay with me\n[outro]\n",
    )
)
BARE = register(
    Rule(
        "tag-bare",
        "warning",
        "tags",
        "A section's name without brackets (`Verse:`, `CHORUS`, `# Bridge`). The model sings it.",
        "{words} is a section's name without brackets: it will be sung",
        "Write {tag} on a line of its own.",
        fix="writes the tag in square brackets",
        example="Verse 1:\nMorning light on the pine\nChorus: Stay with me\n[outro]\n",
    )
)
UNCLOSED = register(
    Rule(
        "tag-unclosed",
        "warning",
        "tags",
        "A square bracket without its partner on the line. The model sees no tag there.",
        "{words} has only one square bracket of a pair: the model sees no tag there",
        "{do}",
        fix="completes the tag, if it names a section",
        example="[verse\nMorning light on the pine\n[chorus]\nStay with me\n[outro]\n",
    )
)
NESTED = register(
    Rule(
        "tag-nested",
        "warning",
        "tags",
        "Square brackets inside square brackets. The tag ends at the first closing one, the rest is dropped.",
        "{words} has brackets inside brackets: the tag ends at the first ]",
        "Write one tag such as [verse], and directions in the caption.",
        fix="removes doubled brackets",
        example="[[verse]]\nMorning light on the pine\n[outro]\n",
    )
)
EMPTY = register(
    Rule(
        "tag-empty",
        "warning",
        "tags",
        "Square brackets with nothing between them.",
        "{words} is a tag without a name",
        "Name the section, such as [verse], or delete the brackets.",
        fix="removes it",
        example="[verse]\nMorning light on the pine\n[ ]\nStay with me\n[outro]\n",
    )
)
START = register(
    Rule(
        "tag-start",
        "warning",
        "tags",
        "The tag [start], which is put in front of every lyric by itself and would stand there twice.",
        "{words} is put in front by itself; here it would stand twice",
        "Delete it.",
        fix="removes it",
        example="[start]\n[verse]\nMorning light on the pine\n[outro]\n",
    )
)
SPELLING = register(
    Rule(
        "tag-spelling",
        "warning",
        "tags",
        "A tag that is nearly one of the guide's nine.",
        "the tag {words} is not spelled as in the guide",
        "Write {tag}.",
        fix="writes it as in the guide",
        example="[pre chorus]\nMorning light on the pine\n[chrous]\nStay with me\n[outro]\n",
    )
)
NUMBERED = register(
    Rule(
        "tag-numbered",
        "info",
        "tags",
        "A tag with a number. The guide's tags have none; a section that comes again has the same tag again.",
        "the tag {words} has a number; the guide's tags have none",
        "Write {tag}.",
        fix="leaves the number out",
        example="[Verse 1]\nMorning light on the pine\n[outro]\n",
    )
)
OTHER_NAME = register(
    Rule(
        "tag-other-name",
        "info",
        "tags",
        "Another name of one of the guide's sections, or its name in another language. There is no list of allowed "
        "tags, but the guide's nine are the ones that the model is known to follow.",
        "the tag {words} is another name for {tag}",
        "Write {tag}, unless you mean something else.",
        fix="writes the guide's name",
        example="[Hook]\nMorning light on the pine\n[outro]\n",
    )
)
UNKNOWN = register(
    Rule(
        "tag-unknown",
        "info",
        "tags",
        "A tag that the guide does not know. The model may ignore it or take it for a direction.",
        "the tag {words} is none of the guide's",
        "The guide has " + ", ".join(GUIDE_TAGS) + "; describe sounds in the caption.",
        example="[dreamy whispers]\nMorning light on the pine\n[outro]\n",
    )
)
LONG = register(
    Rule(
        "tag-long",
        "warning",
        "tags",
        "A whole phrase in square brackets. The model takes it for a tag and does not sing it.",
        "{words} stands in square brackets and will not be sung",
        "Put sung words in round brackets or none; put directions into the caption.",
        example="[verse]\n[we all come home when the morning light is high]\nStay with me\n[outro]\n",
    )
)
SEVERAL = register(
    Rule(
        "tag-several",
        "info",
        "tags",
        "Several tags on one line. The guide has each alone on its line.",
        "several tags on one line: {words}",
        "Put each tag on a line of its own.",
        fix="puts each on its own line",
        example="[verse][solo]\nMorning light on the pine\n[outro]\n",
    )
)

_OTHER_BRACKETS = re.compile(
    r"[ \t\u3000]*([(（{【［<〔「『《〈])[ \t\u3000]*([^\[\](){}<>【】［］（）]{1,40}?)[ \t\u3000]*"
    r"[)）}】］>〕」』》〉][ \t:：]*"
)
_ALWAYS_TAGS = "【［"
_DECORATION = re.compile(r"[ \t\u3000]*(?:#{1,6}[ \t]+|>[ \t]+)?[*_]{0,3}")
_REPEATED = re.compile(r"(.*\S)[ \t]+(\(?[x×][ \t]?\d{1,2}\)?|\(?\d{1,2}[ \t]?[x×]\)?)")
# Names that are also everyday words count as a heading only with a colon, a number, or a blank line above.
_EVERYDAY = {"bridge", "solo", "break", "end", "ending", "hook", "lift", "build", "tag", "final", "coro", "opening"}
_EVERYDAY |= {"finale", "ponte", "puente", "verso", "couplet", "strofa", "桥", "橋", "절", "inst", "instr", "vers"}
_NUMBER_BEHIND = re.compile(r".*[^\d\s][ #.-]*(?:\d{1,2}|[ivx]+|one|two|three|four)", re.IGNORECASE)
_UNCLOSED_WHOLE = re.compile(r"[ \t]*\[([^\[\]]*?)[)}】］>]?[ \t]*")
_UNCLOSED_WORDS = re.compile(r"[ \t]*\[[ \t]*([^\W\d_][\w-]*(?:[ \t]+\d{1,2})?)[ \t]*[:,)\-–]?[ \t]+(.*)")
_UNOPENED = re.compile(r"[ \t]*[({【［<]?([^\[\]]*?)\][ \t]*")
_DOUBLED = re.compile(r"([ \t]*)\[(?:[ \t]*\[)+([^\[\]]+)\](?:[ \t]*\])+")
_NESTED = re.compile(r"\[[^\[\]]*\[")
_EMPTY = re.compile(r"\[[ \t]*\]")


def check_tags(text: str) -> Iterator[Hit]:
    """Every line's shape (the first rule that fits), then the names in its tags."""
    start, above = 0, ""
    for line in text.split("\n"):
        if line.strip():
            shape = _line_shape(line, above)
            if shape is not None:
                yield moved(shape, start)
            if shape is None or shape.rule in (LINE_WORDS, SEVERAL, INSIDE_LINE, REPEAT):
                for hit in _tag_names(line):
                    yield moved(hit, start)
        start += len(line) + 1
        above = line


def _line_shape(line: str, above: str) -> Hit | None:
    if pasted := pasted_line(line):
        return pasted
    if "[" in line or "]" in line:
        return _square(line) or _other_brackets(line, above)
    return _other_brackets(line, above) or _bare(line, above)


def _square(line: str) -> Hit | None:
    if empty := _EMPTY.search(line):
        rest = (line[: empty.start()] + line[empty.end() :]).strip()
        edit = Edit(empty.start(), empty.end(), "") if rest else _whole_line(line)
        return EMPTY.hit(empty.start(), empty.group(), [edit])
    if _NESTED.search(line):
        doubled = _DOUBLED.search(line)
        edits = [Edit(doubled.end(1), doubled.end(), f"[{doubled.group(2).strip()}]")] if doubled else []
        return NESTED.hit(line.index("["), line.strip(), edits)
    if line.count("[") != line.count("]") or line.find("]") < line.find("["):
        return _unclosed(line)
    tags = LEADING_TAGS.match(line)
    if tags and (rest := line[tags.end() :].strip()):
        if is_repeat_mark(rest):
            return REPEAT.hit(tags.end(), rest)
        names = tags.group(1).strip()
        kept = line[: tags.start(1)] + names
        below = Edit(len(kept), len(line), f"\n{rest}" if any(map(str.isalnum, rest)) else "")
        return LINE_WORDS.hit(tags.end(), rest, [below], tag=names)
    if tags:
        found = list(TAG.finditer(line))
        if len(found) > 1:
            edits = [Edit(a.end(), b.start(), "\n") for a, b in zip(found, found[1:], strict=False)]
            return SEVERAL.hit(found[0].start(), tags.group(1).strip(), edits)
        return None
    inside = TAG.search(line)
    if inside is None:
        return None
    edits = []
    if name := section_name(inside.group(1)):
        before, after = line[: inside.start()].rstrip(), line[inside.end() :].strip()
        edits = [Edit(0, len(line), "\n".join(part for part in (before, f"[{name}]", after) if part))]
    return INSIDE_LINE.hit(inside.start(), inside.group(), edits)


def _whole_line(line: str) -> Edit:
    """Take a line out with its end. Behind a last line without an end there is nothing to take; it stays empty."""
    return Edit(0, len(line) + 1, "")


def _unclosed(line: str) -> Hit:
    at = line.index("[") if "[" in line else line.index("]")
    for pattern in (_UNCLOSED_WHOLE, _UNOPENED):
        if (matched := pattern.fullmatch(line)) and (name := section_name(matched.group(1))):
            return UNCLOSED.hit(
                at, line.strip(), [Edit(0, len(line), f"[{name}]")], do=f"Write [{name}] on a line of its own."
            )
    if (matched := _UNCLOSED_WORDS.fullmatch(line)) and (name := section_name(matched.group(1))):
        new = f"[{name}]\n{matched.group(2).strip()}"
        return UNCLOSED.hit(at, line.strip(), [Edit(0, len(line), new)], do=f"Write [{name}] on a line of its own.")
    return UNCLOSED.hit(
        at, line.strip(), do="Complete the tag on a line of its own; words for singing take no brackets."
    )


def _other_brackets(line: str, above: str) -> Hit | None:
    matched = _OTHER_BRACKETS.match(line)
    if matched is None:
        return None
    opening, inner, rest = matched.group(1), matched.group(2), line[matched.end() :].strip()
    name = section_name(inner)
    # (instrumental) is the model's own convention, and (guitar solo) under a tag a direction.
    direction = name == "instrumental" or (name in WORDLESS_TAGS and above.strip().startswith("["))
    if opening in "(（" and direction:
        return None
    if name is None and not (opening in _ALWAYS_TAGS and not rest):
        return None
    words = line[: matched.end()].strip()
    if name is None:
        return BRACKETS.hit(matched.start(1), words, tag="[verse] or another section's name")
    if rest and inner.strip().lower() in _EVERYDAY:
        return None
    return BRACKETS.hit(matched.start(1), words, [Edit(0, len(line), _on_two_lines(name, rest))], tag=f"[{name}]")


def _bare(line: str, above: str) -> Hit | None:
    if len(line) > LONGEST_NAME and ":" not in line[:LONGEST_NAME] and "：" not in line[:LONGEST_NAME]:
        return None
    decoration = _DECORATION.match(line)
    at = decoration.end() if decoration else 0
    heading = line[at:].strip()
    words, colon, rest = re.match(r"([^:：]*)([:：]?)(.*)", heading).groups()  # type: ignore[union-attr]
    rest = rest.strip().lstrip("*_ ")
    if not colon and (repeated := _REPEATED.fullmatch(heading)):
        words, rest = repeated.groups()
    words = words.strip().rstrip("*_").rstrip()
    name = section_name(words)
    if name is None or not words[:1].isalpha():
        return None
    everyday = words.lower() in _EVERYDAY
    if rest and colon and everyday:
        return None
    marked = colon or line.lstrip()[:1] in "#*_>" or _NUMBER_BEHIND.fullmatch(words) is not None
    if everyday and not marked and above.strip():
        return None
    return BARE.hit(at, words + colon, [Edit(0, len(line), _on_two_lines(name, rest))], tag=f"[{name}]")


def _on_two_lines(name: str, rest: str) -> str:
    """A tag with what stood behind it below; a repeat mark stays behind it, where it is not sung."""
    if not rest:
        return f"[{name}]"
    return f"[{name}] {rest}" if is_repeat_mark(rest) else f"[{name}]\n{rest}"


def _tag_names(line: str) -> Iterator[Hit]:
    leading = LEADING_TAGS.match(line)
    if leading is None:
        return
    for tag in TAG.finditer(line, leading.start(1), leading.end(1)):
        inner = tag.group(1)
        plain = inner.lower()
        if plain in GUIDE_TAGS:
            continue
        if plain.strip() == "start":
            alone = line.strip() == tag.group()
            yield START.hit(
                tag.start(), tag.group(), [_whole_line(line) if alone else Edit(tag.start(), tag.end(), "")]
            )
            continue
        yield _tag_name(tag, inner, plain)


def _tag_name(tag: re.Match[str], inner: str, plain: str) -> Hit:
    name = section_name(inner)
    rule = SPELLING
    if name is None and (name := near_section(inner)) is None:
        rule = LONG if len(inner.split()) > 5 or len(inner) > 40 else UNKNOWN
        return rule.hit(tag.start(), tag.group())
    if is_other_name(inner):
        rule = OTHER_NAME
    elif section_name(inner) and re.sub(r"[\s_-]", "", plain.strip(" :.-")) != name.replace("-", ""):
        rule = NUMBERED
    return rule.hit(tag.start(), tag.group(), [Edit(tag.start(), tag.end(), f"[{name}]")], tag=f"[{name}]")
