"""How errors are told: as records, too, where JSON was asked for; names as they stand; not without end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Music3

ONE_MISTAKE_EACH = """
render no.txt
batch no.yaml
verify no-folder
convert no-folder out
download --repo nothing
doctor --placement x
bench talker --songs 0
bench song --steps x
bench acoustic --precision x
inspect checkpoint no-folder
inspect prompt no.txt
inspect song no.wav
presets show no-such
"""


@pytest.mark.parametrize("command", ONE_MISTAKE_EACH.strip().splitlines())
def test_with_json_an_error_is_a_record_too(music3: Music3, command: str) -> None:
    ran = music3(*command.split(), "--json")
    last = json.loads(ran.out.splitlines()[-1])
    assert last["event"] == "error" and last["exit_code"] == ran.code != 0 and last["message"] in ran.err


def test_names_are_shown_as_they_are(music3: Music3) -> None:
    """Neither as styles nor as pictures."""
    Path("[red]").mkdir()
    path = Path("[red]/m:100:[bold].jsonl")
    path.write_text('{"lyrics_text": "x", "sed": 1}\n')
    ran = music3("batch", path)
    # There is no checkpoint either, which the manifest need not wait for.
    assert ran.code == 4 and f"error: {path}:1: manifest" in ran.err and "no checkpoint" in ran.err


def test_a_mistake_of_many_lines_is_not_told_without_end(music3: Music3) -> None:
    Path("m.jsonl").write_text('{"lyrics": "a.txt", "sed": 1}\n' * 300)
    command = ("batch", "m.jsonl", "--checkpoint", "demo", "--dry-run")
    ran = music3(*command)
    assert ran.code == 4 and ran.err.count("unknown field") == 100 and "and 200 more" in ran.err
    assert music3(*command, "--json").out.count('"event": "error"') == 300
