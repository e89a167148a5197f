"""Rules about captions: what the model's guide asks for, and what the caption's cleaning does to words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from music3_cli.song.instrumental import is_instrumental_caption
from music3_cli.song.lint.rule import Edit, Hit, Rule, register
from music3_cli.song.sections import section_name

GUIDE_WORDS = (250, 450)

_FULL = (
    "Global Metadata:\nA slow folk ballad in D minor at 70 BPM.\n\n"
    "Vocal Details:\nA warm female alto sings close to the microphone.\n\nArrangement:\nA guitar opens the song.\n"
)
EMPTY = register(Rule("caption-empty", "error", "caption", "A caption without a word.", "{what}", "{hint}"))
SHORT = register(
    Rule(
        "caption-short",
        "warning",
        "caption",
        f"Fewer than {GUIDE_WORDS[0]} words. The model was trained on captions of {GUIDE_WORDS[0]} to "
        f"{GUIDE_WORDS[1]}; what a short one leaves out, it invents.",
        "{count} words; the guide has " + f"{GUIDE_WORDS[0]} to {GUIDE_WORDS[1]}",
        "Describe genre, tempo, key, mood, the voice, and every section's instruments; `music3 presets show default` "
        "is an example.",
        example=_FULL,
        kind="caption",
    )
)
LONG = register(
    Rule(
        "caption-long",
        "warning",
        "caption",
        f"More than {GUIDE_WORDS[1]} words. They take room from the song and the last ones count little.",
        "{count} words; the guide has " + f"{GUIDE_WORDS[0]} to {GUIDE_WORDS[1]}",
        "Leave out what the music does not need.",
        example=_FULL + "A second guitar answers the first with a gentle line. " * 50,
        kind="caption",
    )
)
NO_VOCAL = register(
    Rule(
        "caption-no-vocal",
        "warning",
        "caption",
        "No word about who sings. The guide always states the singer's gender; without it the voice is chance, and "
        "may change within the song.",
        "the caption does not say whether a woman or a man sings",
        "Write so, such as `a warm female alto`, or say that the piece is purely instrumental.",
        example="A slow folk ballad in D minor at 70 BPM, sung close to the microphone over a guitar.",
        kind="caption",
    )
)
HAS_LYRICS = register(
    Rule(
        "caption-lyrics",
        "warning",
        "caption",
        "Lyrics inside the caption. The caption is not sung; words for singing belong into the lyrics.",
        "{words} looks like lyrics; the caption is not sung",
        "Move sung words and section tags into the lyrics.",
        example="A slow ballad, female alto.\n[verse]\nMorning light on the pine\n",
        kind="caption",
    )
)
NEGATIVE = register(
    Rule(
        "caption-negative",
        "warning",
        "caption",
        "A description of what should not be there. Models of this kind hear the named thing rather than the `no`.",
        "{words} names what should not be there, which often brings it in",
        "Say what is there instead: `acoustic guitar alone` for `no drums`, `purely instrumental` for `no vocals`.",
        example="A slow ballad with a female alto, no drums and without electric guitar.",
        kind="caption",
    )
)
NOT_ENGLISH = register(
    Rule(
        "caption-not-english",
        "warning",
        "caption",
        "A caption in another language than English, the guide's language. The lyrics' language is free.",
        "the caption does not seem to be English ({basis})",
        "Write the caption in English and name the language that is sung.",
        example="Eine langsame Ballade mit einer warmen weiblichen Stimme und einer Gitarre, die das Lied trägt.",
        kind="caption",
    )
)
NO_PARTS = register(
    Rule(
        "caption-parts",
        "info",
        "caption",
        "A part of the guide's three is not there: Global Metadata, Vocal Details, Arrangement.",
        "no part called {missing}",
        "The guide writes Global Metadata, Vocal Details and Arrangement, each with its name and a colon on a line.",
        example="A slow ballad with a female alto.",
        kind="caption",
    )
)
METADATA = register(
    Rule(
        "caption-metadata",
        "info",
        "caption",
        "No tempo or no key. The model chooses then.",
        "the caption has no {missing}",
        "Write the tempo as `92 BPM` and the key as `in A minor`, unless you want to leave them open.",
        example="A slow ballad with a female alto.",
        kind="caption",
    )
)
GLUED = register(
    Rule(
        "caption-glued-words",
        "warning",
        "caption",
        "Four blanks inside a line. The model's contract deletes them, and the words on both sides become one.",
        "four blanks in {words} are deleted: the words around them become one",
        "Write one blank.",
        fix="writes one blank",
        example="A slow ballad with a    female alto.",
        kind="caption",
    )
)
PLACEHOLDER = register(
    Rule(
        "caption-placeholder",
        "warning",
        "caption",
        "A placeholder in braces. Only presets fill them in; here the model reads the braces.",
        "{words} is not filled in",
        "Write the value, or make the caption a preset (`music3 presets path default` is an example).",
        example="A slow ballad at {bpm} BPM with a female alto.",
        kind="caption",
    )
)
MARKUP = register(
    Rule(
        "caption-markup",
        "info",
        "caption",
        "Markup that the model's contract does not clean: links, code, HTML, underscores. Headings, bullets, bold and "
        "italic are cleaned and are no fault.",
        "{words} is markup that stays in the prompt",
        "Write plain text.",
        fix="writes plain text",
        example="A slow __ballad__ with a `female` alto<br>and a guitar.",
        kind="caption",
    )
)

_GENDER = re.compile(r"\b(?:fe)?male\b|\bwom[ae]n\b|\bm[ae]n\b|\bgirls?\b|\bboys?\b|\blad(?:y|ies)\b", re.IGNORECASE)
_NEGATIVE = re.compile(
    r"\b(?:no|without(?: any)?|avoid(?:ing)?|exclud(?:e|ing)|don'?t (?:use|include|add)|do not (?:use|include|add)"
    r"|never (?:use|include|add)|free of|absence of|nothing but|not (?:too|any|overly))[ \t]+(?:\w[\w'-]*[ \t]+){0,2}?"
    r"(?:\w[\w'-]*)",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"\b(?:no (?:longer|one|matter|more than|less than)|nothing but|without (?:a )?(?:break|pause|rushing))\b", re.I
)
_TAG_LINE = re.compile(r"^[ \t]*\[([^\]\n]+)\][ \t]*$|^[ \t]*lyrics[ \t]*:", re.IGNORECASE | re.MULTILINE)
_PARTS = (("Global Metadata", "global metadata"), ("Vocal Details", "vocal details"), ("Arrangement", "arrangement"))
_TEMPO = re.compile(r"\bbpm\b|\bbeats\s+(?:per|a)\s+minute\b", re.IGNORECASE)
_KEY = re.compile(
    r"\b[a-g](?:[\s-]?(?:sharp|flat)|[#♯♭])?[\s-]+(?:major|minor|dorian|phrygian|lydian|mixolydian|aeolian|locrian)\b"
    r"|\batonal\b",
    re.IGNORECASE,
)
_FOUR = re.compile(r"(?<=\S) {4,}(?=\S)")
_BRACES = re.compile(r"\{[A-Za-z_][\w ]{0,30}\}")
_MARKUP = re.compile(
    r"\[([^\]\n]+)\]\([^)\n]+\)|`([^`\n]+)`|(?<!\w)__([^_\n]+)__(?!\w)|~~([^~\n]+)~~|</?[a-zA-Z][^<>\n]{0,60}>"
)
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_WORD = re.compile(r"[^\W\d_]+")
# Little words that make up a third of any text of a language. Words that English shares are left out of the others.
_ENGLISH_WORDS = "the and with of a in to is that on at from into by for an its over then as it are"
_OTHER_WORDS = (
    "der die das und mit einer einem eine ein ist von zu im den dem des sich nicht auf für",
    "le la les et avec une un des du dans pour est sur qui en au aux ce",
    "el los las y con una un del para que se por al lo",
    "il lo gli e con una di che nel della dei si",
    "o os e com uma um da dos para que na",
    "w z na się nie jest oraz od po przez",
    "och med en ett som på av är det van het een voor",
)
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_OTHERS = frozenset(word for words in _OTHER_WORDS for word in words.split())


def check_caption(text: str) -> Iterator[Hit]:
    """A caption against the guide."""
    count = len(text.split())
    if not count:
        return
    first = len(text) - len(text.lstrip())
    if count < GUIDE_WORDS[0]:
        yield SHORT.hit(first, count=count)
    if count > GUIDE_WORDS[1]:
        yield LONG.hit(first, count=count)
    if not _GENDER.search(text) and not is_instrumental_caption(text):
        yield NO_VOCAL.hit(first)
    if foreign := _foreign(text):
        yield NOT_ENGLISH.hit(first, basis=foreign)
    yield from _missing(text, first)
    for match in _TAG_LINE.finditer(text):
        if match.group(1) is None or section_name(match.group(1)):
            yield HAS_LYRICS.hit(
                match.start() + len(match.group()) - len(match.group().lstrip()), match.group().strip()
            )
            break  # one tag or fifty: the advice is the same
    for match in _NEGATIVE.finditer(text):
        if not _HARMLESS.match(match.group()):
            yield NEGATIVE.hit(match.start(), match.group())
    for match in _FOUR.finditer(text):
        around = text[max(0, match.start() - 12) : match.end() + 12].strip().replace("\n", " ")
        yield GLUED.hit(match.start(), around, [Edit(match.start(), match.end(), " ")])
    for match in _BRACES.finditer(text):
        yield PLACEHOLDER.hit(match.start(), match.group())
    for match in _MARKUP.finditer(text):
        inner = next(
            (group for group in match.groups() if group), " " if match.group().lower().startswith("<br") else ""
        )
        yield MARKUP.hit(match.start(), match.group(), [Edit(match.start(), match.end(), inner)])


def _missing(text: str, first: int) -> Iterator[Hit]:
    lowered = text.lower()
    if missing := [name for name, mark in _PARTS if mark not in lowered]:
        yield NO_PARTS.hit(first, missing=", ".join(missing))
    wanted = (("tempo", _TEMPO), ("key", _KEY))
    if missing := [name for name, pattern in wanted if not pattern.search(text)]:
        yield METADATA.hit(first, missing=" and no ".join(missing))


def _foreign(text: str) -> str:
    """Why a caption does not look English, or nothing."""
    letters = sum(character.isalpha() for character in text)
    latin = len(_LATIN.findall(text))
    if letters >= 4 and latin < letters * 0.8:
        return f"{100 - round(100 * latin / letters)} % of its letters are not Latin"
    words = _WORD.findall(text.lower())
    english = sum(word in _ENGLISH for word in words)
    other = [word for word in words if word in _OTHERS]
    if len(other) >= 3 and len(other) > english:
        return "words such as " + ", ".join(dict.fromkeys(other[:3]))
    return ""
