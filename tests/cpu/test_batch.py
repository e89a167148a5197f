"""`music3 batch` on the demo checkpoint: complete, resumable after any kill, the same bytes whichever way."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from music3_cli.cli.main import main
from music3_cli.randomness import ServerRandomness
from music3_cli.song.prompt import PromptTokenizer
from tests.conftest import EXAMPLES, ROOT, Music3
from tests.cpu.test_failing_songs import edited_copy, shard_of, want_the_end

QUICK = ("--checkpoint", "demo", "--steps", "2", "--max-duration", "0.3")
MANIFEST = """\
songs:
- {id: a, lyrics_text: "[verse]\\nLight on the river\\n[outro]", seed: 1, max_duration: 0.2}
- {id: b, lyrics_text: "[verse]\\nFrost on the rail\\n[outro]", seed: 2, takes: 2, max_duration: 0.4}
- {id: c, lyrics_text: "[verse]\\nSmoke on the hill\\n[outro]", seed: 3, max_duration: 0.3}
"""
FLAGS = ("--checkpoint", "demo", "--steps", "2")
TAKES = ["a", "b-take1", "b-take2", "c"]


def load_script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


kill_batch = load_script("kill_batch")


@pytest.fixture
def manifest() -> Path:
    path = Path("m.yaml")
    path.write_text(MANIFEST)
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the manifest gives in one run, file by file."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "m.yaml").write_text(MANIFEST)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.chdir(folder)
        patch.setenv("MUSIC3_PRESETS", str(folder / "no-presets"))
        patch.setattr(sys, "argv", ["music3", "batch", "m.yaml", *FLAGS, "-o", "out", "-q"])
        main()
    assert ended.value.code == 0
    return contents(folder / "out")


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def contents(folder: Path) -> dict[str, str]:
    found: dict[str, str] = kill_batch.contents(folder)
    return {name: digest for name, digest in found.items() if not name.startswith(".music3.")}


def record(folder: str = "out", name: str = "batch.json") -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(folder, name).read_bytes())
    return content


def statuses(folder: str = "out", name: str = "batch.json") -> dict[str, str]:
    return {song["id"]: song["status"] for song in record(folder, name)["songs"]}


def summary_of(err: str, song: str) -> str:
    """The song's row of the table."""
    return next(line for line in err.splitlines()[::-1] if line.split()[:1] == [song])


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "music3_cli", "batch", *map(str, arguments), "--json"]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True
    )


