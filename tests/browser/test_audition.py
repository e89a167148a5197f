"""The audition page in Chromium, opened from disk as a person opens it."""

from __future__ import annotations

from typing import Any

import pytest

from music3_cli.jobs.page import write_page
from tests.browser.conftest import SECONDS, Open
from tests.support.batches import record, song

CLIPPED = "clipping: 1 peak is cut off at full scale (3 samples), the first at 0:03.00"


def album() -> dict[str, Any]:
    """Three takes of a song, two single songs of which one has a warning, one that failed."""
    takes = [song(f"lanterns-take{take}", title="Lanterns", take=take, seed=6 + take) for take in (1, 2, 3)]
    return record(
        *takes,
        song("harbour", caption="A sea shanty.", warnings=[CLIPPED], seed=2**64 - 1),
        song("café", title="Café", artist="", seed=3, status="kept"),
        song(
            "empty", status="failed", error={"message": "Empty: the model gave no frame", "hint": "Try another --seed."}
        ),
    )


def playing(page: Any) -> list[str]:
    return page.evaluate(
        "sounds.filter((sound) => !sound.paused).map((sound) => decodeURI(sound.src.split('/').pop()))"
    )


def position(page: Any) -> float:
    return page.evaluate(
        "Math.max(...sounds.filter((s) => !s.paused || sounds.length === 1).map((s) => s.currentTime))"
    )


def wait_playing(page: Any, file: str) -> None:
    page.wait_for_function(
        "(file) => sounds.some((s) => !s.paused && s.currentTime > 0 && decodeURI(s.src).endsWith('/' + file))",
        arg=file,
    )


def take(page: Any, number: int) -> Any:
    return page.locator(".take").nth(number)


def titles(page: Any) -> list[str]:
    return page.locator("h2").all_inner_texts()


def click_wave(page: Any, number: int, share: float) -> None:
    wave = take(page, number).locator(".wave")
    wave.scroll_into_view_if_needed()
    box = wave.bounding_box()
    wave.click(position={"x": box["width"] * share, "y": box["height"] / 2})


def test_play_starts_and_only_one_plays(open_page: Open) -> None:
    page = open_page(album())
    assert page.locator("#player").is_hidden()
    for number, file in ((0, "lanterns-take1.wav"), (3, "harbour.wav"), (1, "lanterns-take2.wav")):
        take(page, number).get_by_role("button", name="Play").click()
        wait_playing(page, file)
        assert playing(page) == [file]
    assert page.locator("#player .now").inner_text().split() == ["Lanterns", "Take", "2"]
    page.get_by_role("region", name="Player").get_by_role("button", name="Pause").click()
    assert playing(page) == []
    page.get_by_role("button", name="Next take").click()
    wait_playing(page, "lanterns-take3.wav")
    assert playing(page) == ["lanterns-take3.wav"]


def test_a_click_on_the_waveform_seeks(open_page: Open) -> None:
    page = open_page(album())
    click_wave(page, 0, 0.5)
    wait_playing(page, "lanterns-take1.wav")
    assert 14.9 <= position(page) < SECONDS
    page.keyboard.press("Space")
    click_wave(page, 0, 0.25)
    assert playing(page) == []
    assert position(page) == pytest.approx(7.5, abs=0.1)
    shown = take(page, 0).get_by_role("slider")
    page.wait_for_function(  # the page shows it when the browser has got there
        "(wave) => wave.getAttribute('aria-valuetext') === '0:07 of 0:30'", arg=shown.element_handle()
    )
    assert float(shown.evaluate("(wave) => parseFloat(wave.style.getPropertyValue('--at'))")) == pytest.approx(
        25, abs=1
    )
    page.get_by_role("button", name="Listen at 0:03").click()
    wait_playing(page, "harbour.wav")
    assert position(page) >= 2


def test_takes_are_compared_at_the_same_position(open_page: Open) -> None:
    page = open_page(album())
    click_wave(page, 0, 0.4)
    wait_playing(page, "lanterns-take1.wav")
    page.keyboard.press("3")
    wait_playing(page, "lanterns-take3.wav")
    assert playing(page) == ["lanterns-take3.wav"] and position(page) >= 11.9
    page.keyboard.press("b")
    wait_playing(page, "lanterns-take1.wav")
    page.keyboard.press("b")
    wait_playing(page, "lanterns-take3.wav")
    page.get_by_role("button", name="Take 2, at the same position").click()
    wait_playing(page, "lanterns-take2.wav")
    assert playing(page) == ["lanterns-take2.wav"] and 11.9 <= position(page) < SECONDS


