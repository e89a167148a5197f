"""One song to render, complete and checked: the unit that every stage passes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from music3_cli import AUDIO_REVISION
from music3_cli.song.prompt import Prompt


@dataclass(frozen=True)
class SongRequest:
    """Everything that decides the samples of one song, and its names.

    Attributes:
        id: short name for messages and events, unique in a run.
        lyrics, caption: texts as the prompt takes them.
        prompt: their tokens.
        seed: this take's own seed (the first take's seed + take - 1).
        take: counted from 1.
        max_frames: the ceiling.
        steps: Euler steps a window.
        talker_dtype: `bf16` or `fp32`, resolved for the device.
    """

    id: str
    title: str
    artist: str
    lyrics: str
    caption: str
    prompt: Prompt
    seed: int
    take: int
    max_frames: int
    steps: int
    seed_scheme: str
    precision: str
    talker_dtype: str
    bit_depth: str

    def audio_settings(self) -> dict[str, object]:
        """What the samples depend on, besides the checkpoint and the code's audio revision."""
        return {
            "lyrics": self.lyrics,
            "caption": self.caption,
            "seed": self.seed,
            "seed_scheme": self.seed_scheme,
            "max_frames": self.max_frames,
            "steps": self.steps,
            "precision": self.precision,
            "talker_dtype": self.talker_dtype,
            "bit_depth": self.bit_depth,
        }

    def key(self, checkpoint_digest: str) -> str:
        """Identity of the finished file: equal keys, equal samples on one kind of device."""
        return song_key(self.audio_settings(), checkpoint_digest)


def song_key(audio_settings: Mapping[str, object], checkpoint_digest: str) -> str:
    """sha256 over settings, checkpoint digest and audio revision, in canonical JSON."""
    content = {"settings": dict(audio_settings), "checkpoint": checkpoint_digest, "audio_revision": AUDIO_REVISION}
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
