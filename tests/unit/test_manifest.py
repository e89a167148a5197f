"""Manifests: what they ask for, in four spellings, and everything that is wrong with them, at once and with lines."""

from __future__ import annotations

import importlib.util
import json
import time
from pathlib import Path

import pytest

from music3_cli.song.manifest.entries import Manifest, read_entries
from music3_cli.song.manifest.fields import DefaultFields
from music3_cli.song.settings import SETTINGS
from music3_cli.song.text import SourceText
from tests.conftest import EXAMPLES, ROOT, Music3


def manifest_of(text: str, ending: str = ".yaml") -> Manifest:
    return read_entries(SourceText(f"m{ending}", text), ending)


def lines_of(manifest: Manifest) -> list[tuple[int, str]]:
    return [(fault.line, fault.what) for fault in manifest.faults]


MISTAKES = """\
title: Album
output: ../{idd}.wav
default: {}
defaults:
  stesp: 4
  steps: many
  dither: perhaps
songs:
- {id: a, lyrics: x.txt, lyrics_text: hi}
- {id: a, lyrics: y.txt, seed: -1, seed: 2}
- {titel: x, lyrics: missing.txt}
- 5
- {lyrics: ok.txt, matrix: {sed: [1]}}
- {lyrics: ok.txt, matrix: {seed: [x, 2], steps: []}}
- {lyrics: ok.txt, seeds: [1, 1]}
- {lyrics: [a], tags: {mood: 1}, takes: 0, bit_depth: 12, max_duration: forever}
- {title: nothing}
- {lyrics: ok.txt, caption: x, caption_file: y}
- {lyrics: ok.txt, seeds: [1], takes: 2}
"""
EXPECTED = [
    (2, "unknown field {idd}. Did you mean {id}?"),
    (3, "unknown field 'default'"),
    (5, "unknown field 'stesp'"),
    (6, "steps 'many': a whole number from 1 to 1000"),
    (7, "dither 'perhaps': true or false"),
    (9, "lyrics and lyrics_text: one of them"),
    (10, "seed '-1': a whole number"),
    (10, "seed stands twice (first on line 10)"),
    (11, "unknown field 'titel'"),
    (12, "a table of fields was expected"),
    (13, "matrix: unknown field 'sed'"),
    (14, "seed 'x': a whole number"),
    (14, "matrix: steps must be a list"),
    (15, "seeds: a seed stands twice"),
    (16, "lyrics: one plain value"),
    (16, "tags: unknown tag 'mood'"),
    (16, "takes '0': a whole number"),
    (16, "bit_depth '12': one of 16, 24, float"),
    (16, "max_duration 'forever': a ceiling"),
    (17, "a song has no words"),
    (18, "caption and caption_file: one of them"),
    (19, "seeds and takes: one of them"),
]


def test_all_mistakes_are_told_at_once_with_their_lines_and_nothing_is_written(music3: Music3) -> None:
    Path("m.yaml").write_text(MISTAKES)
    ran = music3("batch", "m.yaml", "--checkpoint", "demo", "-o", "out")
    assert ran.code == 4
    told = " ".join(ran.err.split())
    for line, what in EXPECTED:
        assert f"m.yaml:{line}: manifest: " in told and what in told, (line, what)
    assert "Did you mean steps?" in told and "Did you mean title?" in told and "Did you mean seed?" in told
    assert f"{len(manifest_of(MISTAKES).faults)} errors" in told
    assert sorted(path.name for path in Path().iterdir()) == ["m.yaml"]
    assert {(line, what) for line, what in EXPECTED} == {
        (line, part)
        for line, what in lines_of(manifest_of(MISTAKES))
        for n, part in EXPECTED
        if n == line and part in what
    }


def test_mistakes_in_files_are_told_together_with_where_they_are_named(music3: Music3) -> None:
    Path("ok.txt").write_text("[verse]\nlight on the water\n[outro]\n")
    Path("bad.txt").write_text("---\nseeed: 1\n---\nhi\n")
    Path("m.yaml").write_text(
        "output: '{title}.wav'\nsongs:\n- {lyrics: okk.txt}\n- {lyrics: bad.txt}\n- {lyrics: ok.txt, preset: neo-sol}\n"
        "- {lyrics: ok.txt, title: Same}\n- {lyrics: ok.txt, title: same}\n- {lyrics: ok.txt, format: flac}\n"
        "- {lyrics: ok.txt, caption_file: c.txt}\n- {lyrics: ok.txt, preset: neo-soul, set: {bmp: 90}}\n"
    )
    ran = music3("batch", "m.yaml", "--checkpoint", "demo", "-o", "out")
    told = " ".join(ran.err.split())
    assert "m.yaml:3: okk.txt: no such file" in told and "Did you mean ok.txt?" in told
    assert "m.yaml:4: bad.txt:2: front matter: unknown field 'seeed'" in told
    assert "m.yaml:5: no preset named 'neo-sol'" in told
    assert "both ok-3 and ok-4 would be written there" in told or "would be written there" in told
    assert "ending .wav means wav" in told and "m.yaml:9: c.txt: no such file" in told and "'bmp'" in told
    assert ran.code == 4 and not Path("out").exists()