def test_keys(open_page: Open) -> None:
    page = open_page(album())
    page.keyboard.press("Space")
    wait_playing(page, "lanterns-take1.wav")
    page.keyboard.press("Space")
    assert playing(page) == []
    before = position(page)
    page.keyboard.press("Shift+ArrowRight")
    assert position(page) == pytest.approx(before + 1, abs=0.02)
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
    assert position(page) == 0
    page.keyboard.press("f")
    assert take(page, 0).locator(".star").get_attribute("aria-pressed") == "true"
    page.keyboard.press("ArrowDown")
    wait_playing(page, "lanterns-take2.wav")
    page.keyboard.press("ArrowUp")
    wait_playing(page, "lanterns-take1.wav")
    # The waveform is a slider that one reaches with Tab: keys are about that take.
    take(page, 2).get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    wait_playing(page, "lanterns-take3.wav")
    assert 4.9 <= position(page) < SECONDS
    # A focused button keeps Space for itself.
    take(page, 1).locator(".star").focus()
    page.keyboard.press("Space")
    assert take(page, 1).locator(".star").get_attribute("aria-pressed") == "true"
    page.keyboard.press("/")
    page.keyboard.type("b 1 space")
    assert page.locator("#search").input_value() == "b 1 space"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.get_by_role("dialog").get_by_role("heading").inner_text() == "Keys"
    page.keyboard.press("Escape")
    assert page.get_by_role("dialog").count() == 0


def test_filter(open_page: Open) -> None:
    page = open_page(album())
    assert titles(page) == ["Lanterns", "Harbour", "Café", "Empty"]
    search = page.get_by_role("searchbox")
    for words, expected in (
        ("CAFE", ["Café"]),
        ("sea shanty", ["Harbour"]),
        ("seed 9", ["Lanterns"]),
        ("no frame", ["Empty"]),
        ("clipping", ["Harbour"]),
    ):
        search.fill(words)
        assert titles(page) == expected, words
    search.fill("seed 9")
    assert page.locator(".take").count() == 1
    assert page.locator("#count").inner_text() == "1 of 6 takes"
    search.fill("nothing like this")
    page.get_by_role("button", name="Show all songs").click()
    assert len(titles(page)) == 4 and search.input_value() == ""
    for chip, expected in (("Failed", ["Empty"]), ("Finished", ["Lanterns", "Harbour", "Café"])):
        page.get_by_role("button", name=chip).click()
        assert titles(page) == expected
    page.get_by_role("button", name="With warnings").click()
    assert titles(page) == ["Harbour"]


def test_sort(open_page: Open) -> None:
    batch = album()
    batch["songs"][4] |= {"warnings": [CLIPPED, "DC offset: the sound is off centre"]}
    page = open_page(batch)
    choose = page.get_by_label("Sort").select_option
    for order, expected in (
        ("title", ["Café", "Empty", "Harbour", "Lanterns"]),
        ("warnings", ["Café", "Harbour", "Lanterns", "Empty"]),
        ("seed", ["Café", "Lanterns", "Empty", "Harbour"]),  # the last one's seed has 64 bits
        ("shortest", ["Empty", "Lanterns", "Harbour", "Café"]),
        ("order", ["Lanterns", "Harbour", "Café", "Empty"]),
    ):
        choose(order)
        assert titles(page) == expected, order


def test_a_favourite_survives_reload_but_no_other_sound(open_page: Open, tmp_path: Any) -> None:
    batch = album()
    page = open_page(batch)
    take(page, 1).get_by_role("button", name="Favourite: Lanterns, Take 2").click()
    take(page, 3).locator(".star").click()
    page.reload()
    starred = page.locator(".star[aria-pressed=true]")
    starred.nth(1).wait_for()
    assert starred.count() == 2
    page.get_by_role("button", name="Favourites 2").click()
    assert titles(page) == ["Lanterns", "Harbour"]
    page.get_by_role("button", name="Export favourites").click()
    listed = page.get_by_role("textbox", name="The list")
    assert listed.input_value() == "--only lanterns-take2 --only harbour"
    page.get_by_label("File names").check()
    assert listed.input_value() == "lanterns-take2.wav\nharbour.wav"
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.path().read_text() == "lanterns-take2.wav\nharbour.wav\n"
    batch["songs"][1]["sha256"] = "0" * 64
    write_page(next(tmp_path.glob("out*")), batch)
    page.reload()
    starred.first.wait_for()
    assert starred.count() == 1


