"""The program as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.conftest import ROOT

MUSIC3 = (sys.executable, "-m", "music3_cli")


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


@contextmanager
def running(command: Sequence[object], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process that ends with the block: one that a failed assertion left behind would be waited for without end."""
    process = subprocess.Popen([str(word) for word in command], **options)
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