@pytest.mark.parametrize("template", ["../{id}.wav", "/tmp/{id}.wav", "a/../../{id}.wav", "~/{id}.wav", "{id}.aiff"])
def test_templates_stay_in_the_output_folder(music3: Music3, template: str) -> None:
    manifest = manifest_of(f"output: '{template}'\nsongs: [{{lyrics: a.txt}}]\n")
    assert [fault.line for fault in manifest.faults] == [1]
    Path("m.yaml").write_text(f"output: '{template}'\nsongs: [{{lyrics_text: hi there}}]\n")
    assert music3("batch", "m.yaml", "--checkpoint", "demo", "-o", "out").code == 4
    assert not Path("out").exists()


def test_aliases_that_make_billions_or_loops() -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=False):
        bomb += f"{after}: &{after} [{', '.join([f'*{before}'] * 10)}]\n"
    started = time.perf_counter()
    assert any("aliases unfold" in what for _, what in lines_of(manifest_of(bomb + "songs: *i\n")))
    assert time.perf_counter() - started < 20  # it would take hours
    assert [line for line, _ in lines_of(manifest_of("songs:\n- &x {lyrics: a.txt, tags: *x}\n"))] == [2]
    assert "contains itself" in lines_of(manifest_of("songs: &x [*x]\n"))[0][1]


def test_merge_keys_and_defaults() -> None:
    manifest = manifest_of(
        "defaults: {takes: 2, seed: 4, caption: mine}\nbase: 1\n".replace("base: 1\n", "")
        + "songs:\n- &x {lyrics: a.txt, steps: 4}\n- {<<: *x, steps: 5}\n- {lyrics: b.txt, seeds: [1, 2]}\n"
    )
    assert manifest.faults == ()
    assert [entry.own["steps"].value for entry in manifest.entries[:2]] == [4, 5]
    assert manifest.entries[1].own["lyrics"].text == "a.txt"
    assert set(manifest.entries[2].defaults) == {"caption"}  # its own seeds stand instead of seed and takes


def test_a_matrix_is_a_song_for_each_choice() -> None:
    (manifest,) = [
        manifest_of(
            "songs:\n- {id: g, lyrics: a.txt, matrix: {preset: [neo-soul, slow-blues], seed: [1, 2], steps: [4]}}\n"
        )
    ]
    assert manifest.faults == ()
    assert [entry.choice for entry in manifest.entries] == [
        (preset, f"seed{seed}", "steps4") for preset in ("neo-soul", "slow-blues") for seed in (1, 2)
    ]


def test_a_switch_that_says_no_stands_beside_words() -> None:
    manifest = manifest_of("lyrics,instrumental,max_duration\na.txt,false,\n,true,20\n", ".csv")
    assert manifest.faults == () and [entry.is_on("instrumental") for entry in manifest.entries] == [False, True]
    manifest = manifest_of("defaults: {lyrics: a.txt}\nsongs:\n- {instrumental: false}\n- {instrumental: true}\n")
    assert manifest.faults == () and [entry.get("lyrics") is not None for entry in manifest.entries] == [True, False]
    both = manifest_of("songs:\n- {lyrics: a.txt, matrix: {instrumental: [false, true]}}\n")
    assert [entry.get("lyrics") is not None for entry in both.entries] == [True, False]
    assert lines_of(manifest_of("songs:\n- {lyrics: a.txt,\n  instrumental: true}\n"))[0][0] == 3


def test_rows_without_cells_are_no_songs() -> None:
    manifest = manifest_of("lyrics,title\na.txt,A\n,\n , \nb.txt,B\n,\n", ".csv")
    assert manifest.faults == () and [entry.get("lyrics").text for entry in manifest.entries] == ["a.txt", "b.txt"]  # type: ignore[union-attr]


