"""What goes where: stdout is data, stderr is talk. The only module that prints."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, TextIO

from music3_cli.errors import ManyErrors, Music3Error

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_verbose = False
_json = False
_stdout: TextIO | None = None
"""The real one while stdout is guarded."""


def configure(*, verbose: bool = False, as_json: bool = False) -> None:
    """Set once by a command: tracebacks for expected errors, errors as JSON records too."""
    global _verbose, _json
    _verbose, _json = verbose, as_json


@contextmanager
def guarded_stdout() -> Iterator[None]:
    """Inside, what libraries print goes to stderr; `data` and `record` alone reach stdout."""
    global _stdout
    before = _stdout
    _stdout = sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _stdout = before


def data(text: str) -> None:
    """One line of data to stdout. While stdout is guarded, work goes on when its reader has gone.

    Raises:
        BrokenPipeError: nobody reads stdout, and it is not guarded.
    """
    try:
        print(text, file=_stdout, flush=True)
    except BrokenPipeError:
        if _stdout is None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), _stdout.fileno())
        talk("nobody reads stdout any more; going on without it")


def record(content: Mapping[str, object]) -> None:
    """One JSON line to stdout."""
    data(json.dumps(content, ensure_ascii=False))


def document(content: object) -> None:
    """An indented JSON document to stdout."""
    data(json.dumps(content, indent=2, ensure_ascii=False))


def talk(text: str = "") -> None:
    """One plain line to stderr."""
    print(text, file=sys.stderr, flush=True)


def tell(text: str) -> None:
    """One paragraph to stderr, wrapped between words on a terminal."""
    stderr_console().print(text, markup=False)


def on_terminal() -> bool:
    """Whether stdout, guarded or not, is read by a person."""
    return (_stdout or sys.stdout).isatty()


def width() -> int:
    """Columns of the terminal that stdout is."""
    from rich.console import Console

    return Console().width


def raw_data(text: str) -> None:
    """Text to stdout exactly as it is, as UTF-8."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def stderr_console() -> Console:
    """rich on stderr; colours only where the terminal and NO_COLOR allow."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def show(renderable: RenderableType) -> None:
    """A table or the like to stdout; in a pipe its full width, without colours."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else max(120, int(os.environ.get("COLUMNS") or 0))
    Console(highlight=False, width=width).print(renderable)


def show_talk(renderable: RenderableType) -> None:
    """A table or the like to stderr."""
    from rich.console import Console

    width = None if sys.stderr.isatty() else max(120, int(os.environ.get("COLUMNS") or 0))
    Console(stderr=True, highlight=False, width=width).print(renderable)


def report(error: BaseException) -> int:
    """Tell an error and return its exit code."""
    if isinstance(error, ManyErrors):
        for part in error.errors:
            _report_one(part)
        talk(f"{len(error.errors)} errors")
    elif isinstance(error, Music3Error):
        _report_one(error)
    else:
        _report_one(
            Music3Error(f"unexpected {type(error).__name__}: {error}", hint="Run again with -v for the traceback.")
        )
    if _verbose:
        traceback.print_exception(error, file=sys.stderr)
    return error.exit_code if isinstance(error, Music3Error) else 1


def _report_one(error: Music3Error) -> None:
    if _json:
        record({"event": "error", "message": error.message, "hint": error.hint, "exit_code": error.exit_code})
    console = stderr_console()
    console.print("[bold red]error[/]:", end=" ")
    console.print(error.message, markup=False)
    if error.hint:
        console.print(f"  {error.hint}", markup=False)
