"""From caption and lyrics to the token ids that the model reads. The tokenizer is the checkpoint's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from music3_cli.errors import CheckpointError, InputError
from music3_cli.song.caption import clean_caption
from music3_cli.song.limits import MAX_PROMPT_TOKENS
from music3_cli.song.lyrics import normalize_lyrics

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL_TOKENS: Mapping[str, int] = {
    "<|im_start|>": 151644,
    "<|im_end|>": 151645,
    "<|audio_cfg|>": 151654,
    "<|audio_start|>": 151669,
    "<|audio_end|>": 151670,
    "<|caption_start|>": 151671,
    "<|caption_end|>": 151672,
    "<|lyrics_start|>": 151673,
    "<|lyrics_end|>": 151674,
}
AUDIO_CFG = SPECIAL_TOKENS["<|audio_cfg|>"]


@dataclass(frozen=True)
class Prompt:
    """What the talker's prefill reads.

    Attributes:
        text: the assembled prompt.
        ids: [T] token ids of the conditional row.
    """

    text: str
    ids: tuple[int, ...]

    @property
    def unconditional_ids(self) -> tuple[int, ...]:
        """[T] the twin without text: all but the first and the last two tokens become `<|audio_cfg|>`."""
        return (self.ids[0], *[AUDIO_CFG] * (len(self.ids) - 3), *self.ids[-2:])


def prompt_text(caption: str, lyrics: str) -> str:
    """The model's prompt template around the cleaned caption and the normalised lyrics."""
    return (
        f"<|im_start|><|caption_start|>{clean_caption(caption)}<|caption_end|>"
        f"<|lyrics_start|>{normalize_lyrics(lyrics)}<|lyrics_end|><|im_end|><|audio_start|>"
    )


class PromptTokenizer:
    """The checkpoint's tokenizer, `tokenizer/tokenizer.json`, with its special ids checked."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # The library makes new numbers for every text; of ten thousand prompts they would be half a gigabyte.
        self._shared_ids: dict[int, int] = {}

    @classmethod
    def from_file(cls, path: Path) -> PromptTokenizer:
        """Load and check.

        Raises:
            CheckpointError: unreadable, or a special token is missing or has another id.
        """
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises a bare Exception
            raise CheckpointError(f"{path}: not a readable tokenizer ({error})", hint="Fetch the file again.") from None
        for token, expected in SPECIAL_TOKENS.items():
            found = tokenizer.token_to_id(token)
            if found != expected:
                has = "is missing" if found is None else f"has id {found}"
                raise CheckpointError(
                    f"{path}: special token {token} {has}; id {expected} was expected",
                    hint="This is not the tokenizer of MiniMax-Music3. Fetch the tokenizer folder again.",
                )
        return cls(tokenizer)

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of `text`, in one call as one string."""
        ids = self._tokenizer.encode(text, add_special_tokens=True).ids
        return tuple(map(self._shared_ids.setdefault, ids, ids))

    def prompt(self, caption: str, lyrics: str) -> Prompt:
        """Assemble and tokenise a song's prompt; no limit is checked (see `check_prompt_length`)."""
        text = prompt_text(caption, lyrics)
        return Prompt(text, self.encode(text))


def check_prompt_length(prompt: Prompt, name: str) -> None:
    """Raise `InputError` over the model's 5000 prompt tokens."""
    if len(prompt.ids) > MAX_PROMPT_TOKENS:
        raise InputError(
            f"{name}: caption and lyrics make {len(prompt.ids)} tokens; the model takes at most {MAX_PROMPT_TOKENS}",
            hint="Shorten the lyrics or the caption.",
        )


def frames_left(prompt: Prompt, context: int) -> int:
    """Frames that the context leaves: prompt + frames + 1 positions must fit (spec section 3)."""
    return context - len(prompt.ids) - 1
