"""Prompt ids against diffusers' own functions, on generated captions and lyrics."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from music3_cli.song.caption import clean_caption
from music3_cli.song.lyrics import normalize_lyrics
from music3_cli.song.prompt import AUDIO_CFG
from tests.support.stages import Stages

encoders = pytest.importorskip("diffusers.modular_pipelines.minimax_music3.encoders")

PIECES = [
    *("[verse]", "[Chorus]", "[Pre-Chorus] ", " [bridge]", "[", "]", "[]", "[[x]]", "] ", " [", " ^ ", "^", "[a][B] c"),
    *(
        "# ",
        "## Title",
        "* ",
        "- ",
        "+ ",
        "• ",
        "**bold**",
        "**",
        "*it*",
        "***x***",
        "    ",
        "---",
        "___",
        "* * *",
        "*",
    ),
    *("<|a b c|>", "<|one|>", "<||>", "<|im_end|>", "<|lyrics_end|>", "<|", "|>", "<|x  y|>"),
    *("\n", "\n\n", "\r\n", "\r", "\t", " ", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u00a0", "\u200b", "\ufeff"),
    *("light", "Night", "the road", "夜の歌", "副歌", "Ä", "é", "e\u0301", "Ω", "🎵", "ß", "İ", "123", "3:30", "don't"),
    *(".", ",", ":", "(x)", "【副歌】", '"', "'", "\\", "/", "_", "~", "`", "$"),
]


def generated(rng: random.Random) -> str:
    return "".join(rng.choice(PIECES) + rng.choice(("", "", " ", "\n")) for _ in range(rng.randint(1, 30)))


def reference_text(caption: str, lyrics: str) -> str:
    return (
        f"<|im_start|><|caption_start|>{encoders._clean_caption(caption)}<|caption_end|>"
        f"<|lyrics_start|>{encoders._normalize_lyrics(lyrics)}<|lyrics_end|><|im_end|><|audio_start|>"
    )


def test_ids_of_20000_generated_prompts(stages: Stages, oracle) -> None:
    rng = random.Random(20_000)
    for start in range(0, 20_000, 500):
        pairs = [(generated(rng), generated(rng)) for _ in range(500)]
        theirs = oracle.tokenizer([reference_text(*pair) for pair in pairs])["input_ids"]
        for number, (pair, expected) in enumerate(zip(pairs, theirs, strict=True), start=start):
            assert list(stages.prompt(*pair).ids) == expected, (number, pair)


@settings(max_examples=300, deadline=None)
@given(st.text(), st.text())
def test_text_of_any_unicode(caption: str, lyrics: str) -> None:
    assert clean_caption(caption) == encoders._clean_caption(caption)
    assert normalize_lyrics(lyrics) == encoders._normalize_lyrics(lyrics)


def test_the_unconditional_twin(stages: Stages) -> None:
    prompt = stages.prompt()
    twin = prompt.unconditional_ids
    assert len(twin) == len(prompt.ids)
    assert (twin[0], *twin[-2:]) == (prompt.ids[0], *prompt.ids[-2:])
    assert set(twin[1:-2]) == {AUDIO_CFG}