def is_alive(pid: int) -> bool:
    """False for a process that nobody has asked yet how it ended, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(process: subprocess.Popen[str], event: str) -> dict[str, Any]:
    assert process.stdout is not None
    for line in process.stdout:
        content: dict[str, Any] = json.loads(line)
        if content["event"] == event:
            return content
    raise AssertionError(f"no {event}: {process.communicate()[1]}")


def test_the_album_with_takes_matrix_and_formats(music3: Music3) -> None:
    ran = music3("batch", EXAMPLES / "album.yaml", *QUICK, "-o", "out")
    assert ran.code == 0, ran.err
    content = record()
    assert content["finished"] and content["exit_code"] == 0 and content["title"] == "Harbour Lights"
    assert len(content["songs"]) == 12 and set(statuses().values()) == {"rendered"}
    for song in content["songs"]:
        audio, sidecar = Path("out", song["file"]), json.loads(Path("out", song["sidecar"]).read_bytes())
        assert soundfile.info(str(audio)).frames > 0
        assert (sidecar["result"]["sha256"], sidecar["settings"]["seed"]) == (song["sha256"], song["seed"])
        assert song["id"] in ran.err and song["timings"].keys() == {"talker", "acoustic"}
    names = {Path(song["file"]).name for song in content["songs"]}
    assert {"01-lantern-1.wav", "04-gulls-indie-dream-pop-seed12-1.wav", "09-yoru-1.flac"} <= names
    import mutagen

    assert mutagen.File("out/01-lantern-1.wav").tags["TCON"].text == ["Folk"]
    assert mutagen.File("out/09-yoru-1.flac").tags["GENRE"] == ["Folk"]
    page = Path("out/index.html")
    assert "to listen and choose: out/index.html" in ran.err
    assert all(f'"sha256":"{song["sha256"]}"' in page.read_text() for song in content["songs"])
    first = contents(Path("out"))
    again = music3("batch", EXAMPLES / "album.yaml", *QUICK, "-o", "out")
    assert again.code == 0 and "0 rendered, 12 kept" in again.err
    assert contents(Path("out")) == first and "index.html" in first
    page.unlink()  # with it the waveforms that it would have kept
    assert music3("batch", EXAMPLES / "album.yaml", *QUICK, "-o", "out").code == 0
    assert contents(Path("out")) == first
    assert set(statuses().values()) == {"kept"} and record()["pace"] == content["pace"]


def test_the_csv_album(music3: Music3) -> None:
    ran = music3("batch", EXAMPLES / "album.csv", *QUICK, "-o", "out/{index}-{title}-{seed}")
    assert ran.code == 0, ran.err
    assert sorted(path.name for path in Path("out").glob("*.wav")) == [
        "01-Hold On, Little Harbour-7.wav",
        "01-Hold On, Little Harbour-8.wav",
        "02-Stary kapitan-77.wav",
        "03-Night Drive-1986.wav",
    ]


def test_dry_run_says_what_and_why_and_writes_nothing(music3: Music3, manifest: Path) -> None:
    ran = music3("batch", manifest, *FLAGS, "-o", "out", "--dry-run")
    assert ran.code == 0 and not Path("out").exists()
    assert ran.out.count("new; seed") == 4 and "frames" in ran.out and "disk: about" in ran.out and "memory:" in ran.out
    assert "time: not known" in ran.out
    assert music3("batch", manifest, *FLAGS, "-o", "out").code == 0
    Path("out/c.wav").unlink()
    manifest.write_text(MANIFEST.replace("seed: 1,", "seed: 9,"))
    ran = music3("batch", manifest, *FLAGS, "-o", "out", "--dry-run")
    assert "render  a: changed: seed 1 there, 9 wanted" in ran.out
    assert "keep    b-take1: finished already" in ran.out and "render  c: missing" in ran.out
    assert "time: at most 0:0" in ran.out
    plan = music3("batch", manifest, *FLAGS, "-o", "out", "--dry-run", "--json").records[0]
    assert [song["action"] for song in plan["songs"]] == ["render", "keep", "keep", "render"]
    assert plan["estimate"]["frames"] == 5 + 7
    assert music3("batch", manifest, *FLAGS, "-o", "out").code == 0
    assert statuses() == {"a": "rendered", "b-take1": "kept", "b-take2": "kept", "c": "rendered"}


def test_a_new_version_renders_nothing_and_a_new_audio_revision_all(
    music3: Music3, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert music3("batch", manifest, *FLAGS, "-o", "out").code == 0
    import music3_cli.jobs.labels
    import music3_cli.jobs.sidecar
    import music3_cli.song.request

    monkeypatch.setattr(music3_cli.jobs.sidecar, "__version__", "99.0")
    monkeypatch.setattr(music3_cli.jobs.labels, "__version__", "99.0")
    assert "0 rendered, 4 kept" in music3("batch", manifest, *FLAGS, "-o", "out").err
    for module in (music3_cli.jobs.sidecar, music3_cli.song.request):
        monkeypatch.setattr(module, "AUDIO_REVISION", 99)
    ran = music3("batch", manifest, *FLAGS, "-o", "out", "--dry-run")
    assert ran.out.count("changed: made by a music3 that gives other samples") == 4


def test_a_file_of_somebody_else_s_is_not_replaced(music3: Music3, manifest: Path) -> None:
    Path("out").mkdir()
    Path("out/a.wav").write_text("mine")
    ran = music3("batch", manifest, *FLAGS, "-o", "out")
    assert ran.code == 7 and "music3 did not make it" in ran.err
    assert [path.name for path in Path("out").iterdir()] == ["a.wav"] and Path("out/a.wav").read_text() == "mine"


def test_only_limit_and_random_seeds(music3: Music3, manifest: Path) -> None:
    assert music3("batch", manifest, *FLAGS, "-o", "out", "--only", "b").code == 0
    assert statuses() == {"a": "not_started", "b-take1": "rendered", "b-take2": "rendered", "c": "not_started"}
    assert not record()["finished"]
    assert music3("batch", manifest, *FLAGS, "-o", "out", "--limit", "1").code == 0
    assert statuses() == {"a": "rendered", "b-take1": "kept", "b-take2": "kept", "c": "not_started"}
    wrong = music3("batch", manifest, *FLAGS, "-o", "out", "--only", "bb")
    assert wrong.code == 2 and "Did you mean b?" in wrong.err
    manifest.write_text(
        'songs: [{id: r, lyrics_text: "[verse]\\nhi there\\n[outro]", seed: random, max_duration: 0.1}]\n'
    )
    assert music3("batch", manifest, *FLAGS, "-o", "random").code == 0
    seed = record("random")["songs"][0]["seed"]
    assert music3("batch", manifest, *FLAGS, "-o", "random").code == 0
    assert statuses("random") == {"r": "kept"} and record("random")["songs"][0]["seed"] == seed
    assert music3("batch", manifest, *FLAGS, "-o", "random/{id}-{seed}.wav").code == 4


def test_invalid_songs_are_skipped_on_request(music3: Music3) -> None:
    Path("m.yaml").write_text(MANIFEST + "- {id: bad, lyrics: nowhere.txt}\n- {id: worse, lyrics_text: x, steps: 0}\n")
    assert music3("batch", "m.yaml", *FLAGS, "-o", "out").code == 4
    assert not Path("out").exists()
    ran = music3("batch", "m.yaml", *FLAGS, "-o", "out", "--skip-invalid")
    assert ran.code == 3 and statuses()["bad"] == "skipped" and statuses()["a"] == "rendered"
    assert "nowhere.txt: no such file" in record()["songs"][4]["error"]["message"]


def test_kills_reruns_and_the_same_bytes(manifest: Path, plain: dict[str, str]) -> None:
    """The short form of benchmarks/kill_batch.py."""
    command = [sys.executable, "-m", "music3_cli", "batch", "m.yaml", *FLAGS]
    os.environ.setdefault("PYTHONPATH", str(ROOT))
    expected = {**plain, ".music3.lock": kill_batch.file_sha256(ROOT / "tests" / "__init__.py")}
    tally = kill_batch.run_round(command, Path("out"), expected, 3, random.Random(5))
    assert tally.kills >= 1


def test_a_second_run_is_refused_and_a_killed_one_leaves_no_lock(
    music3: Music3, manifest: Path, plain: dict[str, str]
) -> None:
    """Its workers, which would have gone on for long, end with it."""
    with start("m.yaml", *FLAGS[:2], "--steps", "1000", "-o", "out", "--devices", "cpu,cpu") as first:
        workers = [wait_for(first, "worker_ready")["pid"] for _ in range(2)]
        wait_for(first, "acoustic_progress")
        second = music3("batch", manifest, *FLAGS, "-o", "out")
        assert second.code == 8 and f"process {first.pid} on " in second.err and "since 20" in second.err
        assert music3("batch", manifest, *FLAGS, "-o", "out", "--shard", "0/2").code == 8
        assert list(Path("out").glob(".music3-*.wav"))
        first.kill()
    deadline = time.monotonic() + 20
    while any(is_alive(worker) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_alive(worker) for worker in workers)
    assert music3("batch", manifest, *FLAGS, "-o", "out").code == 0
    assert contents(Path("out")) == plain


@pytest.mark.parametrize("mode", ["finish", "drop"])
def test_the_first_signal_is_graceful(music3: Music3, manifest: Path, mode: str) -> None:
    flags = ("--checkpoint", "demo", "--steps", "60", "--on-interrupt", mode, "-o", "out")
    with start("m.yaml", *flags) as process:
        song = wait_for(process, "acoustic_started")["song"]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["exit_code"], last["rendered"]) == ("run_finished", 130, int(mode == "finish"))
    assert statuses()[song] == ("rendered" if mode == "finish" else "not_started")
    assert list(statuses().values()).count("not_started") == 4 - last["rendered"]
    assert not list(Path("out").glob(".music3-*")) and not record()["finished"]
    assert json.loads(out.splitlines()[-2]) == {"event": "page_written", "path": "out/index.html"}
    assert Path("out/index.html").read_text().count('"status":"finished"') == last["rendered"]


def test_the_second_signal_ends_at_once(manifest: Path) -> None:
    with start("m.yaml", "--checkpoint", "demo", "--steps", "1000", "-o", "out") as process:
        wait_for(process, "acoustic_started")
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err
    assert not list(Path("out").glob(".music3-*")) and set(statuses().values()) == {"not_started"}
    assert Path("out/index.html").exists()


def test_shards_together_are_the_whole(music3: Music3, manifest: Path, plain: dict[str, str]) -> None:
    for index in range(3):
        assert music3("batch", manifest, *FLAGS, "-o", "out", "--shard", f"{index}/3").code == 0
    assert not Path("out/index.html").exists()
    names = [f"batch.{index}-of-3.json" for index in range(3)]
    assert [list(statuses(name=name)) for name in names] == [["a", "c"], ["b-take1"], ["b-take2"]]
    assert music3("batch", manifest, *FLAGS, "-o", "out").code == 0
    assert list(statuses().values()) == ["kept"] * 4
    assert {name: sha for name, sha in contents(Path("out")).items() if name not in names} == plain
    assert music3("batch", manifest, *FLAGS, "-o", "out", "--shard", "3/3").code == 2


def test_a_killed_worker_s_songs_go_to_others(manifest: Path, plain: dict[str, str]) -> None:
    with start("m.yaml", *FLAGS, "-o", "out", "--devices", "cpu,cpu") as process:
        worker = wait_for(process, "worker_ready")
        wait_for(process, "talker_started")
        os.kill(worker["pid"], signal.SIGKILL)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err + out
    events = [json.loads(line) for line in out.splitlines()]
    lost = [event for event in events if event["event"] == "worker_lost"]
    assert [event["message"] for event in lost] == ["killed by SIGKILL"]
    assert contents(Path("out")) == plain


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


def test_a_song_is_the_same_in_every_batch_and_order(music3: Music3, manifest: Path, plain: dict[str, str]) -> None:
    songs = MANIFEST.split("\n")[1:4]
    for name, lines in (("alone", songs[2:]), ("other", songs[::-1])):
        Path("other.yaml").write_text("\n".join(["songs:", *lines]) + "\n")
        assert music3("batch", "other.yaml", *FLAGS, "-o", name).code == 0
        assert contents(Path(name))["c.wav"] == plain["c.wav"]
    Path("words.txt").write_text("[verse]\nSmoke on the hill\n[outro]")
    flags = ("--seed", "3", "--max-duration", "0.3", "--on-exists", "overwrite", "-o", "c.wav")
    assert music3("render", "words.txt", *FLAGS, *flags).code == 0
    assert np.array_equal(soundfile.read("c.wav")[0], soundfile.read("other/c.wav")[0])


def test_bars_and_lines(music3: Music3, manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes stderr for a terminal
    monkeypatch.setenv("TERM", "xterm-256color")
    # Long enough for a screen that is drawn ten times a second.
    ran = music3("batch", manifest, *FLAGS[:2], "--steps", "300", "--only", "b", "-o", "out")
    assert ran.code == 0 and "of 2 songs" in ran.err and "acoustic, window 1 of 1" in ran.err


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
def test_ray_with_a_killed_worker(manifest: Path, plain: dict[str, str]) -> None:
    with start("m.yaml", *FLAGS, "-o", "out", "--executor", "ray", "--devices", "cpu,cpu") as process:
        worker = wait_for(process, "worker_ready")
        wait_for(process, "talker_started")
        os.kill(worker["pid"], signal.SIGKILL)
        out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err + out
    assert any(json.loads(line)["event"] == "worker_lost" for line in out.splitlines())
    assert contents(Path("out")) == plain
