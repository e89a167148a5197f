"""Writes docs/captures/batch.svg: `music3 batch` at work on a terminal, as the terminal shows it at that moment.

Runs examples/album.yaml with the demo checkpoint on a pseudo-terminal, follows it with a terminal emulator (pyte, of
the extra `dev`) and draws the screen when a few songs are done.
"""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from io import StringIO
from pathlib import Path

import pyte
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
PICTURE = Path(__file__).parent / "captures" / "batch.svg"
COLUMNS, LINES = 110, 22
FLAGS = ["--checkpoint", "demo", "--steps", "10", "--max-duration", "1", "-o", "out/album"]
SONGS_DONE = 6


def screen_at_work(folder: Path) -> pyte.Screen:
    """The screen of a batch that has finished `SONGS_DONE` songs and is in the middle of the next one."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    environment |= {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "music3_cli", "batch", "examples/album.yaml", *FLAGS]
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    with subprocess.Popen(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the program has closed its end
                break
            stream.feed(piece)
            shown = "\n".join(screen.display)
            if f"{SONGS_DONE} of 12 songs" in shown and "step" in shown:
                break
        process.terminate()
        process.terminate()
        while True:
            try:
                if not os.read(ours, 65536):
                    break
            except OSError:
                break
    os.close(ours)
    return screen


def drawn(screen: pyte.Screen) -> str:
    """The screen as SVG, with its colours."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    for line in range(LINES):
        text = Text()
        for column in range(COLUMNS):
            cell = screen.buffer[line][column]
            colour = {"default": "", "brown": "yellow"}.get(cell.fg, cell.fg)
            if len(colour) == 6 and set(colour) <= set("0123456789abcdef"):
                colour = f"#{colour}"
            text.append(cell.data, style=f"{'bold ' if cell.bold else ''}{colour}".strip())
        text.rstrip()
        console.print(text, no_wrap=True)
    return console.export_svg(title="music3 batch examples/album.yaml -o out/album", unique_id="batch")


def main() -> None:
    with tempfile.TemporaryDirectory() as work:
        shutil.copytree(ROOT / "examples", Path(work) / "examples")
        PICTURE.write_text(drawn(screen_at_work(Path(work))), encoding="utf-8")


if __name__ == "__main__":
    main()
