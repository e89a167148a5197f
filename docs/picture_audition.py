"""Makes docs/pictures/audition-*.png: the audition page in Chromium, light, dark and on a phone.

    python docs/picture_audition.py                      # renders examples/album.yaml with the demo checkpoint first
    python docs/picture_audition.py --folder out/album   # a finished batch's folder

Needs Chromium and the package playwright. A take plays while the picture is taken, and two are marked as favourites.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from music3_cli.jobs.page import PAGE

ROOT = Path(__file__).parent.parent
FOLDER = Path(__file__).parent / "pictures"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1200, "height": 1000}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1200, "height": 1000}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "device_scale_factor": 2},
}


@contextmanager
def demo_album() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as work:
        command = [sys.executable, "-m", "music3_cli", "batch", "examples/album.yaml", "--checkpoint", "demo", "-q"]
        subprocess.run([*command, "-o", work], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        yield Path(work)


def take_pictures(folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        sys.exit("Chromium is needed to take a picture, and was not found")
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--mute-audio"])
        for name, look in LOOKS.items():
            page = browser.new_context(**look).new_page()
            page.goto((folder / PAGE).resolve().as_uri())
            stars = page.locator(".star")
            for star in (0, min(4, stars.count() - 1)):
                stars.nth(star).click()
            wave = page.locator(".wave").nth(min(1, page.locator(".wave").count() - 1))
            wave.click(position={"x": wave.bounding_box()["width"] * 0.36, "y": 20})
            page.wait_for_timeout(600)
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=FOLDER / f"audition-{name}.png")
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="a finished batch's output folder")
    folder = parser.parse_args().folder
    if folder:
        take_pictures(folder)
    else:
        with demo_album() as made:
            take_pictures(made)


if __name__ == "__main__":
    main()
