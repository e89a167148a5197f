"""One song's fault, of every kind, and the others of its batch."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from music3_cli.randomness import ServerRandomness
from music3_cli.song.prompt import PromptTokenizer
from tests.conftest import EXAMPLES, Music3
from tests.cpu.test_failing_songs import edited_copy, shard_of, want_the_end
from tests.support.batch_runs import (
    FLAGS,
    contents,
    record,
    statuses,
    summary_of,
)


def test_a_full_disk_for_one_file_is_tried_again_and_told(
    music3: Music3, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tries = soundfile.SoundFile.write, []

    def full_for_one(self: soundfile.SoundFile, data: np.ndarray) -> None:
        if "b-take1" in str(self.name):
            tries.append(1)
            raise OSError(28, "No space left on device")
        real(self, data)

    monkeypatch.setattr(soundfile.SoundFile, "write", full_for_one)
    ran = music3("batch", manifest, *FLAGS, "-o", "out", "--retries", "2")
    assert ran.code == 3 and len(tries) == 3
    assert statuses() == {"a": "rendered", "b-take1": "failed", "b-take2": "rendered", "c": "rendered"}
    assert "No space left" in ran.err and "No space left" in record()["songs"][1]["error"]["message"]
    monkeypatch.setattr(soundfile.SoundFile, "write", real)
    assert music3("batch", manifest, *FLAGS, "-o", "out").code == 0
    assert list(statuses().values()) == ["kept", "rendered", "kept", "kept"]


def test_a_broken_device_fails_its_songs_after_retries(
    music3: Music3, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from music3_cli.acoustic.engine import AcousticEngine

    real = AcousticEngine.run_windows

    def breaks(self: AcousticEngine, pieces: Any, randomness: Any, *rest: Any, **named: Any) -> Any:
        if randomness.talker_seed == ServerRandomness(1).talker_seed:  # song a
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return real(self, pieces, randomness, *rest, **named)

    monkeypatch.setattr(AcousticEngine, "run_windows", breaks)
    ran = music3("batch", manifest, *FLAGS, "-o", "out")
    assert ran.code == 3 and ran.err.count("try 2 follows") == 1 and "Traceback" not in ran.err
    assert statuses() == {"a": "failed", "b-take1": "rendered", "b-take2": "rendered", "c": "rendered"}
    fast = music3("batch", manifest, *FLAGS, "-o", "fast", "--fail-fast", "--retries", "0", "--max-duration", "0.2")
    assert fast.code == 3 and list(statuses("fast").values()) == ["failed"] + ["not_started"] * 3


def test_a_talker_without_numbers_fails_its_song_and_no_other(music3: Music3, demo_root: Path) -> None:
    words = {"good": "[verse]\nlight on the river\n", "bad": "[verse]\nlight on the \u5ddd\n"}
    song = {"caption": "Folk", "takes": 2, "max_duration": 0.4}
    songs = [{"id": name, "lyrics_text": text, **song} for name, text in words.items()]
    Path("m.json").write_text(json.dumps({"songs": songs}))
    tokenizer = PromptTokenizer.from_file(demo_root / "tokenizer" / "tokenizer.json")
    good, bad = (set(tokenizer.prompt("Folk", text).ids) for text in words.values())

    def poison(embeddings: np.ndarray) -> None:
        embeddings[sorted(bad - good)[0]] = 0x7FC0  # not a number

    name = "model.embed_tokens.weight"
    edited_copy(demo_root, shard_of(demo_root, name), name, poison)
    ran = music3("batch", "m.json", "--checkpoint", "checkpoint", "--steps", "2", "-o", "out")
    assert (
        ran.code == 3 and ran.err.count("values are not finite behind frame 0") >= 2 and "try 2 follows" not in ran.err
    )
    assert list(statuses().values()) == ["rendered", "rendered", "failed", "failed"]
    assert sorted(contents(Path("out"))) == [
        "good-take1.wav",
        "good-take1.wav.json",
        "good-take2.wav",
        "good-take2.wav.json",
        "index.html",
    ]


def test_sound_that_is_not_finite_fails_its_song_alone(
    music3: Music3, manifest: Path, plain: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from music3_cli.acoustic.engine import AcousticEngine

    real = AcousticEngine.run_windows

    def poisoned(self: AcousticEngine, pieces: Any, randomness: Any, *rest: Any, **named: Any) -> Any:
        factor = math.nan if randomness.talker_seed == ServerRandomness(1).talker_seed else 1  # song a
        broken = ((window, hiddens * factor) for window, hiddens in pieces)
        return real(self, broken, randomness, *rest, **named)

    monkeypatch.setattr(AcousticEngine, "run_windows", poisoned)
    ran = music3("batch", manifest, *FLAGS, "-o", "out")
    assert ran.code == 3 and "a: FAILED: the sound is not finite at 0.00 s" in ran.err
    assert statuses() == {"a": "failed", "b-take1": "rendered", "b-take2": "rendered", "c": "rendered"}
    assert "not finite" in record()["songs"][0]["error"]["message"] and "not finite" in summary_of(ran.err, "a")
    others = {name: sha for name, sha in plain.items() if not name.startswith(("a.", "index.html"))}
    assert {name: sha for name, sha in contents(Path("out")).items() if name != "index.html"} == others
    monkeypatch.setattr(AcousticEngine, "run_windows", real)
    assert music3("batch", manifest, *FLAGS, "-o", "out").code == 0
    assert contents(Path("out")) == plain


def test_songs_that_end_before_their_first_frame(music3: Music3, demo_root: Path) -> None:
    edited_copy(demo_root, shard_of(demo_root, "lm_head.weight"), "lm_head.weight", want_the_end)
    lyrics = EXAMPLES / "short-and-bare.txt"
    Path("m.yaml").write_text(f"songs: [{{id: s, lyrics: {lyrics}, takes: 12, max_duration: 0.4}}]\n")
    ran = music3("batch", "m.yaml", "--checkpoint", "checkpoint", "--steps", "2", "-o", "out")
    assert ran.code == 3 and set(statuses().values()) == {"rendered", "failed"}
    for song in record()["songs"]:
        assert song["status"] == "rendered" or "before its first frame" in song["error"]["message"]
    assert "try 2 follows" not in ran.err  # it is the song's, and would be the same again


def test_lyrics_that_vanish_after_planning_do_not_matter(music3: Music3, monkeypatch: pytest.MonkeyPatch) -> None:
    from music3_cli.cli import batch

    shutil.copy(EXAMPLES / "short-and-bare.txt", "words.txt")
    Path("m.yaml").write_text("songs: [{lyrics: words.txt, max_duration: 0.2}]\n")
    real = batch._run

    def without_lyrics(*plan: Any, **named: Any) -> int:
        Path("words.txt").unlink()
        return real(*plan, **named)

    monkeypatch.setattr(batch, "_run", without_lyrics)
    assert music3("batch", "m.yaml", *FLAGS, "-o", "out").code == 0
    assert statuses() == {"words": "rendered"} and not Path("words.txt").exists()


def test_a_page_that_cannot_be_written_is_a_warning(music3: Music3, manifest: Path) -> None:
    Path("out").mkdir()
    Path("out/index.html").write_text("<h1>My own page</h1>")
    ran = music3("batch", manifest, *FLAGS, "-o", "out", "--only", "a")
    assert ran.code == 0 and "warning: no audition page: out/index.html: music3 did not make it" in ran.err
    assert statuses()["a"] == "rendered" and Path("out/index.html").read_text() == "<h1>My own page</h1>"
    assert "to listen and choose" not in ran.err
