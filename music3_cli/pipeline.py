"""The only file that knows every stage: requests in, events and written files out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from music3_cli.acoustic.engine import AcousticEngine, Sound
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
)
from music3_cli.models.backbone import KVCache
from music3_cli.randomness import song_randomness
from music3_cli.song.request import SongRequest
from music3_cli.talker.engine import TalkerEngine, TalkerSong

FRAMES_AN_EVENT = 5


@dataclass(frozen=True)
class RenderJob:
    """A song and where it goes."""

    request: SongRequest
    path: Path


@dataclass(frozen=True)
class SongRendered(Event):
    """A whole song under its unfinished name; whoever takes this event commits the writer, or the file is removed."""

    job: RenderJob
    writer: AudioWriter
    audio: WrittenAudio
    frames: int
    finish_reason: str
    talker_seconds: float
    acoustic_seconds: float


class Pipeline:
    """Both stages resident on one device."""

    def __init__(self, checkpoint: Checkpoint, device: torch.device, talker_dtype: str) -> None:
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
            self._talker = TalkerEngine(load.load_talker(*parts, self.dtype, progress))
            yield LoadProgress(done, total)
            condition = load.load_condition_encoder(*parts, self.dtype, progress)
            transformer = load.load_transformer(*parts, progress)
            yield LoadProgress(done, total)
            self._acoustic = AcousticEngine(condition, transformer, load.load_vocoder(*parts, progress))
        yield LoadFinished(time.perf_counter() - started)

    def render(self, jobs: Sequence[RenderJob]) -> Iterator[Event]:
        """Render songs; a song that fails gives a `SongFailed` and does not stop the others.

        Yields:
            progress, and a `SongRendered` for every song that is whole.

        Raises:
            DeviceError: out of memory.
        """
        backbone = self.checkpoint.architecture.backbone
        songs = [
            TalkerSong(
                job.request.id,
                job.request.prompt.ids,
                job.request.prompt.unconditional_ids,
                job.request.max_frames,
                song_randomness(job.request.seed_scheme, job.request.seed, backbone.vocab_size),
            )
            for job in jobs
        ]
        sizes = [self._bytes_of(song) for song in songs]
        first = 0
        with _memory_errors(self.device), true_fp32():
            while first < len(jobs):
                count = songs_that_fit(sizes[first:], self.device, self._talker.songs_a_bucket)
                group = slice(first, first + count)
                yield from self._talk(songs[group])
                for job, song in zip(jobs[group], songs[group], strict=True):
                    try:
                        yield from self._sound(job, song)
                    except (SongError, OutputError) as error:
                        yield SongFailed(song.id, error.message, error.hint)
                    song.hiddens.clear()
                first += count

    def peak_device_bytes(self) -> int:
        """The most device memory that tensors took so far; 0 on a CPU."""
        return torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else 0

    def _bytes_of(self, song: TalkerSong) -> int:
        """Device memory that a song holds while the talker runs: cache and frame hiddens."""
        architecture = self.checkpoint.architecture
        cache = song.positions * KVCache.bytes_a_position(architecture.backbone, self.dtype)
        hiddens = song.max_frames * architecture.depth.num_codebooks * architecture.depth.hidden_size
        return cache + hiddens * self.dtype.itemsize

    def _talk(self, songs: Sequence[TalkerSong]) -> Iterator[Event]:
        for song in songs:
            yield TalkerStarted(song.id, len(song.ids), song.max_frames)
        for song in self._talker.run(songs):
            frames = len(song.hiddens)
            if song.finish_reason:
                yield TalkerFinished(song.id, frames, song.finish_reason, song.seconds)
            elif frames % FRAMES_AN_EVENT == 0:
                yield TalkerProgress(song.id, frames, song.max_frames)

    def _sound(self, job: RenderJob, song: TalkerSong) -> Iterator[Event]:
        if not song.hiddens:
            raise SongError(
                "the model ended the song before its first frame",
                hint="Try another --seed; if all seeds do this, the model does not know what to do with this text.",
            )
        started = time.perf_counter()
        windows, steps = self._acoustic.windows(len(song.hiddens)), job.request.steps
        yield AcousticStarted(song.id, len(windows), steps)
        sample_rate = self.checkpoint.architecture.vocoder.sampling_rate
        with AudioWriter(job.path, sample_rate, job.request.bit_depth) as writer:
            for part in self._acoustic.run(song.frame_hiddens(), song.randomness, steps):
                if isinstance(part, Sound):
                    writer.write(part.samples_CS.numpy())
                else:
                    yield AcousticProgress(song.id, part.window.index, len(windows), part.steps, steps)
            audio = writer.finish()
            seconds = time.perf_counter() - started
            yield SongRendered(job, writer, audio, len(song.hiddens), song.finish_reason, song.seconds, seconds)


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
