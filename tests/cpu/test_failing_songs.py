"""Songs that cannot be finished: each fails alone, with its reason, and leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from music3_cli.checkpoint.layout import AUDIO_CODE_OFFSET, AUDIO_END
from tests.conftest import EXAMPLES, Music3
from tests.support.edited import edited_copy

QUICK = ("--steps", "2", "--max-duration", "0.4", "-o", "out/")


def shard_of(demo_root: Path, tensor: str) -> str:
    index = json.loads((demo_root / "language_model/model.safetensors.index.json").read_text())
    return f"language_model/{index['weight_map'][tensor]}"


def want_the_end(head: np.ndarray) -> None:
    """An end row that many hiddens point to."""
    wide = (head.astype(np.uint32) << 16).view(np.float32)
    loud = 0.5 * wide[AUDIO_CODE_OFFSET : AUDIO_CODE_OFFSET + 64].sum(0)
    head[AUDIO_END] = (loud.view(np.uint32) >> 16).astype(np.uint16)


def test_zero_frames(music3: Music3, demo_root: Path) -> None:
    """The end is drawn at once in some of twelve songs, and others run."""
    checkpoint = edited_copy(demo_root, shard_of(demo_root, "lm_head.weight"), "lm_head.weight", want_the_end)
    outcomes = {}
    ran = music3(
        "render", EXAMPLES / "short-and-bare.txt", "--checkpoint", checkpoint, *QUICK, "--takes", "12", "--json"
    )
    for record in ran.records:
        if record["event"] in ("song_finished", "song_failed"):
            outcomes[record.get("song")] = record
    assert len(outcomes) == 12
    failed = [record for record in outcomes.values() if record["event"] == "song_failed"]
    finished = [record for record in outcomes.values() if record["event"] == "song_finished"]
    assert failed, "no seed ended at once: the edit has no effect"
    assert all("before its first frame" in record["message"] and "--seed" in record["hint"] for record in failed)
    assert ran.code == 3
    assert ran.records[-1] == {**ran.records[-1], "failed": len(failed), "rendered": len(finished), "exit_code": 3}
    assert len(list(Path("out").glob("*.wav"))) == len(finished)
    for record in finished:
        assert Path(record["path"]).exists()
        assert record["finish_reason"] in ("end", "ceiling")


@pytest.mark.parametrize("takes", [1, 2])
def test_sound_that_is_not_finite(music3: Music3, demo_root: Path, takes: int) -> None:
    def poison(weights: np.ndarray) -> None:
        weights[0] = np.nan

    file = "vocoder/diffusion_pytorch_model.safetensors"
    checkpoint = edited_copy(demo_root, file, "conv_out.bias", poison)
    ran = music3("render", EXAMPLES / "short-and-bare.txt", "--checkpoint", checkpoint, *QUICK, "--takes", takes)
    assert ran.code == 3
    assert ran.err.count("FAILED: the sound is not finite at 0.00 s") == takes
    assert "may be damaged" in ran.err and "Traceback" not in ran.err
    assert list(Path("out").iterdir()) == []


def test_a_full_disk_fails_the_song_and_not_the_run(music3: Music3, monkeypatch: pytest.MonkeyPatch) -> None:
    import soundfile

    real = soundfile.SoundFile.write

    def full_for_the_first(self: soundfile.SoundFile, data: np.ndarray) -> None:
        if "take1" in str(self.name):
            raise OSError(28, "No space left on device")
        real(self, data)

    monkeypatch.setattr(soundfile.SoundFile, "write", full_for_the_first)
    ran = music3("render", EXAMPLES / "short-and-bare.txt", "--checkpoint", "demo", *QUICK, "--takes", "2")
    assert ran.code == 3
    assert "No space left on device" in ran.err and "free space" in ran.err
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "short-and-bare-take2.wav",
        "short-and-bare-take2.wav.json",
    ]


def test_no_such_device(music3: Music3) -> None:
    for device, expected in (("tpu", "auto, cpu, cuda or cuda:N"), ("cuda:x", "auto, cpu, cuda or cuda:N")):
        ran = music3("render", EXAMPLES / "short-and-bare.txt", "--checkpoint", "demo", *QUICK, "--device", device)
        assert ran.code == 6 and expected in ran.err
    import torch

    if not torch.cuda.is_available():
        ran = music3("render", EXAMPLES / "short-and-bare.txt", "--checkpoint", "demo", *QUICK, "--device", "cuda")
        assert ran.code == 6 and "--device cpu" in ran.err
