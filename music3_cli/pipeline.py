"""The only file that knows every stage: requests in, events and written files out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from music3_cli.acoustic.engine import AcousticEngine, Sound
from music3_cli.audio.tags import Tags
from music3_cli.audio.writer import AudioWriter, WrittenAudio
from music3_cli.checkpoint import load
from music3_cli.checkpoint.inventory import Checkpoint
from music3_cli.devices import DTYPES, check_memory, device_name, songs_that_fit, true_fp32
from music3_cli.errors import DeviceError, OutputError, SongError
from music3_cli.events import (
    AcousticProgress,
    AcousticStarted,
    Event,
    LoadFinished,
    LoadProgress,
    LoadStarted,
    SongFailed,
    TalkerFinished,
    TalkerProgress,
    TalkerStarted,
    Warned,
)
from music3_cli.randomness import ForcedRandomness, SongRandomness, dither_words, song_randomness
from music3_cli.song.codes import SongCodes
from music3_cli.song.request import SongRequest
from music3_cli.talker.engine import TalkerEngine, TalkerSong, most_slots
from music3_cli.talker.forcing import forced_hiddens
from music3_cli.talker.state import Slots

FRAMES_AN_EVENT = 5


@dataclass(frozen=True)
class RenderJob:
    """A song, where it goes, and its file's labels."""

    request: SongRequest
    path: Path
    tags: Tags


@dataclass(frozen=True)
class SongRendered(Event):
    """A whole song under its unfinished name; whoever takes this event commits the writer, or the file is removed.

    Attributes:
        seams: where windows join, in seconds.
    """

    job: RenderJob
    writer: AudioWriter
    audio: WrittenAudio
    codes: SongCodes
    seams: tuple[float, ...]
    talker_seconds: float
    acoustic_seconds: float