def test_the_same_fault_on_one_line_is_told_once_and_spares_no_song() -> None:
    manifest = manifest_of("songs: [{lyrics: a, lyrics_text: b}, {lyrics: a, lyrics_text: b}, {lyrics: c}]")
    assert len(manifest.faults) == 1 and [entry.index for entry in manifest.entries] == [3]


def test_an_entry_with_faults_keeps_its_place() -> None:
    """Names with {index} are the same before and after it is mended."""
    text = "songs:\n- {lyrics: a.txt, matrix: {seed: [1, 2]}}\n- {lyrics: b.txt, SEED: 3}\n- {lyrics: c.txt}\n"
    assert [entry.index for entry in manifest_of(text.replace("SEED", "sed")).entries] == [1, 2, 4]
    assert [entry.index for entry in manifest_of(text.replace("SEED", "seed")).entries] == [1, 2, 3, 4]


def test_the_spellings_ask_for_the_same() -> None:
    song = {"id": "a", "title": "1999", "lyrics": "a.txt", "seeds": [3, 9], "tags": {"genre": "Folk"}, "dither": False}
    texts = {
        ".json": json.dumps({"songs": [song]}),
        ".jsonl": f"\n{json.dumps(song)}\n\n",
        ".yaml": "songs:\n- {id: a, title: 1999, lyrics: a.txt, seeds: [3, 9], tags: {genre: Folk}, dither: no}\n",
        ".csv": "id,title,lyrics,seeds,tags.genre,dither,steps\na,1999,a.txt,3 9,Folk,false,\n",
    }
    for ending, text in texts.items():
        manifest = manifest_of(text, ending)
        assert manifest.faults == (), ending
        own = manifest.entries[0].own
        assert (own["id"].text, own["title"].text, own["lyrics"].text) == ("a", "1999", "a.txt")
        assert own["tags"].value == {"genre": "Folk"} and "steps" not in own
        assert str(own["dither"].value).lower() == "false"


@pytest.mark.parametrize(
    ("ending", "text", "expected"),
    [
        (".jsonl", '{"lyrics": "a"}\n{"lyrics": }\n[1]\n{"lyrics": "b", "sed": 1}\n', [2, 3, 4]),
        (".csv", "lyrics,seed\na.txt,1\nb.txt,x\nc.txt,1,2\n", [3, 4]),
        (".csv", "lyrics,sed\na.txt,1\nb.txt,2\n", [1]),
        (".csv", "lyrics;seed\na.txt;1\n", [1]),
        (".yaml", "songs: [{lyrics: a, lyrics_text: b}, {lyrics: a, lyrics_text: b}]", [1]),
        (".json", '{"songs": [{"lyrics": "a"},\n{"lyrics": "b", "lyrics": "c"}]}', [2]),
        (".json", "[1,\n2]", [1, 2]),
        (".yaml", "just words\n", [0]),
        (".yaml", "", [0]),
        (".yaml", "songs: []\n", [0]),
        (".yaml", "title: x\n", [1]),
        (".yaml", "songs:\n- lyrics: '-'\n- {lyrics: a, caption_file: '-'}\n", [2, 3]),
        (".yaml", "songs:\n- lyrics: a\n  matrix:\n    caption: [b]\n    caption_file: [c]\n", [4]),
        (".csv", "lyrics,,\na.txt,,\nb.txt,,words\n", [3]),
    ],
)
def test_lines_of_mistakes(ending: str, text: str, expected: list[int]) -> None:
    assert [line for line, _ in lines_of(manifest_of(text, ending))] == expected


def test_the_pages_are_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("generate_manifest", ROOT / "docs" / "generate_manifest.py")
    assert spec and spec.loader
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert generate.page() == generate.PAGE.read_text(encoding="utf-8"), "run `make docs`"
    assert generate.schema_text() == generate.SCHEMA.read_text(encoding="utf-8"), "run `make docs`"


def test_the_example_follows_the_published_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    import yaml

    schema = json.loads((ROOT / "docs" / "manifest.schema.json").read_text())
    album = yaml.safe_load((EXAMPLES / "album.yaml").read_text())
    jsonschema.validate(album, schema)
    album["songs"][0]["titel"] = "x"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(album, schema)


def test_every_setting_of_a_song_is_a_field() -> None:
    """But the talker's weights, which are one for a whole run."""
    assert set(SETTINGS) - {"talker_weights"} <= set(DefaultFields.model_fields)
