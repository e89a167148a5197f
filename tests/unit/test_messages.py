"""How errors are told: as records, too, where JSON was asked for; names as they stand; not without end."""

from __future__ import annotations

import json
import os
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


LONG = "a" * 300
NAMES_TOO_LONG = f"""
4 render {LONG}.txt --checkpoint demo
5 render {{lyrics}} --checkpoint {LONG}
7 render {{lyrics}} --checkpoint demo -o {LONG}
7 render {{lyrics}} --checkpoint demo -o {LONG}/
7 render {{lyrics}} --checkpoint demo -o {LONG}.wav
4 render --from-codes {LONG} --checkpoint demo
4 batch {LONG}.yaml --checkpoint demo
7 batch {{manifest}} --checkpoint demo -o {LONG}
7 lint {{lyrics}} -o {LONG}
5 verify {LONG}
5 inspect checkpoint {LONG}
4 inspect song {LONG}
5 convert {LONG} x
7 download --to {LONG}
"""


@pytest.mark.parametrize("line", NAMES_TOO_LONG.strip().splitlines(), ids=lambda line: line.replace(LONG, "LONG"))
def test_what_the_system_says_of_a_name_is_an_error_of_its_kind(music3: Music3, line: str) -> None:
    Path("song.txt").write_text("[verse]\nLight on the river\n[outro]\n")
    Path("m.yaml").write_text("songs: [{lyrics: song.txt}]\n")
    code, *words = line.format(lyrics="song.txt", manifest="m.yaml").split()
    ran = music3(*words)
    assert ran.code == int(code) and LONG in ran.err and "File name too long" in ran.err
    assert "unexpected" not in ran.err and {path.name for path in Path().iterdir()} == {"song.txt", "m.yaml"}


def test_a_folder_that_is_gone(music3: Music3) -> None:
    Path("gone").mkdir()
    os.chdir("gone")
    Path("../gone").rmdir()
    ran = music3("lint", "x.txt")
    assert ran.code == 7 and "error: the current folder: No such file or directory" in ran.err


def test_a_mistake_of_many_lines_is_not_told_without_end(music3: Music3) -> None:
    Path("m.jsonl").write_text('{"lyrics": "a.txt", "sed": 1}\n' * 300)
    command = ("batch", "m.jsonl", "--checkpoint", "demo", "--dry-run")
    ran = music3(*command)
    assert ran.code == 4 and ran.err.count("unknown field") == 100 and "and 200 more" in ran.err
    assert music3(*command, "--json").out.count('"event": "error"') == 300
