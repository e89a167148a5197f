"""What a batch must not do: end well with songs missing, take what lives in its folder, or break on odd text."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES, Music3
from tests.support.batch_runs import FLAGS, record, start, statuses, wait_for
from tests.support.programs import MUSIC3, environment, running

WORDS = 'lyrics_text: "[verse]\\nLight\\n[outro]", max_duration: 0.2'
DRY = ("--checkpoint", "demo", "--dry-run", "-q", "-o", "out")


def manifest_of(*songs: str, head: str = "") -> str:
    Path("m.yaml").write_text(head + "songs:\n" + "".join(f"- {{{song}, {WORDS}}}\n" for song in songs))
    return "m.yaml"


def test_skipping_faults_of_the_manifest_is_told_and_ends_with_3(music3: Music3) -> None:
    ran = music3("batch", manifest_of("id: a", "id: b, sed: 3"), *FLAGS, "-o", "out", "--skip-invalid")
    assert ran.code == 3 and "left out: m.yaml:3: manifest: unknown field 'sed'" in ran.err
    assert statuses() == {"a": "rendered"} and not record()["finished"] and record()["exit_code"] == 3
    assert "sed" in record()["faults"][0]["message"]


def test_songs_of_two_dtypes_are_no_batch_whatever_is_skipped(music3: Music3) -> None:
    manifest = manifest_of("id: a, talker_dtype: fp32", "id: b, talker_dtype: bf16")
    ran = music3("batch", manifest, *FLAGS, "-o", "out", "--skip-invalid")
    assert ran.code == 4 and "talker dtype bf16 and fp32" in ran.err and not list(Path("out").glob("*.wav"))


def test_shards_of_another_count_are_refused(music3: Music3) -> None:
    manifest = manifest_of("id: a", "id: b", "id: c")
    with start("m.yaml", *FLAGS[:2], "--steps", "100", "-o", "out", "--shard", "0/2") as first:
        wait_for(first, "acoustic_started")
        first.send_signal(signal.SIGSTOP)
        assert music3("batch", manifest, *FLAGS, "-o", "out", "--shard", "0/3").code == 8
        first.send_signal(signal.SIGCONT)
        first.communicate()
    assert first.returncode == 0 and {path.name for path in Path("out").glob("*.wav")} == {"a.wav", "c.wav"}
    assert music3("batch", manifest, *FLAGS, "-o", "out", "--shard", "0/3").code == 0


def test_a_render_in_the_same_folder_keeps_its_file(music3: Music3) -> None:
    command = [*MUSIC3, "render", EXAMPLES / "short-and-bare.txt", *FLAGS[:2]]
    command += ["--steps", "50", "--max-duration", "20", "-o", "out/", "--json"]
    with running(command, stdout=subprocess.PIPE, text=True, env=environment()) as render:
        wait_for(render, "acoustic_started")
        deadline = time.monotonic() + 10
        while not list(Path("out").glob(".music3-*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        render.send_signal(signal.SIGSTOP)
        assert music3("batch", manifest_of("id: a"), *FLAGS, "-o", "out").code == 0
        render.send_signal(signal.SIGCONT)
        render.communicate()
    assert render.returncode == 0 and Path("out/short-and-bare.wav").exists()


@pytest.mark.parametrize(
    "text",
    [
        'lyrics_text,id\n"[verse]\nhello" ,one\n"[verse]\nbye",two\n',
        'lyrics_text,id\n"[verse]\nhello,one\n"[verse]\nbye",two\n',
        'lyrics_text,id\n"[verse]\nhello",one\n"[verse]\nbye,two\n',
        'lyrics_text,id\n"a" x,one\n',
    ],
)
def test_quotes_that_do_not_fit_are_a_fault(music3: Music3, text: str) -> None:
    Path("m.csv").write_text(text)
    ran = music3("batch", "m.csv", *DRY)
    assert ran.code == 4 and "m.csv" in ran.err and "quote" in ran.err


def test_an_empty_row_takes_no_song_along(music3: Music3) -> None:
    Path("m.csv").write_text('lyrics_text\n"[verse] a"\n""\n"[verse] b"\n')
    ran = music3("batch", "m.csv", "--checkpoint", "demo", "--dry-run", "--json", "-o", "out")
    assert ran.code == 0, ran.err
    assert len(ran.records[0]["songs"]) == 2


def test_a_random_seed_is_found_by_any_take(music3: Music3) -> None:
    manifest = manifest_of("id: a, seed: random, takes: 2")
    assert music3("batch", manifest, *FLAGS, "-o", "out", "--only", "a-take2").code == 0
    drawn = json.loads(Path("out/a-take2.wav.json").read_bytes())["settings"]["seed"]
    assert music3("batch", manifest, *FLAGS, "-o", "out").code == 0
    assert statuses() == {"a-take1": "rendered", "a-take2": "kept"}
    assert json.loads(Path("out/a-take1.wav.json").read_bytes())["settings"]["seed"] == drawn - 1
    refused = music3("batch", manifest, *FLAGS, "-o", "out", "--shard", "0/2")
    assert refused.code == 4 and "random seed" in refused.err


def test_ids_and_takes_do_not_depend_on_what_is_skipped(music3: Music3) -> None:
    for folder in ("A", "B"):
        Path(folder).mkdir()
    Path("B/x.txt").write_text("[verse]\nLight\n[outro]\n")
    Path("m.yaml").write_text("songs: [{lyrics: A/x.txt}, {lyrics: B/x.txt}]\ndefaults: {max_duration: 0.2}\n")
    assert music3("batch", "m.yaml", *FLAGS, "-o", "out", "--skip-invalid").code == 3
    Path("A/x.txt").write_text("[verse]\nNight\n[outro]\n")
    assert music3("batch", "m.yaml", *FLAGS, "-o", "out").code == 0
    assert statuses() == {"x": "rendered", "x-2": "kept"}


def test_songs_that_the_manifest_no_longer_names_are_told_and_left_alone(music3: Music3) -> None:
    assert "left alone" not in music3("batch", manifest_of("id: a", "id: b"), *FLAGS, "-o", "out").err
    before = {path.name: path.read_bytes() for path in Path("out").glob("a.wav*")}
    Path("out/notes.json").write_text("{}")  # nobody's song
    ran = music3("batch", manifest_of("id: c", "id: b"), *FLAGS, "-o", "out")
    assert ran.code == 0 and "note: left alone, as the manifest does not name it: out/a.wav\n" in ran.err
    assert {path.name: path.read_bytes() for path in Path("out").glob("a.wav*")} == before


def test_a_take_that_cannot_be_is_skipped_alone(music3: Music3) -> None:
    Path("out").mkdir()
    Path("out/a-take2.wav").write_bytes(b"not ours")
    assert music3("batch", manifest_of("id: a, takes: 3"), *FLAGS, "-o", "out", "--skip-invalid").code == 3
    assert statuses() == {"a-take1": "rendered", "a-take2": "skipped", "a-take3": "rendered"}
    assert Path("out/a-take2.wav").read_bytes() == b"not ours"


def test_only_means_names_as_they_stand_first(music3: Music3) -> None:
    manifest = manifest_of('id: "a[1]"', "id: a1", "id: intro-take-off", "id: intro")
    for pattern, expected in (("a[1]", ["a[1]"]), ("intro", ["intro"]), ("intro*", ["intro-take-off", "intro"])):
        ran = music3("batch", manifest, "--checkpoint", "demo", "--dry-run", "--json", "-o", "out", "--only", pattern)
        assert ran.code == 0, ran.err
        songs = ran.records[0]["songs"]
        assert [song["song"] for song in songs if song["action"] == "render"] == expected, songs


@pytest.mark.parametrize(
    "song",
    [
        '"lyrics": "~nobody-is-called-so.txt"',
        '"lyrics_text": "\\ud800"',
        '"lyrics": "\\ud800.txt"',
        '"lyrics_text": "x", "title": "\\ud800"',
        '"lyrics_text": "x", "guidance": 1' + "0" * 400,
        '"lyrics_text": "x", "max_duration": 1' + "0" * 400,
        '"lyrics_text": "x", "seed": 1' + "0" * 5000,
    ],
)
def test_odd_values_are_told_beside_other_mistakes(music3: Music3, song: str) -> None:
    Path("m.jsonl").write_text(f'{{"id": "a", {song}}}\n{{"id": "b", "lyrics_text": "x", "stepz": 3}}\n')
    ran = music3("batch", "m.jsonl", *DRY)
    assert ran.code == 4 and "unexpected" not in ran.err
    assert "m.jsonl:1" in ran.err and "m.jsonl:2" in ran.err and "stepz" in ran.err


@pytest.mark.parametrize("content", ['{"result": null}', '{"checkpoint": 5}', '{"settings": []}', ""])
def test_a_strange_sidecar_stops_its_song_alone(music3: Music3, content: str) -> None:
    Path("out").mkdir()
    Path("out/a.wav").write_bytes(b"")
    Path("out/a.wav.json").write_text(content)
    ran = music3("batch", manifest_of("id: a", "id: b"), *FLAGS, "-o", "out", "--skip-invalid")
    assert ran.code == 3, ran.err
    assert statuses() == {"a": "skipped", "b": "rendered"}


def test_names_that_no_file_system_takes_are_told_in_the_plan(music3: Music3) -> None:
    manifest = manifest_of(f"id: {'i' * 150}, title: {'t' * 150}", head='output: "{title}-{id}"\n')
    for _ in range(2):
        ran = music3("batch", manifest, *DRY)
        assert ran.code == 7 and "at most 215" in ran.err
        Path("out").mkdir(exist_ok=True)


@pytest.mark.parametrize("flags", [("--shard", ""), ("-o", ""), ("-o", "-")])
def test_empty_flags_are_mistakes(music3: Music3, flags: tuple[str, ...]) -> None:
    assert music3("batch", manifest_of("id: a"), "--checkpoint", "demo", "--dry-run", *flags).code == 2


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ("auto,cuda:0", "name each device"),
        ("cpu,cuda:0", "devices of one kind were expected"),
        ("cuda:1,cuda:0,cuda:1", "a GPU stands twice"),
        ("cuda,cuda:0", "a GPU stands twice"),
    ],
)
@pytest.mark.parametrize("executor", ["local", "ray"])
def test_devices_that_do_not_go_together(music3: Music3, executor: str, devices: str, message: str) -> None:
    ran = music3("batch", manifest_of("id: a"), *DRY, "--executor", executor, "--devices", devices)
    assert ran.code == 2 and message in ran.err


def test_a_template_names_a_file(music3: Music3) -> None:
    ran = music3("batch", manifest_of("id: a", head='output: "{id}/"\n'), *DRY)
    assert ran.code == 4 and "not a folder" in ran.err


@pytest.mark.parametrize("name", [".music3.lock", ".music3.holder"])
def test_a_folder_in_the_lock_s_place(music3: Music3, name: str) -> None:
    Path("out", name).mkdir(parents=True)
    ran = music3("batch", manifest_of("id: a"), *FLAGS, "-o", "out")
    assert ran.code == (7 if name.endswith(".lock") else 0) and "unexpected" not in ran.err


def test_a_manifest_whose_name_is_no_utf_8_is_refused(music3: Music3) -> None:
    """Its record and page could not name it."""
    Path(manifest_of("id: a")).rename(os.fsdecode(b"m\xff.yaml"))
    ran = music3("batch", os.fsdecode(b"m\xff.yaml"), *FLAGS, "-o", "out")
    assert ran.code == 2 and "m\\xff.yaml: not valid UTF-8" in ran.err and not Path("out").exists()
