"""Both streams as shells leave them: live bars beside data, nobody reading, closed, on a full disk."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES
from tests.support.programs import MUSIC3, environment, running

QUICK = ("--checkpoint", "demo", "--steps", "2")
FULL = Path("/dev/full")


def started(stdout: int, stderr: int) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Two short songs, in a process of its own."""
    command = [*MUSIC3, "render", EXAMPLES / "short-and-bare.txt", *QUICK, "--max-duration", "0.2", "--takes", "2"]
    return running([*command, "-o", "out/"], stdout=stdout, stderr=stderr, env=environment(TERM="xterm"))


def test_files_go_to_stdout_beside_live_bars() -> None:
    terminal, theirs = os.openpty()
    with started(stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # how a terminal tells its end
            while part := os.read(terminal, 4096):
                shown += part
        out, _ = process.communicate()
    os.close(terminal)
    assert process.returncode == 0
    assert out.decode().split() == ["out/short-and-bare-take1.wav", "out/short-and-bare-take2.wav"]
    assert b"talker" in shown and b"2 rendered" in shown


def test_songs_are_finished_when_nobody_reads_any_more() -> None:
    reading, writing = os.pipe()
    with started(stdout=writing, stderr=subprocess.PIPE) as process:
        os.close(writing)
        os.close(reading)
        _, err = process.communicate()
    assert process.returncode == 0 and b"nobody reads stdout any more" in err
    assert len(list(Path("out").glob("*.wav"))) == 2


def test_songs_are_finished_with_stderr_closed() -> None:
    command = f'exec "{sys.executable}" -m music3_cli render "$1" {" ".join(QUICK)} --max-duration 0.2 -o a.wav 2>&-'
    words = str(EXAMPLES / "short-and-bare.txt")
    ran = subprocess.run(["sh", "-c", command, "sh", words], stdout=subprocess.PIPE, env=environment(), check=False)
    assert (ran.returncode, ran.stdout) == (0, b"a.wav\n")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_songs_are_finished_with_a_full_disk_behind_a_stream() -> None:
    """Nobody misses talk. Data are an output error, after the songs."""
    with FULL.open("w") as full:
        with started(stdout=subprocess.PIPE, stderr=full.fileno()) as process:
            out, _ = process.communicate()
        assert process.returncode == 0 and len(out.split()) == 2
        for path in map(Path, out.decode().split()):
            path.unlink()
        with started(stdout=full.fileno(), stderr=subprocess.PIPE) as process:
            _, err = process.communicate()
    assert process.returncode == 7 and b"stdout: cannot be written (No space left on device); going on" in err
    assert len(list(Path("out").glob("*.wav"))) == 2


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", [["presets", "list"], ["render", "--help"], ["doctor"]])
def test_data_that_cannot_be_written_are_an_output_error(command: list[str]) -> None:
    with FULL.open("w") as full:
        ran = subprocess.run([*MUSIC3, *command], stdout=full, stderr=subprocess.PIPE, env=environment(), check=False)
    assert ran.returncode == 7 and ran.stderr.startswith(b"error: stdout: cannot be written")


def test_an_encoding_without_the_characters_shows_their_numbers() -> None:
    """As terminals of old kinds have them."""
    words = ["--title", "夜", "--max-duration", "0.2", "-q", "-o", "{title}.wav"]
    command = [*MUSIC3, "render", EXAMPLES / "short-and-bare.txt", *QUICK, *words]
    ran = subprocess.run(command, capture_output=True, env=environment(PYTHONIOENCODING="ascii"), check=False)
    assert (ran.returncode, ran.stdout) == (0, b"\\u591c.wav\n") and Path("夜.wav").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="names are text there")
def test_words_that_are_no_text_are_refused() -> None:
    """They would end in sidecars, which are UTF-8."""
    command = [*MUSIC3, "render", EXAMPLES / "short-and-bare.txt", *QUICK, "-o", b"x\xff.wav"]
    ran = subprocess.run(command, stderr=subprocess.PIPE, env=environment(), check=False)
    assert ran.returncode == 2 and b"error: x\\xff.wav: not valid UTF-8" in ran.stderr
    assert list(Path().iterdir()) == []
