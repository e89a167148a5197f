"""Runs songs through the talker: a prefill for each, then steps that all songs in the slots share.

Songs are admitted in the order in which they come, and a finished song's slot is taken by the next one while the others
run.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import torch

from music3_cli.devices import to_host
from music3_cli.kernels.keep import AT_CEILING, BROKEN, ENDED, RUNNING
from music3_cli.kernels.triton_support import kernels_work
from music3_cli.models.talker import Talker
from music3_cli.placement import RunLimits
from music3_cli.randomness import ServerRandomness, SongRandomness
from music3_cli.song.codes import SongCodes
from music3_cli.talker.draws import make_draws
from music3_cli.talker.forcing import forced_hiddens
from music3_cli.talker.graphs import StepGraphs, bucket_of, try_capture
from music3_cli.talker.song import CHUNK_FRAMES, Hiddens, TalkerSong
from music3_cli.talker.state import RING, Slots
from music3_cli.talker.step import frame_step

MOST_SLOTS = 16
"""Songs that share a step where kernels run."""


REASONS = {ENDED: "end", AT_CEILING: "ceiling", BROKEN: "broken"}
"""Why a song is finished, by its slot's outcome."""

NO_KERNELS = "Triton cannot build kernels here (it needs a C compiler)"


def most_slots(device: torch.device) -> int:
    """Songs that may share a step on `device`.

    A step reads 22 GB of weights whether one song or sixteen want them. But only our kernels round a row alike whatever
    the number of rows; where the twins run (a CPU, or a GPU without Triton) each song has its steps for itself.
    """
    return MOST_SLOTS if device.type == "cuda" and kernels_work() else 1


class TalkerEngine:
    """Loaded weights, and how their steps are run: as CUDA graphs where possible and wanted.

    Attributes:
        eager_because: why a run that wanted graphs had none; empty where all is well.
        hiddens_on_host: whether frames' hiddens leave the device.
    """

    def __init__(self, talker: Talker, cuda_graph: bool = True, hiddens_on_host: bool = False) -> None:
        self.talker, self.hiddens_on_host = talker, hiddens_on_host
        self.device = talker.head.device
        self.cuda_graph = cuda_graph and self.device.type == "cuda"
        self.eager_because = ""

    @torch.inference_mode()
    def run(
        self,
        songs: Iterable[TalkerSong],
        slots: int | None = None,
        limits: RunLimits | None = None,
        room: Callable[[bool], bool] = lambda idle: True,
    ) -> Iterator[TalkerSong]:
        """Generate all frames. The next song is asked for only when a slot is free for it.

        Yields:
            a song when it is admitted, whenever it has new frames, and once more, finished, when it is whole. A song
            that ends without a frame has no frames and the finish reason `end`.

        Args:
            songs: in the order in which they are admitted; without `limits` all are looked at first.
            slots: songs that share a step; by default what suits the device.
            limits: what the songs need at most.
            room: asked before a song is; True in its argument says that there is nothing else to do: it may then wait,
                and False ends the run.
        """
        if limits is None:
            songs = list(songs)
            if not songs:
                return
            limits = RunLimits.of((len(song.ids), song.max_frames) for song in songs)
        count = min(limits.songs, slots or most_slots(self.device))
        yield from _Run(self, iter(songs), count, limits, room).events()


