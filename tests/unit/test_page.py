"""The audition page as a file: what is in it, that it is a function of record and sounds, and that texts stay texts.

How it behaves in a browser is in tests/browser.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from music3_cli.audio.checks import FaultMeter, warning_time
from music3_cli.errors import OutputError
from music3_cli.jobs import page as page_module
from music3_cli.jobs.page import COLUMNS, write_page
from tests.support.batches import record, song, write_sounds

ASSETS = Path(page_module.__file__).parent / "audition"


class Scripts(HTMLParser):
    """What an HTML parser takes for scripts, and every element's name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.elements: list[str] = []
        self.title = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1] == "script":
            self.scripts[-1] += data
        elif self.elements and self.elements[-1] == "title":
            self.title += data

    def handle_endtag(self, tag: str) -> None:
        self.elements.append(f"/{tag}")


def data_of(path: Path) -> dict[str, Any]:
    return json.loads(Scripts(path.read_text(encoding="utf-8")).scripts[0])


def takes_of(path: Path) -> list[dict[str, Any]]:
    return [take for entry in data_of(path)["songs"] for take in entry["takes"]]


def test_the_page_is_a_function_of_record_and_sounds(tmp_path: Path) -> None:
    batch = record(song("lanterns"), song("harbour", file="deep/harbour.flac"), song("gone", status="failed"))
    write_sounds(tmp_path, batch)
    first = write_page(tmp_path, batch).read_bytes()
    again = json.loads(json.dumps(batch))
    again["exit_code"] = 3
    for entry in again["songs"]:
        entry["timings"] = None
        if entry["status"] == "rendered":
            entry["status"] = "kept"
    assert write_page(tmp_path, again).read_bytes() == first
    (tmp_path / "index.html").unlink()
    assert write_page(tmp_path, again).read_bytes() == first
    assert not list(tmp_path.glob(".music3-*"))


def test_known_waveforms_are_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = record(song("lanterns"), song("harbour"))
    write_sounds(tmp_path, batch)
    first = write_page(tmp_path, batch).read_bytes()
    measured: list[str] = []
    measure = page_module._wave
    monkeypatch.setattr(page_module, "_wave", lambda path: measured.append(path.name) or measure(path))
    assert write_page(tmp_path, batch).read_bytes() == first
    assert measured == []
    batch["songs"][1]["sha256"] = "0" * 64  # rendered anew
    write_page(tmp_path, batch)
    assert measured == ["harbour.wav"]


@pytest.mark.parametrize("older", [b"[1]", b"{", b'{"version": 1, "songs": 3}'])
def test_an_older_page_that_cannot_be_read_does_not_matter(tmp_path: Path, older: bytes) -> None:
    batch = record(song("lanterns"))
    write_sounds(tmp_path, batch)
    expected = write_page(tmp_path, batch).read_bytes()
    (tmp_path / "index.html").write_bytes(b'<script type="application/json" id="batch">%b</script>' % older)
    assert write_page(tmp_path, batch).read_bytes() == expected


@pytest.mark.parametrize("other", [b"", b"<h1>My own page</h1>"])
def test_somebody_else_s_page_is_not_replaced(tmp_path: Path, other: bytes) -> None:
    (tmp_path / "index.html").write_bytes(other)
    with pytest.raises(OutputError, match="music3 did not make it"):
        write_page(tmp_path, record(song("lanterns")))
    assert (tmp_path / "index.html").read_bytes() == other