class Pipeline:
    """Both stages resident on one device."""

    def __init__(
        self, checkpoint: Checkpoint, device: torch.device, talker_dtype: str, cuda_graph: bool = True
    ) -> None:
        self.cuda_graph = cuda_graph
        self.checkpoint, self.device, self.dtype = checkpoint, device, DTYPES[talker_dtype]
        self.device_name = device_name(device)

    def load(self, positions: int) -> Iterator[Event]:
        """Read all weights.

        Args:
            positions: context that the longest song needs, for the memory check.

        Raises:
            DeviceError: not enough memory.
        """
        started = time.perf_counter()
        check_memory(self.checkpoint, self.device, self.dtype, positions)
        total, done = self.checkpoint.weight_bytes, 0
        yield LoadStarted(self.checkpoint.name, f"{self.device} ({self.device_name})", total)

        def progress(count: int) -> None:
            nonlocal done
            done += count

        with _memory_errors(self.device), torch.inference_mode():
            parts = (self.checkpoint, self.device)
            self._talker = TalkerEngine(load.load_talker(*parts, self.dtype, progress), self.cuda_graph)
            yield LoadProgress(done, total)
            condition = load.load_condition_encoder(*parts, self.dtype, progress)
            transformer = load.load_transformer(*parts, progress)
            yield LoadProgress(done, total)
            self._acoustic = AcousticEngine(condition, transformer, load.load_vocoder(*parts, progress))
        yield LoadFinished(time.perf_counter() - started)

    def render(self, jobs: Iterable[RenderJob]) -> Iterator[Event]:
        """Render songs in their order; a song that fails gives a `SongFailed` and does not stop the others.

        Jobs are taken when there are slots for them.

        Yields:
            progress, and a `SongRendered` for every song that is whole.

        Raises:
            DeviceError: out of memory.
        """
        waiting, slots = iter(jobs), most_slots(self.device)
        while group := list(islice(waiting, slots)):
            yield from self._render_group(group)

    def _render_group(self, jobs: Sequence[RenderJob]) -> Iterator[Event]:
        songs = [
            TalkerSong(
                job.request.id,
                job.request.prompt.ids,
                job.request.prompt.unconditional_ids,
                job.request.max_frames,
                self._randomness(job.request),
            )
            for job in jobs
        ]
        size = Slots.bytes_a_song(
            self._talker.talker, max(song.positions for song in songs), max(song.max_frames for song in songs)
        )
        by_id = {song.id: (job, song) for job, song in zip(jobs, songs, strict=True)}
        with _memory_errors(self.device), true_fp32():
            slots = songs_that_fit(size, self.device, most_slots(self.device))
            for event in self._talk(jobs, songs, slots):
                yield event
                if isinstance(event, TalkerFinished):
                    job, song = by_id[event.song]
                    try:
                        yield from self._sound(job, song)
                    except (SongError, OutputError) as error:
                        yield SongFailed(song.id, error.message, error.hint, isinstance(error, OutputError))
                    song.release()

    def peak_device_bytes(self) -> int:
        """The most device memory that tensors took so far; 0 on a CPU."""
        return torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else 0

    def _randomness(self, request: SongRequest) -> SongRandomness:
        vocabulary = self.checkpoint.architecture.backbone.vocab_size
        own = song_randomness(request.seed_scheme, request.seed, vocabulary, request.noise_seed)
        if request.codes is None:
            return own
        state = request.codes.noise_state
        if request.noise_seed != request.codes.record["settings"].get("noise_seed"):
            state = None  # it belongs to the first render's noise
        return ForcedRandomness(request.codes.steps_FC.tolist(), own, None if state is None else state.tobytes())

    def _talk(self, jobs: Sequence[RenderJob], songs: Sequence[TalkerSong], slots: int) -> Iterator[Event]:
        to_step = []
        for job, song in zip(jobs, songs, strict=True):
            if job.request.codes is None or job.request.exact:
                to_step.append(song)
            else:
                yield TalkerStarted(song.id, len(song.ids), song.max_frames)
                self._force(song, job.request.codes)
                yield TalkerFinished(song.id, song.frames, song.finish_reason, song.seconds)
        known = {song.id: job.request.codes for job, song in zip(jobs, songs, strict=True)}
        started: set[str] = set()
        for song in self._talker.run(to_step, slots):
            if song.id not in started:
                if not started and self._talker.eager_because:
                    yield Warned(f"the talker runs without CUDA graphs, slower: {self._talker.eager_because}")
                started.add(song.id)
                yield TalkerStarted(song.id, len(song.ids), song.max_frames)
            if song.finish_reason:
                if codes := known[song.id]:
                    song.finish_reason = codes.finish_reason
                yield TalkerFinished(song.id, song.frames, song.finish_reason, song.seconds)
            elif song.frames % FRAMES_AN_EVENT == 0:
                yield TalkerProgress(song.id, song.frames, song.max_frames)

    def _force(self, song: TalkerSong, codes: SongCodes) -> None:
        """All hiddens of a song whose codes are known."""
        started = time.perf_counter()
        hiddens_FCH = torch.cat(list(forced_hiddens(self._talker.talker, song.ids, torch.from_numpy(codes.steps_FC))))
        priming_C, codes_FC = (torch.from_numpy(part) for part in (codes.priming_C, codes.codes_FC))
        song.finish(codes.finish_reason, priming_C, codes_FC, hiddens_FCH)
        song.seconds = time.perf_counter() - started

    def _sound(self, job: RenderJob, song: TalkerSong) -> Iterator[Event]:
        if not song.frames:
            raise SongError(
                "the model ended the song before its first frame",
                hint="Try another --seed; if all seeds do this, the model does not know what to do with this text.",
            )
        started = time.perf_counter()
        windows, steps = self._acoustic.windows(song.frames), job.request.steps
        yield AcousticStarted(song.id, len(windows), steps)
        codes = _codes_of(song)  # before the first noise is drawn
        sample_rate, seams, samples = self.checkpoint.architecture.vocoder.sampling_rate, [], 0
        request = job.request
        with AudioWriter(job.path, sample_rate, request.delivery, lambda: dither_words(request.seed)) as writer:
            for part in self._acoustic.run(song.frame_hiddens(), song.randomness, steps, request.guidance):
                if isinstance(part, Sound):
                    writer.write(part.samples_CS.numpy())
                    samples += part.samples_CS.shape[1]
                    seams.append(round(samples / sample_rate, 4))
                else:
                    yield AcousticProgress(song.id, part.window.index, len(windows), part.steps, steps)
            audio = writer.finish(job.tags)
            seconds = time.perf_counter() - started
            yield SongRendered(job, writer, audio, codes, tuple(seams[:-1]), song.seconds, seconds)


def _codes_of(song: TalkerSong) -> SongCodes:
    """A song's codes once the talker is done with it."""
    state = song.randomness.noise_state()
    return SongCodes(
        np.array(song.codes, np.int16),
        np.array(song.priming, np.int16),
        song.finish_reason,
        None if state is None else np.frombuffer(state, np.uint8),
    )


@contextmanager
def _memory_errors(device: torch.device) -> Iterator[None]:
    """torch's out-of-memory as ours."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        free, total = torch.cuda.mem_get_info(device)
        raise DeviceError(
            f"device {device}: out of memory ({free / 2**30:.1f} of {total / 2**30:.1f} GiB free): "
            f"{str(error).splitlines()[0]}",
            hint="End other programs on this GPU, or render fewer or shorter songs at once (--takes, --max-duration).",
        ) from None
