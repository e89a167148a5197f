"""How long a sheet takes to sing, and how many tokens a text makes: estimates, with what they rest on.

Both are rules of thumb of singing and of byte-pair vocabularies, not measurements of the model. They are only used to
warn, and every message that uses one says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from music3_cli.song.limits import clock
from music3_cli.song.sections import split_sections

SYLLABLES_A_SECOND = (1.4, 2.5, 5.0)
"""Slow ballad, usual song, fast song; rap reaches 7."""

WORDLESS_SECONDS = (5.0, 12.0, 22.0)
"""A section without words: short, usual, long."""

# One syllable each: ideographs, kana but the small ones, Hangul syllables.
_ONE_EACH = re.compile(r"[㐀-䶿一-鿿豈-﫿ぁ-ゖァ-ヺ가-힣]")
_SMALL_KANA = re.compile(r"[ぁぃぅぇぉゃゅょゎァィゥェォャュョヮ]")
_VOWELS = re.compile(
    r"[aeiouyàáâãäåæèéêëìíîïòóôõöøùúûüýÿœąęăāēīōūůűőėįųıəαεηιουωάέήίόύώ]+|[аеёиоуыэюяіїє]", re.IGNORECASE
)
_SILENT_E = re.compile(r"[a-z]{2,}[^aeiouyl\W]e(?:s)?\b", re.IGNORECASE)
# Scripts that write consonants with or without vowel marks: about two and a half signs a syllable.
_ABJAD = re.compile(r"[֐-׿؀-ۿऀ-෿฀-໿က-႟ក-៿]")
_LETTERS = re.compile(r"[^\W\d_]+")

_TOKENS = (
    # characters a token, from the usual behaviour of vocabularies of this kind (150 000 entries, byte-level)
    (re.compile(r"[A-Za-z ]"), 4.2),
    (re.compile(r"[\u00c0-\u024f\u0370-\u058f]"), 1.8),
    (re.compile(r"[㐀-䶿一-鿿ぁ-ヺ가-힣]"), 1.3),
)


@dataclass(frozen=True)
class Length:
    """How long a song may become, in seconds, and what that was counted from."""

    low: float
    typical: float
    high: float
    syllables: int
    wordless_sections: int

    @property
    def basis(self) -> str:
        """For messages: what was counted and which speeds were assumed."""
        low, usual, high = SYLLABLES_A_SECOND
        count, wordless = self.syllables, self.wordless_sections
        also = f" and {wordless} section{'s' * (wordless != 1)} without words" if wordless else ""
        sung = f"about {count} syllable{'s' * (count != 1)}"
        return f"{sung}{also}, at {low} to {high} syllables a second, {usual} as a rule"

    @property
    def text(self) -> str:
        return f"{clock(self.low)} to {clock(self.high)}"


def syllables(text: str) -> int:
    """About how many syllables singing `text` takes, by script: vowel groups, or signs."""
    count = len(_ONE_EACH.findall(text)) - len(_SMALL_KANA.findall(text))
    count += round(len(_ABJAD.findall(text)) / 2.5)
    return count + sum(map(_of_word, _LETTERS.findall(text)))


@lru_cache(maxsize=4096)
def _of_word(word: str) -> int:
    """Groups of vowels; an e at the end of an English word is silent."""
    vowels = len(_VOWELS.findall(word))
    return vowels - (vowels > 1 and _SILENT_E.fullmatch(word) is not None)


def song_length(lyrics: str) -> Length:
    """The length of a sheet: its syllables at three speeds, and its sections without words."""
    sections = split_sections(lyrics)
    count = sum(syllables(line) for section in sections for line in section.words)
    wordless = sum(1 for section in sections if not section.words)
    slow, usual, fast = SYLLABLES_A_SECOND
    short, middle, long = WORDLESS_SECONDS
    return Length(
        count / fast + wordless * short,
        count / usual + wordless * middle,
        count / slow + wordless * long,
        count,
        wordless,
    )


def estimate_tokens(text: str) -> int:
    """About how many tokens `text` makes, without a tokenizer; within a third for most languages."""
    rest, total = len(text), 0.0
    for pattern, characters_a_token in _TOKENS:
        count = len(pattern.findall(text))
        rest -= count
        total += count / characters_a_token
    return round(total + rest * 0.8)
