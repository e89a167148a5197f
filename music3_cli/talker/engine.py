"""Runs songs through the talker: a prefill for each, then steps that all songs in the slots share.

Songs are admitted longest first, and a finished song's slot is taken by the next one while the others run.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from music3_cli.kernels.keep import AT_CEILING, RUNNING
from music3_cli.kernels.triton_support import kernels_work
from music3_cli.models.talker import Talker
from music3_cli.randomness import ServerRandomness, SongRandomness
from music3_cli.talker.draws import make_draws
from music3_cli.talker.graphs import StepGraphs, bucket_of, try_capture
from music3_cli.talker.state import Slots
from music3_cli.talker.step import frame_step

MOST_SLOTS = 16
"""Songs that share a step where kernels run."""


NO_KERNELS = "Triton cannot build kernels here (it needs a C compiler)"


def most_slots(device: torch.device) -> int:
    """Songs that may share a step on `device`.

    A step reads 22 GB of weights whether one song or sixteen want them. But only our kernels round a row alike whatever
    the number of rows; where the twins run (a CPU, or a GPU without Triton) each song has its steps for itself.
    """
    return MOST_SLOTS if device.type == "cuda" and kernels_work() else 1


@dataclass
class TalkerSong:
    """One song on its way through the talker.

    Attributes:
        id: for events.
        ids, unconditional_ids: [T] the prompt's two rows.
        max_frames: the ceiling.
        frames: emitted so far.
        finish_reason: empty while it runs, then `end` or `ceiling`.
        seconds: the talker's time from the song's prefill to its last frame, the other songs' included.
    """

    id: str
    ids: Sequence[int]
    unconditional_ids: Sequence[int]
    max_frames: int
    randomness: SongRandomness
    frames: int = 0
    finish_reason: str = ""
    seconds: float = 0.0
    _priming_C: torch.Tensor | None = field(default=None, repr=False)
    _codes_FC: torch.Tensor | None = field(default=None, repr=False)
    _hiddens_FCH: torch.Tensor | None = field(default=None, repr=False)

    @property
    def positions(self) -> int:
        """Positions that the cache must hold: the prompt, the unemitted first step and all frames but the last."""
        return len(self.ids) + self.max_frames + 1

    @property
    def codes(self) -> list[list[int]]:
        """8 codes for every frame of a finished song."""
        assert self._codes_FC is not None
        return self._codes_FC.tolist()

    @property
    def priming(self) -> list[int]:
        """The 8 codes of the first step, which is not emitted."""
        assert self._priming_C is not None
        return self._priming_C.tolist()

    def frame_hiddens(self) -> torch.Tensor:
        """[F, 8 x H] of a finished song, for the acoustic stage."""
        assert self._hiddens_FCH is not None
        return self._hiddens_FCH.flatten(1)

    def finish(self, reason: str, priming_C: torch.Tensor, codes_FC: torch.Tensor, hiddens_FCH: torch.Tensor) -> None:
        """All frames are known: [8] and [F, 8] codes, [F, 8, H] hiddens."""
        self.finish_reason, self.frames = reason, len(codes_FC)
        self._priming_C, self._codes_FC, self._hiddens_FCH = priming_C, codes_FC, hiddens_FCH

    def release(self) -> None:
        """Give the frames' memory back."""
        self._hiddens_FCH = None


class TalkerEngine:
    """Loaded weights, and how their steps are run: as CUDA graphs where possible and wanted.

    Attributes:
        eager_because: why a run that wanted graphs had none; empty where all is well.
    """

    def __init__(self, talker: Talker, cuda_graph: bool = True) -> None:
        self.talker = talker
        self.device = talker.head.device
        self.cuda_graph = cuda_graph and self.device.type == "cuda"
        self.eager_because = ""

    @torch.inference_mode()
    def run(self, songs: Sequence[TalkerSong], slots: int | None = None) -> Iterator[TalkerSong]:
        """Generate all frames. Yields a song whenever it has new frames, and once more, finished, when it is whole.

        A song that ends without a frame has no frames and the finish reason `end`. All songs have one random scheme.

        Args:
            slots: songs that share a step; by default what suits the device.
        """
        if not songs:
            return
        count = min(len(songs), slots or most_slots(self.device))
        run = _Run(self, songs, count)
        yield from run.events()


