"""The checkpoint's tokenizer for commands that only count: found where it lies, never made, fetched or searched for."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from music3_cli.errors import Music3Error
from music3_cli.song.prompt import PromptTokenizer

_RELEASED = "models--MiniMaxAI--MiniMax-Music3"


def tokenizer_file() -> Path | None:
    """`tokenizer.json` of the checkpoint that a render would use, if it is on this machine.

    Looks at `MUSIC3_CHECKPOINT` if that is a folder, else at the hub's cache, by path: asking the hub's library costs
    more time than all of lint.
    """
    named = os.environ.get("MUSIC3_CHECKPOINT")
    if named:
        file = Path(named).expanduser() / "tokenizer" / "tokenizer.json"
        return file if file.is_file() else None
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    cache_folder = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    snapshots = cache_folder / _RELEASED / "snapshots"
    try:
        revision = (cache_folder / _RELEASED / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    file = snapshots / revision / "tokenizer" / "tokenizer.json"
    return file if file.is_file() else None


def token_counter() -> Callable[[str], int | None]:
    """Counts the tokens of a prompt's text, or says None where no usable tokenizer is there. Loads it at first use."""

    @cache
    def tokenizer() -> PromptTokenizer | None:
        file = tokenizer_file()
        try:
            return PromptTokenizer.from_file(file) if file else None
        except Music3Error:
            return None  # a broken checkpoint is told about by every command that needs it

    def count(text: str) -> int | None:
        found = tokenizer()
        return len(found.encode(text)) if found else None

    return count