@pytest.mark.parametrize("ending", ["wav", "flac", "mp3", "ogg", "opus"])
def test_peaks_are_those_of_the_sound(tmp_path: Path, ending: str) -> None:
    batch = record(song("lanterns", file=f"lanterns.{ending}"))
    write_sounds(tmp_path, batch, seconds=3.0)
    take = takes_of(write_page(tmp_path, batch))[0]
    sound, rate = soundfile.read(tmp_path / f"lanterns.{ending}", dtype="float32", always_2d=True)
    low, high = np.frombuffer(base64.b64decode(take["peaks"]), np.int8).reshape(-1, 2).T / 127
    assert len(low) == COLUMNS
    assert take["seconds"] == pytest.approx(len(sound) / rate, abs=1e-3)
    assert low.min() == pytest.approx(sound.min(), abs=1 / 127)
    assert high.max() == pytest.approx(sound.max(), abs=1 / 127)
    starts = [-(-column * len(sound) // COLUMNS) for column in range(COLUMNS + 1)]
    for column in range(COLUMNS):
        part = sound[starts[column] : starts[column + 1]]
        assert high[column] >= part.max() > high[column] - 1.01 / 127
        assert low[column] <= part.min() < low[column] + 1.01 / 127


def test_files_without_a_waveform_say_why(tmp_path: Path) -> None:
    batch = record(song("missing"), song("broken"), song("short"), song("folder"))
    write_sounds(tmp_path, batch, seconds=0.1)
    (tmp_path / "missing.wav").unlink()
    (tmp_path / "broken.wav").write_bytes(b"no sound at all")
    soundfile.write(tmp_path / "short.wav", np.full((3, 2), 0.5), 44_100)
    (tmp_path / "folder.wav").unlink()
    (tmp_path / "folder.wav").mkdir()
    missing, broken, short, folder = takes_of(write_page(tmp_path, batch))
    assert missing["fault"] == folder["fault"] == "the file is not there"
    assert broken["fault"] == "the file is not a readable sound file"
    assert broken["peaks"] is None and broken["seconds"] == 6.0
    assert short["fault"] is None and short["peaks"]


def test_takes_stand_together_and_share_their_texts(tmp_path: Path) -> None:
    takes = [song(f"lanterns-take{take}", take=take, seed=6 + take) for take in (1, 2, 3)]
    batch = record(takes[0], song("harbour", caption="Another."), *takes[1:])
    data = data_of(write_page(tmp_path, batch))
    assert [entry["id"] for entry in data["songs"]] == ["lanterns", "harbour"]
    assert [take["seed"] for take in data["songs"][0]["takes"]] == ["7", "8", "9"]
    assert data["texts"].count(takes[0]["caption"]) == 1
    assert data["texts"][data["songs"][1]["takes"][0]["caption"]] == "Another."


def test_no_seed_is_rounded(tmp_path: Path) -> None:
    batch = record(song("lanterns", seed=2**64 - 1, settings={"noise_seed": 2**63 + 1, "steps": 30}))
    data = data_of(write_page(tmp_path, batch))
    take = data["songs"][0]["takes"][0]
    assert take["seed"] == "18446744073709551615"
    assert json.loads(data["texts"][take["settings"]]) == [["noise_seed", "9223372036854775809"], ["steps", "30"]]


def test_warnings_that_all_songs_have_are_said_once(tmp_path: Path) -> None:
    noise, clipped = "a demo checkpoint makes noise, not music", "clipping: 1 peak is cut off, the first at 1:05.25"
    batch = record(song("a", warnings=[noise, clipped]), song("b", warnings=[noise]), song("c", status="failed"))
    path = write_page(tmp_path, batch)
    assert data_of(path)["shared_warnings"] == [noise]
    assert [take["warnings"] for take in takes_of(path)] == [[{"text": clipped, "at": 65.25}], [], []]
    alone = takes_of(write_page(tmp_path, record(song("a", warnings=[noise]))))
    assert alone[0]["warnings"] == [{"text": noise, "at": None}]


def test_the_times_in_warnings_are_found_again() -> None:
    rate = 8000
    meter = FaultMeter(rate)
    sound = np.random.default_rng(0).uniform(-0.3, 0.3, (2, 80 * rate)).astype(np.float32)
    sound[:, 62 * rate : 65 * rate] = 0
    sound[0, 70 * rate : 70 * rate + 8] = 1.0
    times = [warning_time(warning) for warning in meter_warnings(meter, sound)]
    assert times == [70.0, 62.0]
    assert warning_time("the song is silent from beginning to end") is None


def meter_warnings(meter: FaultMeter, sound: np.ndarray) -> list[str]:
    meter.push(sound)
    return meter.finish().warnings()


@pytest.mark.parametrize(
    ("file", "href"),
    [
        ("take #1?.wav", "take%20%231%3F.wav"),
        ("100%.wav", "100%25.wav"),
        ("deep/夜.wav", "deep/%E5%A4%9C.wav"),
        ("javascript:alert(1).wav", "javascript%3Aalert%281%29.wav"),
        ('"><b>.wav', "%22%3E%3Cb%3E.wav"),
    ],
)
def test_addresses_are_relative_and_encoded(tmp_path: Path, file: str, href: str) -> None:
    assert takes_of(write_page(tmp_path, record(song("a", file=file))))[0]["href"] == href


TEXTS = st.text() | st.sampled_from(
    [
        "</script><script>alert(1)</script>",
        "<!--<script>",
        "]]>",
        "&lt;",
        "\"'`${1}",
        "\u2028\u2029",
        "\x00",
        "\ud800",
        "$title",
    ]
)


@given(TEXTS, TEXTS, TEXTS)
def test_any_text_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, title: str, caption: str, lyrics: str
) -> None:
    folder = tmp_path_factory.mktemp("page")
    entry = song("a", title=title, artist=title, caption=caption, lyrics=lyrics, error={"message": caption, "hint": ""})
    path = write_page(folder, record(entry, title=title))
    # As browsers do, and unlike Python's universal newlines.
    found = Scripts(path.read_bytes().decode("utf-8"))
    assert len(found.scripts) == 2 and found.elements.count("script") == found.elements.count("/script") == 2
    data = json.loads(found.scripts[0])
    take = data["songs"][0]["takes"][0]
    assert (data["title"], take["title"], take["error"]["message"]) == (title, title, caption)
    assert (data["texts"][take["caption"]], data["texts"][take["lyrics"]]) == (caption, lyrics)
    assert found.elements == Scripts(page_without_texts(folder)).elements


def page_without_texts(folder: Path) -> str:
    return write_page(folder, record(song("a"))).read_bytes().decode("utf-8")


def test_a_folder_that_takes_no_page_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "index.html").mkdir()
    with pytest.raises(OutputError, match=r"index\.html: cannot be read"):
        write_page(tmp_path, record(song("a")))
    assert not list(tmp_path.glob(".music3-*"))


def test_the_page_needs_no_torch_and_no_network(tmp_path: Path) -> None:
    batch = record(song("lanterns"))
    write_sounds(tmp_path, batch)
    script = (
        "import json, sys\nfrom pathlib import Path\nfrom music3_cli.jobs.page import write_page\n"
        "write_page(Path(sys.argv[1]), json.loads(sys.argv[2]))\nassert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path), json.dumps(batch)], check=True)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, never fetched
    assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest|innerHTML|outerHTML|insertAdjacentHTML|eval\(", text)


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_have_contrast(theme: int) -> None:
    style = (ASSETS / "page.css").read_text(encoding="utf-8")
    block = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[theme]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
    for ground in ("ground", "card"):
        for text in ("ink", "soft", "accent", "warn", "bad"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
        for mark in ("control", "star"):
            assert contrast(colours[mark], colours[ground]) >= 3, (mark, ground)
    assert contrast(colours["warn"], colours["warn-ground"]) >= 4.5
    assert contrast(colours["on-accent"], colours["accent"]) >= 4.5