class _Run:
    """The slots of one run and who is in them."""

    def __init__(self, engine: TalkerEngine, songs: Sequence[TalkerSong], count: int) -> None:
        self.talker = engine.talker
        self.waiting = deque(sorted(songs, key=lambda song: -song.max_frames))
        self.places: list[TalkerSong | None] = [None] * count
        self.since = [0.0] * count
        self.busy = 0.0
        positions = max(song.positions for song in songs)
        frames = max(song.max_frames for song in songs)
        self.slots = Slots.empty(self.talker, count, positions, frames)
        self.randomness: list[SongRandomness | None] = [None] * count
        self.draws = make_draws(songs[0].randomness.scheme, self.talker.head.dtype, self.randomness)
        self.graphs: StepGraphs | None = None
        if engine.cuda_graph and self.draws.repeatable:
            # The twins ask the device for lengths, which no graph can hold.
            captured = try_capture(self._step, self.slots) if kernels_work() else NO_KERNELS
            if isinstance(captured, StepGraphs):
                self.graphs = captured
            else:
                engine.eager_because = captured
        # A frame's outcome is read while the next one is at work.
        self.late = engine.device.type == "cuda"
        self.unread: deque[tuple[torch.Tensor, torch.cuda.Event | None, list[TalkerSong | None]]] = deque()

    def _step(self, slots: Slots) -> None:
        frame_step(self.talker, slots, self.draws)

    def events(self) -> Iterator[TalkerSong]:
        started = time.perf_counter()
        while True:
            self._admit()
            occupied = [slot for slot, song in enumerate(self.places) if song is not None]
            if occupied:
                self._advance(occupied[-1] + 1)
            changed = self._read(0 if not occupied or not self.late else 1)
            self.busy += time.perf_counter() - started
            yield from changed
            started = time.perf_counter()
            if not occupied and not self.waiting and not self.unread:
                return

    def _admit(self) -> None:
        for slot, place in enumerate(self.places):
            if place is None and self.waiting:
                song = self.waiting.popleft()
                self.places[slot], self.since[slot] = song, self.busy
                self.slots.admit(slot, self._prefill(song, slot), len(song.ids), song.max_frames, _seed(song))
                self.randomness[slot] = song.randomness

    def _prefill(self, song: TalkerSong, slot: int) -> torch.Tensor:
        """The last position's hiddens [2, H]. One song at a time: its length is its own."""
        embedded_RTH = self.talker.embed_text(torch.tensor([song.ids, song.unconditional_ids]))
        cache = self.slots.cache.rows(2 * slot, 2 * slot + 2)
        return self.talker.backbone.prefill(embedded_RTH, cache)[:, -1]

    def _advance(self, used: int) -> None:
        """One step over the first slots, and its outcome on the way to the host."""
        size = bucket_of(used, self.slots.count)
        if self.graphs is not None:
            self.graphs.replay(size)
        else:
            self._step(self.slots.first(size))
        outcome = torch.stack((self.slots.outcome_S, self.slots.frames_S))
        event = None
        if self.late:
            outcome = torch.empty(outcome.shape, dtype=outcome.dtype, pin_memory=True).copy_(outcome, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        self.unread.append((outcome, event, list(self.places)))

    def _read(self, keep: int) -> list[TalkerSong]:
        """Songs with news in all outcomes but the last `keep`; finished ones leave their slots."""
        changed = []
        while len(self.unread) > keep:
            outcome, event, places = self.unread.popleft()
            if event is not None:
                event.synchronize()
            reasons, frames = outcome.tolist()
            for slot, song in enumerate(places):
                if song is None or song.finish_reason:
                    continue
                grown, song.frames = frames[slot] > song.frames, frames[slot]
                if reasons[slot] != RUNNING:
                    self._finish(slot, song, "ceiling" if reasons[slot] == AT_CEILING else "end")
                if grown or song.finish_reason:
                    changed.append(song)
        return changed

    def _finish(self, slot: int, song: TalkerSong, reason: str) -> None:
        kept = slice(0, song.frames)
        slots = self.slots
        codes_FC, hiddens_FCH = slots.codes_SFC[slot, kept].clone(), slots.hiddens_SFCH[slot, kept].clone()
        song.finish(reason, slots.priming_SC[slot].clone(), codes_FC, hiddens_FCH)
        song.seconds = self.busy - self.since[slot]
        self.places[slot] = self.randomness[slot] = None


def _seed(song: TalkerSong) -> int:
    return song.randomness.talker_seed if isinstance(song.randomness, ServerRandomness) else 0
