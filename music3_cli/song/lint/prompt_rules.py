"""Rules about the prompt as a whole: its special tokens, its length, what it leaves for sound, and whether caption and
lyrics fit together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from music3_cli.song.caption import clean_caption
from music3_cli.song.estimate import estimate_tokens
from music3_cli.song.instrumental import is_instrumental_caption
from music3_cli.song.limits import CONTEXT, MAX_FRAMES, MAX_PROMPT_TOKENS, clock, frames_to_seconds
from music3_cli.song.lint.rule import Edit, Hit, Rule, register
from music3_cli.song.lyrics import normalize_lyrics
from music3_cli.song.prompt import SPECIAL_TOKENS, prompt_text
from music3_cli.song.sections import split_sections

SPECIAL = register(
    Rule(
        "special-token",
        "error",
        "prompt",
        "The text of one of the prompt's own marks inside lyrics or caption. It ends the part early, and the model "
        "sees another prompt than it was trained on.",
        "{words} is one of the prompt's own marks: the {kind} would end or begin there",
        "Delete it. (`--lyrics as-is` lets it through.)",
        fix="removes it from lyrics",
        example="[verse]\nMorning light<|lyrics_end|> on the pine\n[outro]\n",
    )
)
SPECIAL_LIKE = register(
    Rule(
        "special-token-like",
        "warning",
        "prompt",
        "Text between <| and |>, the shape of special tokens. In lyrics it is part of the prompt as it stands.",
        "{words} has the shape of a special token and is part of the prompt",
        "Delete it.",
        fix="removes it from lyrics",
        example="[verse]\nMorning light <|whisper|> on the pine\n[outro]\n",
    )
)
SPELLED_OUT = register(
    Rule(
        "special-tag-rewritten",
        "info",
        "caption",
        "A tag such as <|mood calm|> in a caption. The model's contract writes it out: `mood is calm`.",
        "{words} becomes {meant} in the prompt",
        "Write it out yourself if you mean something else.",
        fix="writes it out",
        example="A slow ballad, <|mood calm|>, with a female alto.",
        kind="caption",
    )
)
TOO_LONG = register(
    Rule(
        "prompt-too-long",
        "error",
        "prompt",
        f"Caption and lyrics make more than the model's {MAX_PROMPT_TOKENS} tokens.",
        "caption and lyrics make {count} tokens; the model takes at most " + str(MAX_PROMPT_TOKENS),
        "Shorten the lyrics or the caption.",
        example="[verse]\n" + "晨光照在松树上，你留在我身边吧\n" * 800 + "[outro]\n",
    )
)
NEAR_LIMIT = register(
    Rule(
        "prompt-near-limit",
        "warning",
        "prompt",
        f"Caption and lyrics are within a tenth of the model's {MAX_PROMPT_TOKENS} tokens, or, where tokens can only "
        "be estimated, may be over it.",
        "caption and lyrics make {count} tokens; the model takes at most " + str(MAX_PROMPT_TOKENS),
        "Shorten the lyrics or the caption; `music3 inspect prompt` counts exactly.",
        example="[verse]\n" + "晨光照在松树上，你留在我身边吧\n" * 450 + "[outro]\n",
    )
)
NO_ROOM = register(
    Rule(
        "prompt-no-room",
        "error",
        "prompt",
        f"Prompt and ceiling together are more than the model's {CONTEXT} positions (one a token, 25 a second).",
        "the prompt of {count} tokens leaves {left}; the ceiling is {ceiling}",
        "Lower max_duration or shorten the lyrics.",
        example="---\nmax_duration: 6:00\n---\n[verse]\n" + "晨光照在松树上，你留在我身边吧\n" * 250 + "[outro]\n",
    )
)
LITTLE_ROOM = register(
    Rule(
        "prompt-little-room",
        "info",
        "prompt",
        f"The prompt is so long that fewer than the model's {clock(frames_to_seconds(MAX_FRAMES))} minutes are left, "
        "or the ceiling is within ten seconds of what is left.",
        "the prompt of {count} tokens leaves at most {left}",
        "Shorten the lyrics if the song is to be longer.",
        example="[verse]\n" + "晨光照在松树上，你留在我身边吧\n" * 150 + "[outro]\n",
    )
)
MISMATCH = register(
    Rule(
        "prompt-mismatch",
        "warning",
        "prompt",
        "Lyrics and caption disagree: words to sing under an instrumental caption, or a sheet without words under a "
        "caption with a singer. The model then often hums or sings syllables.",
        "{what}",
        "{do}",
        example="---\ncaption: A slow ballad sung by a warm female alto.\n---\n"
        "[intro]\n(instrumental)\n[outro]\n(instrumental)\n",
    )
)

_SHAPE = re.compile(r"<\|([^|<>\n]{0,40})\|>")
_MARKS = re.compile("|".join(map(re.escape, (*SPECIAL_TOKENS, "<|endoftext|>"))))
_SINGS = re.compile(r"\b(?:fe)?male\b|\bvocalist\b|\bsinger\b|\bsings\b|\bsung\b", re.IGNORECASE)
NEAR_TOKENS = MAX_PROMPT_TOKENS * 9 // 10
_NEAR_FRAMES = 250
_UNSURE = 0.35
"""How far an estimate of tokens may be off, as a share."""


def check_special_in_lyrics(text: str) -> Iterator[Hit]:
    """Special-token text in lyrics, as the contract leaves it: it puts what stands in tags into lower case."""
    if "<|" not in text:
        return
    seen = normalize_lyrics(text)
    for match in _SHAPE.finditer(text):
        lowered = match.group().lower()
        rule = SPECIAL if _MARKS.fullmatch(lowered) and lowered in seen else SPECIAL_LIKE
        edits = [Edit(match.start(), match.end(), "")]
        yield rule.hit(match.start(), match.group(), edits, kind="lyrics")


def check_special_in_caption(text: str) -> Iterator[Hit]:
    """Special-token text that cleaning leaves or makes (`<|<|im_end|>|>`), and tags that it spells out."""
    cleaned = clean_caption(text)
    if found := _MARKS.search(cleaned):
        at = text.find(found.group())
        yield SPECIAL.hit(max(at, 0), found.group(), kind="caption")
        return
    for match in _SHAPE.finditer(text):
        meant = clean_caption(match.group())
        yield SPELLED_OUT.hit(
            match.start(), match.group(), [Edit(match.start(), match.end(), meant)], meant=repr(meant)
        )


def may_be_near_a_limit(prompt: str, ceiling: int | None) -> bool:
    """Whether counting tokens exactly is worth its time: a tokenizer of 150 000 entries takes longer to read than all
    rules, and most songs are far from every limit.
    """
    wanted = 0 if ceiling is None else ceiling + _NEAR_FRAMES
    estimate = estimate_tokens(prompt) * (1 + _UNSURE)
    return estimate > NEAR_TOKENS or estimate + wanted > CONTEXT


def check_length(lyrics: str, caption: str, ceiling: int | None, tokens: int | None) -> Iterator[Hit]:
    """Tokens, and tokens + frames, against the model's limits; `tokens` are estimated where they are not known."""
    estimate = estimate_tokens(prompt_text(caption, lyrics))
    count = f"about {estimate} (estimated)" if tokens is None else str(tokens)
    # An estimate counts as too much only where it is sure to be.
    surely = tokens if tokens is not None else round(estimate * (1 - _UNSURE))
    perhaps = tokens if tokens is not None else round(estimate * (1 + _UNSURE))
    if surely > MAX_PROMPT_TOKENS:
        yield TOO_LONG.hit(0, count=count)
        return
    if perhaps > NEAR_TOKENS:
        yield NEAR_LIMIT.hit(0, count=count)
    left = CONTEXT - surely - 1
    shown = f"{clock(frames_to_seconds(max(0, CONTEXT - (tokens or estimate) - 1)))} of sound"
    if ceiling is not None and ceiling > left:
        yield NO_ROOM.hit(0, count=count, left=shown, ceiling=clock(frames_to_seconds(ceiling)))
    elif left < (MAX_FRAMES if ceiling is None else ceiling + _NEAR_FRAMES):
        yield LITTLE_ROOM.hit(0, count=count, left=shown)


def check_together(lyrics: str, caption: str) -> Iterator[Hit]:
    """Whether caption and lyrics agree about singing."""
    sections = split_sections(lyrics)
    words = [line for section in sections for line in section.words]
    instrumental = is_instrumental_caption(caption)
    if words and instrumental:
        yield MISMATCH.hit(
            lyrics.find(words[0]),
            words[0],
            what=f"the caption says that the piece is instrumental, and the lyrics have words ({words[0]!r})",
            do="Choose a caption with a singer, or take the words out (render with --instrumental).",
        )
    elif sections and not words and not instrumental and _SINGS.search(caption):
        yield MISMATCH.hit(
            0,
            what="there is nothing to sing, and the caption describes a singer",
            do="Say in the caption that the piece is purely instrumental and name the lead instrument, or choose an "
            "instrumental preset.",
        )
