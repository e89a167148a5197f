"""One song to render, complete and checked: the unit that every stage passes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from music3_cli import AUDIO_REVISION
from music3_cli.song.delivery import Delivery
from music3_cli.song.prompt import Prompt

if TYPE_CHECKING:
    from music3_cli.song.codes import SongCodes


@dataclass(frozen=True)
class SongRequest:
    """Everything that decides the samples of one song, and its names.

    Attributes:
        id: short name for messages and events, unique in a run.
        album, track: for the file's tags.
        words_flags: flags that say how the lyrics came from their source.
        source: name of the lyrics or codes file, without its folder.
        lyrics, caption: texts as the prompt takes them.
        prompt: their tokens.
        seed: this take's own seed (the first take's seed + take - 1).
        noise_seed: another seed for the acoustic stage's noise, or None.
        take: counted from 1.
        max_frames: the ceiling.
        steps: Euler steps a window.
        shift: of the schedule.
        fast: `fast` was asked for; steps, shift and precision say what came of it.
        guidance, precision: the acoustic stage's.
        talker_dtype: `bf16` or `fp32`, resolved for the device.
        talker_weights: `full` or `int8`, resolved for the device.
        delivery: what the file is.
        codes: known codes, which the talker then need not draw.
        tags: more labels of the file, such as a genre.
        exact: known codes go through the talker step by step, as in the first render.
    """

    id: str
    title: str
    artist: str
    album: str
    track: str
    source: str
    lyrics: str
    caption: str
    prompt: Prompt
    seed: int
    noise_seed: int | None
    take: int
    max_frames: int
    steps: int
    shift: float
    guidance: float
    seed_scheme: str
    precision: str
    talker_dtype: str
    talker_weights: str
    delivery: Delivery
    codes: SongCodes | None = field(default=None, compare=False)
    exact: bool = False
    fast: bool = field(default=False, compare=False)
    words_flags: tuple[str, ...] = field(default=(), compare=False)
    tags: Mapping[str, str] = field(default_factory=dict, compare=False)

    def model_settings(self) -> dict[str, object]:
        """What the model's own sound depends on, besides the checkpoint, known codes and the code's audio revision."""
        return {
            "lyrics": self.lyrics,
            "caption": self.caption,
            "seed": self.seed,
            "noise_seed": self.noise_seed,
            "seed_scheme": self.seed_scheme,
            "max_frames": self.max_frames,
            "steps": self.steps,
            "shift": self.shift,
            "guidance": self.guidance,
            "precision": self.precision,
            "talker_dtype": self.talker_dtype,
            "talker_weights": self.talker_weights,
        }

    def audio_settings(self) -> dict[str, object]:
        """What the file's samples depend on, besides the checkpoint and the code's audio revision."""
        settings = {**self.model_settings(), **self.delivery.audio_settings()}
        if self.codes is not None:
            settings |= {"codes": self.codes.digest, "teacher_forcing": "step" if self.exact else "prefill"}
        return settings

    def key(self, checkpoint_digest: str) -> str:
        """Identity of the finished file: equal keys, equal samples on one kind of device."""
        return song_key(self.audio_settings(), checkpoint_digest)


def song_key(audio_settings: Mapping[str, object], checkpoint_digest: str) -> str:
    """sha256 over settings, checkpoint digest and audio revision, in canonical JSON."""
    content = {"settings": dict(audio_settings), "checkpoint": checkpoint_digest, "audio_revision": AUDIO_REVISION}
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
