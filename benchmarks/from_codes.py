"""Rendering from kept codes against rendering a whole song: times, and what is equal.

    python benchmarks/from_codes.py LYRICS --checkpoint CHECKPOINT [--seconds 60] [--steps 16] [--device auto]

Loads the weights once and renders into a temporary folder: the whole song with its codes kept; from the codes with
other steps; from the codes with the same settings; from the codes with `--exact`. `--checkpoint demo` tries the script.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import soundfile
import torch

from music3_cli.checkpoint.inventory import Checkpoint
from music3_cli.checkpoint.locate import find_checkpoint
from music3_cli.cli import console
from music3_cli.devices import default_talker_dtype, resolve_device
from music3_cli.events import SongFailed
from music3_cli.jobs.from_codes import read_code_songs
from music3_cli.jobs.labels import tags_of
from music3_cli.jobs.plan import make_plan
from music3_cli.jobs.songs import Song, read_songs
from music3_cli.pipeline import Pipeline, RenderJob, SongRendered
from music3_cli.placement import RunLimits
from music3_cli.randomness import ForcedRandomness, ServerRandomness
from music3_cli.song.codes import codes_path, read_codes, write_codes
from music3_cli.song.limits import MAX_FRAMES
from music3_cli.talker.engine import TalkerEngine
from music3_cli.talker.forcing import forced_hiddens
from music3_cli.talker.song import TalkerSong


class Bench:
    """One loaded pipeline and the folder that it renders into."""

    def __init__(self, checkpoint: Checkpoint, device: torch.device, talker_dtype: str, folder: Path) -> None:
        self.checkpoint, self.device, self.dtype, self.folder = checkpoint, device, talker_dtype, folder
        self.pipeline = Pipeline(checkpoint, device, talker_dtype)
        for _ in self.pipeline.load(RunLimits(1, checkpoint.architecture.backbone.max_position_embeddings, MAX_FRAMES)):
            pass

    def render(self, name: str, songs: list[Song]) -> SongRendered:
        """Render one song as float WAV with its codes beside it, and tell its times."""
        plan = make_plan(songs, self.checkpoint, lambda: self.dtype, str(self.folder / f"{name}.wav"), "overwrite")
        request = plan.songs[0].request
        job = RenderJob(request, plan.songs[0].path, tags_of(request, self.checkpoint))
        for event in self.pipeline.render([job]):
            if isinstance(event, SongFailed):
                raise SystemExit(f"{name}: {event.message}")
            if isinstance(event, SongRendered):
                origin = {"name": self.checkpoint.name, "digest": self.checkpoint.digest}
                record = {"song": {}, "settings": request.model_settings(), "checkpoint": origin}
                write_codes(codes_path(job.path), event.codes, record)
                event.writer.commit()
                done = event
        total = done.talker_seconds + done.acoustic_seconds
        console.data(
            f"{name:24s} {done.codes.frames} frames, talker {done.talker_seconds:7.2f} s, acoustic "
            f"{done.acoustic_seconds:7.2f} s, together {total:7.2f} s"
        )
        return done

    def samples(self, name: str) -> np.ndarray:
        return soundfile.read(self.folder / f"{name}.wav", dtype="float32")[0]


def seconds(done: SongRendered) -> float:
    return done.talker_seconds + done.acoustic_seconds


def compare(bench: Bench, name: str) -> None:
    first, again = bench.samples("whole"), bench.samples(name)
    difference = np.abs(first - again).max()
    snr = 10 * np.log10((first**2).mean() / max(((first - again) ** 2).mean(), 1e-30))
    console.data(
        f"{name}: samples equal to the whole render: {np.array_equal(first, again)}, maximum difference "
        f"{difference:.3g}, signal to difference {snr:.1f} dB"
    )


def compare_hiddens(bench: Bench, done: SongRendered) -> None:
    """Hiddens of the whole song, frame by frame and by teacher forcing in batches."""
    request, talker = done.job.request, bench.pipeline._talker_weights.take()
    codes = read_codes(codes_path(done.job.path))
    randomness = ForcedRandomness(codes.steps_FC.tolist(), ServerRandomness(0))
    ids = request.prompt.ids
    song = TalkerSong("steps", ids, request.prompt.unconditional_ids, codes.frames, randomness)
    for _ in TalkerEngine(talker).run([song]):
        pass
    forced = torch.cat(list(forced_hiddens(talker, ids, torch.from_numpy(codes.steps_FC)))).float().cpu()
    stepped = song.frame_hiddens().unflatten(1, (8, -1)).float().cpu()
    error = forced - stepped
    console.data(
        f"hiddens {list(stepped.shape)}: maximum difference {error.abs().max():.3g} (values to "
        f"{stepped.abs().max():.3g}), relative norm {error.norm() / stepped.norm():.3g}, "
        f"equal {torch.equal(forced, stepped)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lyrics")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--steps", type=int, default=16, help="of the second render; the whole song has 30")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    device = resolve_device(args.device)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(find_checkpoint(args.checkpoint), device, default_talker_dtype(device), Path(folder))
        console.data(f"{bench.checkpoint.name} on {bench.pipeline.device_name}, talker {bench.dtype}")
        flags: Mapping[str, object] = {"max_duration": args.seconds, "bit_depth": "float"}
        bench.render("warm-up", read_songs([args.lyrics], {**flags, "max_duration": 1, "steps": 1}, None))
        whole = bench.render("whole", read_songs([args.lyrics], flags, None))
        kept, as_float = [str(codes_path(whole.job.path))], {"bit_depth": "float"}
        other = bench.render("other steps", read_code_songs(kept, {**as_float, "steps": args.steps}, False))
        bench.render("same settings", read_code_songs(kept, as_float, False))
        bench.render("exact", read_code_songs(kept, as_float, True))
        size = codes_path(whole.job.path).stat().st_size
        console.data(
            f"from codes with {args.steps} steps: {seconds(whole) / seconds(other):.1f} times as fast as the whole "
            f"song; its talker's half {whole.talker_seconds / other.talker_seconds:.1f} times; codes file {size} bytes"
        )
        compare(bench, "same settings")
        compare(bench, "exact")
        compare_hiddens(bench, whole)


if __name__ == "__main__":
    main()