class _Run:
    """The slots of one run and who is in them."""

    def __init__(
        self,
        engine: TalkerEngine,
        songs: Iterator[TalkerSong],
        count: int,
        limits: RunLimits,
        room: Callable[[bool], bool],
    ) -> None:
        self.engine, self.talker, self.limits = engine, engine.talker, limits
        self.songs, self.room = songs, room
        self.next: TalkerSong | None = None
        self.ended = False
        self.places: list[TalkerSong | None] = [None] * count
        self.since = [0.0] * count
        self.busy = 0.0
        self.slots: Slots | None = None
        self.randomness: list[SongRandomness | None] = [None] * count
        self.scheme = ""
        self.graphs: StepGraphs | None = None
        # A frame's outcome is read while the next one is at work.
        self.late = engine.device.type == "cuda"
        self.unread: deque[tuple[torch.Tensor, torch.cuda.Event | None, list[TalkerSong | None]]] = deque()

    def events(self) -> Iterator[TalkerSong]:
        started = time.perf_counter()
        while True:
            self._retire()
            changed = self._admit()
            occupied = [slot for slot, song in enumerate(self.places) if song is not None]
            if occupied:
                self._advance(occupied[-1] + 1)
            changed += self._read(0 if not occupied or not self.late else 1)
            self.busy += time.perf_counter() - started
            yield from changed
            started = time.perf_counter()
            if not occupied and self.ended and self.next is None and not self.unread:
                return

    def _peek(self) -> TalkerSong | None:
        """The next song, if there is one and it may come now."""
        if self.next is None and not self.ended:
            idle = not self.unread and all(song is None for song in self.places)
            if self.room(idle):
                self.next = next(self.songs, None)
                self.ended = self.next is None
            else:
                self.ended = idle
        return self.next

    def _admit(self) -> list[TalkerSong]:
        """Fill free slots; songs whose codes are known need none."""
        admitted: list[TalkerSong] = []
        for slot, place in enumerate(self.places):
            if place is None and (song := self._peek()) is not None:
                if song.known is not None and not song.exact:
                    self.next = None
                    self._force(song, song.known)
                    return [*admitted, song]
                if song.randomness.scheme != self.scheme:
                    if any(other is not None for other in self.places) or self.unread:
                        return admitted  # one random scheme at a time
                    self._begin(song.randomness.scheme)
                self.next = None
                assert self.slots is not None
                self.places[slot], self.since[slot], self.randomness[slot] = song, self.busy, song.randomness
                self.slots.admit(slot, self._prefill(song, slot), len(song.ids), song.max_frames, _seed(song))
                admitted.append(song)
        return admitted

    def _begin(self, scheme: str) -> None:
        """Songs of another random scheme come now."""
        if self.slots is None:
            self.slots = Slots.empty(self.talker, len(self.places), self.limits.positions, self.limits.frames)
        self.scheme = scheme
        self.draws = make_draws(scheme, self.talker.head.dtype, self.randomness)
        self.graphs = None
        if self.engine.cuda_graph and self.draws.repeatable:
            # The twins ask the device for lengths, which no graph can hold.
            captured = try_capture(self._step, self.slots) if kernels_work() else NO_KERNELS
            if isinstance(captured, StepGraphs):
                self.graphs = captured
            else:
                self.engine.eager_because = captured

    def _step(self, slots: Slots) -> None:
        frame_step(self.talker, slots, self.draws)

    def _prefill(self, song: TalkerSong, slot: int) -> torch.Tensor:
        """The last position's hiddens [2, H]. One song at a time: its length is its own."""
        assert self.slots is not None
        embedded_RTH = self.talker.embed_text(torch.tensor([song.ids, song.unconditional_ids]))
        cache = self.slots.cache.rows(2 * slot, 2 * slot + 2)
        return self.talker.backbone.prefill(embedded_RTH, cache)[:, -1]

    def _force(self, song: TalkerSong, codes: SongCodes) -> None:
        """All hiddens of a song whose codes are known."""
        started = time.perf_counter()
        for hiddens_FCH in forced_hiddens(self.talker, song.ids, torch.from_numpy(codes.steps_FC)):
            song.hand_over(self._kept(hiddens_FCH))
        priming_C, codes_FC = (torch.from_numpy(part) for part in (codes.priming_C, codes.codes_FC))
        song.finish(codes.finish_reason, priming_C, codes_FC)
        song.seconds = time.perf_counter() - started

    def _advance(self, used: int) -> None:
        """One step over the first slots, and its outcome on the way to the host."""
        assert self.slots is not None
        size = bucket_of(used, self.slots.count)
        if self.graphs is not None:
            self.graphs.replay(size)
        else:
            self._step(self.slots.first(size))
        outcome = to_host(torch.stack((self.slots.outcome_S, self.slots.frames_S)))
        self.unread.append((*outcome, list(self.places)))

    def _read(self, keep: int) -> list[TalkerSong]:
        """Songs with news in all outcomes but the last `keep`; finished ones leave their slots."""
        changed = []
        while len(self.unread) > keep:
            outcome, event, places = self.unread.popleft()
            if event is not None:
                event.synchronize()
            reasons, frames = outcome.tolist()
            for slot, song in enumerate(places):
                if song is None or song.finish_reason or song.dropped:
                    continue
                grown, song.frames = frames[slot] > song.frames, frames[slot]
                # One frame more than a chunk: whoever takes the chunk then knows that the song goes on behind it.
                if song.frames - song.handed > CHUNK_FRAMES:
                    self._hand_over(slot, song, song.handed + CHUNK_FRAMES)
                if reasons[slot] != RUNNING:
                    self._finish(slot, song, REASONS[reasons[slot]])
                if grown or song.finish_reason:
                    changed.append(song)
        return changed

    def _hand_over(self, slot: int, song: TalkerSong, stop: int) -> None:
        """The hiddens of frames up to `stop`, which lie in one piece, out of the slot's ring."""
        assert self.slots is not None
        first = song.handed % RING
        song.hand_over(self._kept(self.slots.hiddens_SFCH[slot, first : first + stop - song.handed], copy=True))

    def _kept(self, hiddens_FCH: torch.Tensor, copy: bool = False) -> Hiddens:
        """Hiddens where the next stage finds them, with an event behind their copy."""
        if self.engine.hiddens_on_host:
            return Hiddens(*to_host(hiddens_FCH))
        kept = hiddens_FCH.clone() if copy else hiddens_FCH
        if not self.late:
            return Hiddens(kept)
        event = torch.cuda.Event()
        event.record()
        return Hiddens(kept, event)

    def _finish(self, slot: int, song: TalkerSong, reason: str) -> None:
        assert self.slots is not None
        if song.frames > song.handed:
            self._hand_over(slot, song, song.frames)
        codes_FC = self.slots.codes_SFC[slot, : song.frames].clone()
        if song.known and reason != "broken":
            reason = song.known.finish_reason
        song.finish(reason, self.slots.priming_SC[slot].clone(), codes_FC)
        song.seconds = self.busy - self.since[slot]
        self._leave(slot)

    def _retire(self) -> None:
        """Songs that nobody wants any more leave their slots."""
        for slot, song in enumerate(self.places):
            if song is not None and song.dropped:
                assert self.slots is not None
                self.slots.alive_S[slot].fill_(False)
                self._leave(slot)

    def _leave(self, slot: int) -> None:
        self.places[slot] = self.randomness[slot] = None


def _seed(song: TalkerSong) -> int:
    return song.randomness.talker_seed if isinstance(song.randomness, ServerRandomness) else 0
