"""Runs songs through the talker: a prefill for each, then steps in which several songs are rows of one bucket.

A bucket has a fixed number of rows, whatever songs are in it, and idle slots are carried along: matrix products choose
their kernel by the number of rows, so a fixed number is what makes a song's frames the same alone and in company.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from music3_cli.models.backbone import KVCache
from music3_cli.models.talker import Talker
from music3_cli.randomness import SongRandomness, draws_of
from music3_cli.talker.step import sample_frame

SONGS_A_BUCKET = {"cpu": 1, "cuda": 16}
"""On a GPU a step reads 22 GB of weights whether one song or sixteen want them; on a CPU rows cost time."""


@dataclass
class TalkerSong:
    """One song on its way through the talker.

    Attributes:
        id: for events.
        ids, unconditional_ids: [T] the prompt's two rows.
        max_frames: the ceiling.
        hiddens: a [8, H] tensor for every emitted frame.
        codes: 8 numbers for every emitted frame.
        priming: those of the first step, which is not emitted.
        finish_reason: empty while it runs, then `end` or `ceiling`.
        seconds: time from prefill to the last frame, the bucket's other songs included.
    """

    id: str
    ids: Sequence[int]
    unconditional_ids: Sequence[int]
    max_frames: int
    randomness: SongRandomness
    hiddens: list[torch.Tensor] = field(default_factory=list)
    codes: list[list[int]] = field(default_factory=list)
    priming: list[int] = field(default_factory=list)
    finish_reason: str = ""
    seconds: float = 0.0

    @property
    def positions(self) -> int:
        """Positions that the cache must hold: the prompt, the unemitted first step and all frames but the last."""
        return len(self.ids) + self.max_frames + 1

    def frame_hiddens(self) -> torch.Tensor:
        """[F, 8 x H] for the acoustic stage."""
        return torch.stack(self.hiddens).flatten(1)


class TalkerEngine:
    """Args:

    talker: loaded weights.
    songs_a_bucket: songs that share a step; part of a result's identity, so it depends on the device's kind alone.
    """

    def __init__(self, talker: Talker, songs_a_bucket: int | None = None) -> None:
        self.talker = talker
        self.device = talker.head.device
        self.songs_a_bucket = songs_a_bucket or SONGS_A_BUCKET.get(self.device.type, 1)

    @torch.inference_mode()
    def run(self, songs: Sequence[TalkerSong]) -> Iterator[TalkerSong]:
        """Generate all frames, a bucket of songs at a time; yields a song each time that it has one more frame or ends.

        A song that ends without a frame has no hiddens and the finish reason `end`.
        """
        for first in range(0, len(songs), self.songs_a_bucket):
            yield from self._run_bucket(songs[first : first + self.songs_a_bucket])

    def _run_bucket(self, songs: Sequence[TalkerSong]) -> Iterator[TalkerSong]:
        started = time.perf_counter()
        slots = self.songs_a_bucket
        draws = draws_of([song.randomness for song in songs], slots, self.device)
        hidden_RH = self.talker.head.new_zeros(2 * slots, self.talker.head.shape[1])
        caches: list[KVCache | None] = [None] * slots
        for slot, song in enumerate(songs):
            caches[slot], hidden_RH[2 * slot : 2 * slot + 2] = self._prefill(song)
        for step in itertools.count():
            active = [cache is not None for cache in caches]
            frame = sample_frame(self.talker, hidden_RH, draws, [step] * slots, active)
            ended, codes = frame.ended_S.tolist(), frame.codes_SC.tolist()
            for slot, song in enumerate(songs):
                if not active[slot]:
                    continue
                if ended[slot]:
                    song.finish_reason = "end"
                elif step == 0:  # it only leads past the prompt and is not emitted
                    song.priming = codes[slot]
                else:
                    song.hiddens.append(frame.hidden_SCH[slot])
                    song.codes.append(codes[slot])
                    if len(song.hiddens) == song.max_frames:
                        song.finish_reason = "ceiling"
                if song.finish_reason:
                    caches[slot] = None
                    song.seconds = time.perf_counter() - started
                if song.hiddens or song.finish_reason:
                    yield song
            if not any(caches):
                return
            feedback_SH = self.talker.embed_frame(frame.codes_SC)
            hidden_RH = self.talker.backbone.decode(feedback_SH.repeat_interleave(2, 0), caches)

    def _prefill(self, song: TalkerSong) -> tuple[KVCache, torch.Tensor]:
        """A song's cache and the last position's hiddens [2, H]. One song at a time: its length is its own."""
        embedded_RTH = self.talker.embed_text(torch.tensor([song.ids, song.unconditional_ids]))
        cache = KVCache.empty(self.talker.backbone.config, song.positions, self.talker.head)
        return cache, self.talker.backbone.prefill(embedded_RTH, cache)[:, -1]
