"""`music3 doctor` on the demo checkpoint."""

from __future__ import annotations

import json

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


def test_an_acoustic_device_that_stands_twice_counts_once(music3: Music3) -> None:
    ran = music3("doctor", "--checkpoint", "demo", "--device", "cpu", "--acoustic-device", "cpu, cpu", "--json")
    placement = json.loads(ran.out)["checks"][NAMES.index("placement")]
    assert placement["facts"]["kind"] == "resident" and placement["facts"]["acoustic_devices"] == ["cpu"]


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
