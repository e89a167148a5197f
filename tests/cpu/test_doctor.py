"""`music3 doctor` and `music3 bench song` on the demo checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Music3

NAMES = ["python", "torch", "device", "checkpoint", "placement", "cache", "output", "audio formats", "tags"]
NAMES += ["sample rates"]


def test_a_machine_that_works(music3: Music3) -> None:
    ran = music3("doctor", "--checkpoint", "demo", "--device", "cpu", "--json")
    assert ran.code == 0, ran.out
    checks = json.loads(ran.out)["checks"]
    assert [check["name"] for check in checks] == NAMES
    placement = checks[NAMES.index("placement")]
    assert placement["level"] == "ok" and "both stages on cpu" in placement["found"]
    assert placement["facts"]["kind"] == "resident" and placement["facts"]["talker_bytes"] > 0
    text = music3("doctor", "--checkpoint", "demo", "--device", "cpu")
    assert text.code == 0 and len([line for line in text.out.splitlines() if line.startswith(("ok", "warning"))]) == 10


def test_what_is_missing_is_a_failure_with_its_fix_and_code(music3: Music3) -> None:
    ran = music3("doctor", "--device", "cpu")
    assert ran.code == 5 and "failure  checkpoint:" in ran.out and "music3 download" in ran.out
    ran = music3("doctor", "--checkpoint", "demo", "--device", "tpu")
    assert ran.code == 6 and "auto, cpu, cuda or cuda:N" in ran.out
    ran = music3("doctor", "--checkpoint", "demo", "--device", "cpu", "--memory-limit", "0.001")
    assert ran.code == 6 and "missing)" in ran.out
    assert music3("doctor", "--placement", "wide").code == 2


def test_a_format_that_cannot_be_written_is_a_warning(music3: Music3, monkeypatch: pytest.MonkeyPatch) -> None:
    import soundfile

    real = soundfile.available_subtypes
    monkeypatch.setattr(soundfile, "available_subtypes", lambda name: {} if name == "MP3" else real(name))
    ran = music3("doctor", "--checkpoint", "demo", "--device", "cpu")
    assert ran.code == 0 and "cannot write mp3" in ran.out


def test_bench_song_times_whole_songs(music3: Music3) -> None:
    pytest.importorskip("matplotlib")
    command = ("bench", "song", "--checkpoint", "demo", "--device", "cpu", "--steps", "1", "--seconds", "8.2")
    ran = music3(*command, "--songs", "2", "--timeline", "line.svg", "--json")
    assert ran.code == 0, ran.err
    timing = json.loads(ran.out)
    assert (timing["frames"], timing["windows"], timing["finish_reasons"]) == (410, 4, ["ceiling", "ceiling"])
    assert timing["real_time"] == pytest.approx(timing["audio_seconds"] / timing["seconds"])
    assert 16 < timing["audio_seconds"] < 17
    assert max(span["stop"] for span in timing["spans"]) <= timing["seconds"]
    assert Path("line.svg").read_text().count("acoustic") >= 2
    assert [path.name for path in Path().iterdir()] == ["line.svg"]
