"""Shared by all tiers: the program run in this process, and the demo checkpoint."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from music3_cli.cli.main import main

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"

# How long an example takes is the machine's business: tests assert nothing about time.
settings.register_profile("music3", deadline=None)
settings.load_profile("music3")


@dataclass(frozen=True)
class Ran:
    """What a run of the program gave."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        """stdout as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Music3 = Callable[..., Ran]


def run_main() -> int:
    """`main()` with `sys.argv` as it is; its exit code. What it does at signals ends with it."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        with pytest.raises(SystemExit) as stop:
            main()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.fixture
def music3(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Music3:
    """`music3(*args)` runs the program in this process, as `main()` does at a terminal."""

    def run(*args: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["music3", *map(str, args)])
        capfd.readouterr()
        code = run_main()
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    return run


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the user's: no checkpoint, no presets, no hub; work in an empty folder."""
    for name in ("MUSIC3_CHECKPOINT", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MUSIC3_PRESETS", str(tmp_path / "no-presets"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "no-hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)


@pytest.fixture(scope="session")
def demo_root() -> Path:
    """The demo checkpoint's folder; read only."""
    from music3_cli.checkpoint.locate import find_checkpoint

    return find_checkpoint("demo").root