HOSTILE = [
    "</script><script>window.broken = 1</script>",
    "<img src=x onerror='window.broken = 1'>",
    "\"'&amp;<!--<script>",
    "שיר הבוקר \u202e gnol 🎷",
    "夜の歌",
]
FILES = ["a #1?.wav", "100% sure.flac", "deep/er/夜 &.ogg", "it's.mp3", "+plus;.opus"]


def test_hostile_texts_stay_texts_and_strange_files_play(open_page: Open) -> None:
    songs = [
        song(f"id {words}", title=words, artist=words, caption=words, lyrics=words, preset=words, file=file)
        for words, file in zip(HOSTILE, FILES, strict=True)
    ]
    songs.append(song("gone", status="failed", error={"message": HOSTILE[0], "hint": HOSTILE[1]}))
    page = open_page(record(*songs, title=HOSTILE[0], manifest=HOSTILE[1]))
    assert titles(page)[:5] == HOSTILE
    assert page.locator("h1").inner_text() == HOSTILE[0]
    assert page.title().startswith(HOSTILE[0])
    for summary in page.locator("summary").all():
        summary.click()
    assert page.locator(".texts p").all_inner_texts()[:2] == [HOSTILE[0]] * 2
    for number, file in enumerate(FILES):
        take(page, number).get_by_role("button", name="Play").click()
        page.wait_for_function(
            "(file) => sounds.some((s) => !s.paused && s.currentTime > 0.05 && "
            "decodeURIComponent(s.src).endsWith('/' + file))",
            arg=file,
        )
        assert len(playing(page)) == 1
    assert page.evaluate("window.broken") is None
    assert page.locator("img, script:not([type])").count() == 0


def test_songs_without_sound_say_why(open_page: Open) -> None:
    batch = record(
        song("gone"),
        song("empty", status="failed", error={"message": "Empty: no frame", "hint": "Try another --seed."}),
        song("later", status="not_started"),
        finished=False,
    )
    page = open_page(batch, sounds=False)
    assert take(page, 0).get_by_role("button", name="Play").is_disabled()
    assert take(page, 0).locator(".fault").inner_text() == "gone.wav: the file is not there"
    assert take(page, 1).inner_text().split("\n")[-3:] == ["Failed", "Empty: no frame", "Try another --seed."]
    assert "Not started" in take(page, 2).inner_text()
    assert "1 of 3 takes not rendered yet" in page.locator("#notes").inner_text()
    page.keyboard.press("Space")
    assert page.locator("#player").is_hidden()


def test_an_empty_batch_says_so(open_page: Open) -> None:
    page = open_page(record())
    assert page.locator("main").inner_text() == "There are no songs in this batch."


def test_many_songs_are_made_as_one_scrolls(open_page: Open) -> None:
    page = open_page(record(*(song(f"song-{number}") for number in range(500))), sounds=False)
    cards = page.locator("article")
    assert cards.count() < 200
    page.wait_for_function(
        "() => (scrollTo(0, document.body.scrollHeight), document.querySelectorAll('article').length === 500)"
    )
    page.get_by_role("searchbox").fill("song-499")
    assert titles(page) == ["Song 499"]


@pytest.mark.parametrize("width", [320, 390, 1900])
def test_nothing_is_wider_than_the_window(open_page: Open, width: int) -> None:
    batch = album()
    batch["title"] = "W" * 90
    batch["songs"][3] |= {"title": "x" * 200, "artist": "y" * 200, "preset": "a-long-preset-name-for-a-song"}
    page = open_page(batch, viewport={"width": width, "height": 800})
    page.locator("summary").first.click()
    click_wave(page, 3, 0.5)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    # Every control has a name for those who cannot see it.
    for button in page.get_by_role("button").all():
        assert button.get_attribute("aria-label") or button.inner_text().strip()
