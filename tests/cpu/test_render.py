"""`music3 render` on the demo checkpoint, from lyrics to files."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from music3_cli import AUDIO_REVISION
from music3_cli.acoustic.windows import song_samples
from music3_cli.checkpoint.inventory import open_checkpoint
from tests.conftest import EXAMPLES, Music3
from tests.support.programs import MUSIC3, environment, running

QUICK = ("--checkpoint", "demo", "--steps", "2")
LYRICS = sorted(EXAMPLES.glob("*.txt"))


def samples(demo_root: Path, frames: int) -> int:
    return song_samples(frames, open_checkpoint(demo_root).architecture.condition)


def sidecar(audio: Path) -> dict:
    return json.loads(audio.with_name(audio.name + ".json").read_text())


def test_every_example(music3: Music3, demo_root: Path) -> None:
    ran = music3("render", *LYRICS, *QUICK, "--max-duration", "1.5", "-o", "out")
    assert ran.code == 0, ran.err
    assert sorted(ran.out.split()) == sorted(str(Path("out") / f"{path.stem}.wav") for path in LYRICS)
    for path in LYRICS:
        info = soundfile.info(f"out/{path.stem}.wav")
        assert (info.channels, info.samplerate, info.subtype) == (2, 44100, "PCM_16")
        assert info.frames == samples(demo_root, 37)
    assert "noise, not music" in ran.err
    assert sorted(path.name for path in Path("out").iterdir()) == sorted(
        name for path in LYRICS for name in (f"{path.stem}.wav", f"{path.stem}.wav.json")
    )


def test_the_sidecar_has_everything_to_repeat_the_song(music3: Music3, demo_root: Path) -> None:
    path = EXAMPLES / "short-and-bare.txt"
    flags = ("--max-duration", "1", "--seed", "7", "--caption", "A waltz, male voice", "--title", "T", "-o", "a.wav")
    assert music3("render", path, *QUICK, *flags).code == 0
    content = sidecar(Path("a.wav"))
    assert content["settings"] == {
        "lyrics": path.read_text(),
        "caption": "A waltz, male voice",
        "seed": 7,
        "noise_seed": None,
        "seed_scheme": "server",
        "max_frames": 25,
        "steps": 2,
        "shift": 1.0,
        "guidance": 1.7,
        "precision": "tf32",
        "talker_dtype": "fp32",
        "talker_weights": "full",
        "format": "wav",
        "bit_depth": "16",
        "quality": None,
        "sample_rate": 44100,
        "normalize": "none",
        "dither": True,
    }
    assert content["checkpoint"] == {"name": "demo", "digest": open_checkpoint(demo_root).digest, "demo": True}
    assert content["audio_revision"] == AUDIO_REVISION
    assert content["song"]["title"] == "T"
    result = content["result"]
    assert (result["frames"], result["finish_reason"], result["samples"]) == (25, "ceiling", 86 * 512)
    assert not {"timings", "created"} & set(content), "the same song has the same sidecar"
    assert {"music3", "torch", "python"} <= set(content["versions"])


@pytest.mark.parametrize("bit_depth", ["16", "float"])
def test_the_same_command_gives_the_same_bytes(music3: Music3, bit_depth: str) -> None:
    flags = ("--max-duration", "1", "--bit-depth", bit_depth, "--on-exists", "overwrite", "-o", "a.wav")
    contents = []
    for _ in range(2):
        assert music3("render", EXAMPLES / "short-and-bare.txt", *QUICK, *flags).code == 0
        contents.append(Path("a.wav").read_bytes())
        time.sleep(1.1)  # whatever stamps seconds into a file would show
    assert contents[0] == contents[1]
    assert soundfile.info("a.wav").subtype == {"16": "PCM_16", "float": "FLOAT"}[bit_depth]


def test_a_float_file_holds_what_16_bits_round(music3: Music3) -> None:
    for name in ("16", "float"):
        music3(
            "render",
            EXAMPLES / "short-and-bare.txt",
            *QUICK,
            "--max-duration",
            "1",
            "--bit-depth",
            name,
            "--no-dither",
            "-o",
            f"{name}.wav",
        )
    rounded, exact = (soundfile.read(f"{name}.wav")[0] for name in ("16", "float"))
    assert 0 < np.abs(rounded - exact).max() <= 1 / 32768


def test_company_and_order_change_nothing(music3: Music3) -> None:
    files = [EXAMPLES / name for name in ("morning-light.txt", "yoru-no-uta.txt", "short-and-bare.txt")]
    flags = (*QUICK, "--max-duration", "9")
    assert music3("render", *files, *flags, "-o", "together/").code == 0
    assert music3("render", *reversed(files), *flags, "-o", "reversed/").code == 0
    for file in files:
        name = f"{file.stem}.wav"
        assert music3("render", file, *flags, "-o", f"alone/{name}").code == 0
        assert len({Path(folder, name).read_bytes() for folder in ("together", "reversed", "alone")}) == 1


def test_takes_use_and_record_seed_plus_k(music3: Music3) -> None:
    flags = ("--max-duration", "0.2", "-o", "out/")
    assert music3("render", EXAMPLES / "short-and-bare.txt", *QUICK, *flags, "--takes", "3", "--seed", "7").code == 0
    takes = [Path(f"out/short-and-bare-take{k}.wav") for k in (1, 2, 3)]
    assert [sidecar(take)["song"]["seed"] for take in takes] == [7, 8, 9]
    assert (
        music3("render", EXAMPLES / "short-and-bare.txt", *QUICK, *flags[:2], "--seed", "9", "-o", "nine.wav").code == 0
    )
    assert Path("nine.wav").read_bytes() == takes[2].read_bytes()
    assert takes[0].read_bytes() != takes[1].read_bytes()


def test_a_random_seed_is_told_and_recorded(music3: Music3) -> None:
    ran = music3(
        "render", EXAMPLES / "short-and-bare.txt", *QUICK, "--max-duration", "0.1", "--seed", "random", "-o", "a.wav"
    )
    seed = sidecar(Path("a.wav"))["song"]["seed"]
    assert f"seed {seed} was drawn" in ran.err


def test_schemes_differ(music3: Music3) -> None:
    for scheme in ("server", "diffusers"):
        flags = ("--max-duration", "1", "--seed-scheme", scheme, "-o", f"{scheme}.wav")
        assert music3("render", EXAMPLES / "short-and-bare.txt", *QUICK, *flags).code == 0
    assert Path("server.wav").read_bytes() != Path("diffusers.wav").read_bytes()


def test_front_matter_and_its_rank(music3: Music3) -> None:
    Path("s.txt").write_text("---\ntitle: 夜\nseed: 5\nmax_duration: 0.2\ncaption: A hymn\n---\n[verse]\nhi\n")
    assert music3("render", "s.txt", *QUICK, "--seed", "6", "-o", "{title}-{seed}.wav").code == 0
    content = sidecar(Path("夜-6.wav"))
    assert (content["settings"]["caption"], content["settings"]["max_frames"]) == ("A hymn", 5)


def test_show_settings(music3: Music3) -> None:
    Path("s.txt").write_text("---\nseed: 5\n---\nhi\n")
    shown = json.loads(music3("render", "s.txt", "--show-settings", "--json", "--steps", "4").out)["s"]
    assert shown["seed"] == {"value": 5, "source": "s.txt:2"}
    assert shown["steps"] == {"value": 4, "source": "--steps"}
    assert shown["caption"]["source"] == "preset default"
    table = music3("render", "s.txt", "--show-settings").out
    assert "s.txt:2" in table and "built-in" in table


def test_standard_input(music3: Music3, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"[verse]\r\nhi\r\n"))
    monkeypatch.setattr(sys, "stdin", stdin)
    ran = music3("render", "-", *QUICK, "--max-duration", "0.1", "-o", "out")
    assert ran.code == 0 and Path("out/stdin.wav").exists()
    assert "turned 2 carriage returns" in ran.err
    assert sidecar(Path("out/stdin.wav"))["settings"]["lyrics"] == "[verse]\nhi\n"


def test_words_that_the_model_would_drop_are_named(music3: Music3) -> None:
    Path("s.txt").write_text("[Verse] Morning light\nOn the pine\n")
    ran = music3("render", "s.txt", *QUICK, "--dry-run")
    assert "s.txt:1:9" in ran.out and "Morning light" in ran.out


def test_dry_run_writes_nothing(music3: Music3) -> None:
    ran = music3("render", EXAMPLES / "morning-light.txt", "--checkpoint", "demo", "-o", "out/", "--dry-run")
    assert ran.code == 0
    assert "at most 0:12" in ran.out and "(render: new)" in ran.out
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "device", [("--device", "cud"), ("--acoustic-device", "cud"), ("--acoustic-device", "cpu,cud")], ids=" ".join
)
def test_a_device_that_is_none_shows_in_a_dry_run(music3: Music3, device: tuple[str, str]) -> None:
    given = ("--talker-dtype", "fp32", "--talker-weights", "full")  # nothing else asks for the device
    ran = music3("render", EXAMPLES / "short-and-bare.txt", *QUICK, *given, "-o", "out/", "--dry-run", *device)
    assert ran.code == 6 and "device 'cud': auto, cpu, cuda or cuda:N was expected" in ran.err


def test_what_happens_to_files_that_exist(music3: Music3) -> None:
    command = ("render", EXAMPLES / "short-and-bare.txt", *QUICK, "--max-duration", "0.2", "-o", "a.wav")
    assert music3(*command).code == 0
    first = Path("a.wav").read_bytes()
    kept = music3(*command, "--json")
    assert kept.code == 0 and [r["event"] for r in kept.records if r["event"].startswith("song")] == ["song_kept"]
    other = music3(*command, "--seed", "3")
    assert other.code == 7 and "seed 0 there, 3 wanted" in " ".join(other.err.split())
    assert Path("a.wav").read_bytes() == first
    assert music3(*command, "--seed", "3", "--on-exists", "number").code == 0
    assert Path("a.wav").read_bytes() == first and sidecar(Path("a-2.wav"))["song"]["seed"] == 3
    assert music3(*command, "--seed", "4", "--on-exists", "overwrite").code == 0
    assert sidecar(Path("a.wav"))["song"]["seed"] == 4
    Path("a.wav").write_bytes(first)  # a file that is not its sidecar's
    assert music3(*command, "--seed", "4").code == 7


def test_json_lines(music3: Music3) -> None:
    ran = music3("render", EXAMPLES / "short-and-bare.txt", *QUICK, "--max-duration", "9", "--json", "-o", "a.wav")
    assert ran.code == 0 and ran.err == ""
    names = [record["event"] for record in ran.records]
    assert names[0] == "plan" and names[-1] == "run_finished"
    order = ["placement_chosen", "load_started", "load_finished", "talker_started", "acoustic_started"]
    order += ["talker_finished", "song_finished"]  # the first window begins while the talker is at work
    assert [name for name in names if name in order] == order
    finished = next(record for record in ran.records if record["event"] == "song_finished")
    assert (finished["path"], finished["frames"], finished["finish_reason"]) == ("a.wav", 225, "ceiling")
    assert ran.records[-1]["exit_code"] == 0


def test_quiet_says_only_what_matters(music3: Music3) -> None:
    ran = music3("render", EXAMPLES / "short-and-bare.txt", *QUICK, "--max-duration", "0.2", "-q", "-o", "a.wav")
    assert (ran.code, ran.out) == (0, "a.wav\n")
    # A fifth of a second for a whole lyric is worth a warning, and nothing else is said.
    assert ran.err.startswith("warning: ") and "[lyrics-too-many-words]" in ran.err and ran.err.count("\n") == 1


def test_bars_on_a_terminal(music3: Music3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes stderr for a terminal
    monkeypatch.setenv("TERM", "xterm-256color")
    ran = music3("render", EXAMPLES / "short-and-bare.txt", *QUICK, "--max-duration", "6", "-o", "a.wav")
    assert ran.code == 0
    assert "talker" in ran.err and "acoustic" in ran.err and "x real time" in ran.err and "left" in ran.err


def test_interrupt_ends_with_130_and_leaves_no_leftovers(demo_root: Path) -> None:
    command = [*MUSIC3, "render", EXAMPLES / "short-and-bare.txt", "--checkpoint", demo_root]
    command += ["--steps", "1000", "-o", "out/", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with running(command, **pipes, env=environment()) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["event"] == "acoustic_progress":
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in err and "Traceback" not in err
    assert list(Path("out").iterdir()) == []
