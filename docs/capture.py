"""Writes docs/captures: what commands look like on a terminal, at 80 and 40 columns, with and without colour.

Runs each command on a pseudo-terminal of that size, so what is written is what a person sees, colour codes included.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import unicodedata
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = Path(__file__).parent / "captures"
SONG = """\
---
title: Lanterns
caption: Warm indie folk with a female alto, no drums, at 90 BPM in D major.
---
[Verse 1] Paper lanterns on the water
Carry every wish we wrote
(Chorus)
Float, float, little\u00a0harbour
【副歌】
纸灯漂在河面上
"""
COMMANDS = {
    "lint": ["lint", "lanterns.txt"],
    "lint-fix": ["lint", "--fix", "lanterns.txt"],
    "inspect-prompt": ["inspect", "prompt", "lanterns.txt", "--checkpoint", "demo"],
    "presets-list": ["presets", "list"],
}
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def capture(arguments: list[str], columns: int, colour: bool, folder: Path) -> str:
    """What `music3 ARGUMENTS` writes to a terminal of that many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    environment |= {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT)} | ({} if colour else {"NO_COLOR": "1"})
    environment |= {"MUSIC3_PRESETS": str(folder / "presets")}
    command = [sys.executable, "-m", "music3_cli", *arguments]
    process = subprocess.Popen(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    pieces = []
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the program has closed its end
            break
        if not piece:
            break
        pieces.append(piece)
    process.wait()
    os.close(ours)
    return b"".join(pieces).decode().replace("\r\n", "\n").replace(str(folder.resolve()), "~").replace(str(folder), "~")


def too_wide(text: str, columns: int) -> list[str]:
    """Lines that are wider than the terminal, which would break there."""

    def width(line: str) -> int:
        return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line)

    return [line for line in _COLOURS.sub("", text).split("\n") if width(line) > columns]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, arguments in COMMANDS.items():
        for columns in (80, 40):
            for colour in (True, False):
                with tempfile.TemporaryDirectory() as work:
                    (Path(work) / "lanterns.txt").write_text(SONG, encoding="utf-8")
                    text = capture(arguments, columns, colour, Path(work))
                look = "colour" if colour else "plain"
                (FOLDER / f"{name}-{columns}-{look}.txt").write_text(text, encoding="utf-8")
                for line in too_wide(text, columns):
                    sys.stderr.write(f"{name}-{columns}-{look}: wider than the terminal: {line}\n")


if __name__ == "__main__":
    main()
