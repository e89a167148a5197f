"""`music3 batch` on the demo checkpoint: what is rendered, kept and skipped, and the same bytes whichever way."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.conftest import EXAMPLES, Music3
from tests.support.batch_runs import (
    FLAGS,
    MANIFEST,
    QUICK,
    contents,
    record,
    statuses,
)


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


@pytest.mark.parametrize(
    "flags",
    [
        ("--devices", "cpu,cud"),
        ("--device", "cpu", "--acoustic-device", "cud"),
        ("--executor", "ray", "--devices", "cuda:0,cud"),
        ("--executor", "ray", "--acoustic-device", "cuda:1,cud"),
    ],
)
def test_every_device_is_looked_for_before_anything_begins(music3: Music3, flags: tuple[str, ...]) -> None:
    for dry in ((), ("--dry-run",)):
        ran = music3("batch", EXAMPLES / "album.yaml", *QUICK, "-o", "out", *flags, *dry)
        assert ran.code == 6 and "device 'cud': auto, cpu, cuda or cuda:N was expected" in ran.err
        assert not Path("out").exists()


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
