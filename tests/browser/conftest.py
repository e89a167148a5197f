"""A real browser, for pages opened from disk. Without Chromium or its driver these tests say that they are skipped."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from music3_cli.jobs.page import write_page
from tests.support.batches import write_sounds

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# The page's sound elements are not part of its document; this keeps them where a test can ask them.
KEEP_AUDIO = """
  const Made = window.Audio;
  window.sounds = [];
  window.Audio = function () { const made = new Made(); window.sounds.push(made); return made; };
"""

SECONDS = 30.0
"""Of each sound: long enough that none ends while a slow machine goes through a test."""

Open = Callable[..., Any]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("needs the program chromium")
    with playwright.sync_playwright() as driver:
        # Without its sandbox it also starts for root; everything it loads is our own.
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--mute-audio"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any, tmp_path: Path) -> Iterator[Open]:
    """`open_page(batch, **context)` writes sounds and page and opens it from disk.

    At the end of the test no script has failed, nothing was blocked or logged, and nothing but files was asked for.
    """
    contexts, trouble = [], []

    def watch(request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            trouble.append(f"asked for {request.url}")

    def open_page(batch: dict[str, Any], sounds: bool = True, **options: Any) -> Any:
        folder = tmp_path / "out #1 夜"
        folder.mkdir(exist_ok=True)
        if sounds:
            write_sounds(folder, batch, seconds=SECONDS, rate=8000)
        path = write_page(folder, batch)
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(8000)
        context.add_init_script(KEEP_AUDIO)
        contexts.append(context)
        page = context.new_page()
        page.on("request", watch)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", lambda message: trouble.append(message.text))
        page.on("dialog", lambda dialog: trouble.append(f"dialog {dialog.message}"))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []
