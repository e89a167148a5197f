"""Makes docs/pictures/audition-*.png: the audition page in Chromium, light, dark and on a phone.

    python docs/picture_audition.py                      # renders a few examples with the demo checkpoint first
    python docs/picture_audition.py --folder out/album   # a finished batch's folder

Needs Chromium and the package playwright. A take plays while the picture is taken, and two are marked as favourites.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from music3_cli.jobs.page import PAGE, write_page

ROOT = Path(__file__).parent.parent
FOLDER = Path(__file__).parent / "pictures"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
RENDERS = [
    ["examples/morning-light.txt", "--takes", "3", "--max-duration", "5"],
    ["examples/kapitan.txt", "--max-duration", "6", "--format", "flac"],
    ["examples/yoru-no-uta.txt", "--takes", "2", "--max-duration", "4", "--format", "ogg"],
    ["examples/night-drive-instrumental.txt", "--max-duration", "5"],
]
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1200, "height": 1000}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1200, "height": 1000}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "device_scale_factor": 2},
}


@contextmanager
def demo_folder() -> Iterator[Path]:
    """A folder with a page, as a batch leaves it."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        for arguments in RENDERS:
            command = [sys.executable, "-m", "music3_cli", "render", *arguments, "--checkpoint", "demo", "-q"]
            subprocess.run([*command, "-o", f"{folder}/"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        write_page(folder, record_of(folder, "Four Examples"))
        yield folder


def record_of(folder: Path, title: str) -> dict[str, Any]:
    """A batch's record from the sidecars of its songs, in the order in which they were written."""
    paths = sorted(folder.glob("*.*.json"), key=lambda path: path.stat().st_mtime_ns)
    sidecars = {path: json.loads(path.read_bytes()) for path in paths}
    songs = [
        {
            **{name: sidecar["song"][name] for name in ("id", "title", "artist", "take", "seed")},
            **{name: sidecar["settings"][name] for name in ("caption", "lyrics")},
            **{name: sidecar["result"][name] for name in ("file", "frames", "finish_reason", "seconds", "sha256")},
            **{"preset": None, "status": "rendered", "sidecar": path.name, "error": None, "timings": None},
            **{name: sidecar[name] for name in ("warnings", "settings")},
        }
        for path, sidecar in sidecars.items()
    ]
    checkpoint = next(iter(sidecars.values()))["checkpoint"]
    head = {"format": 1, "title": title, "manifest": "examples", "checkpoint": checkpoint}
    return {**head, "finished": True, "exit_code": 0, "songs": songs}


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
        with demo_folder() as made:
            take_pictures(made)


if __name__ == "__main__":
    main()
