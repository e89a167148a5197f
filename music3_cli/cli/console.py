"""What goes where: stdout is data, stderr is talk. The only module that prints."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from music3_cli.errors import ManyErrors, Music3Error, OutputError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_verbose = False
_json = False
_stdout: TextIO | None = None
"""The real one while stdout is guarded."""
_data_is_lost = False

MOST_ERRORS = 100
"""That are shown of many; a mistake that ten thousand lines have is understood before."""


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


class _Stream:
    """A stream whose faults are ours to judge."""

    def __init__(self, stream: TextIO, failed: Callable[[TextIO, OSError], None]) -> None:
        self._stream, self._failed = stream, failed

    def write(self, text: str) -> int:
        if text == "":  # how click finds out what kind of stream it is; a fault would be taken for an answer
            return 0
        try:
            return self._stream.write(text)
        except OSError as error:
            self._failed(self._stream, error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._failed(self._stream, error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _talk_failed(stream: TextIO, error: OSError) -> None:
    """Nobody can be told; work goes on."""
    _give_up(stream)


def _data_failed(stream: TextIO, error: OSError) -> None:
    _give_up(stream)
    if isinstance(error, BrokenPipeError):
        raise error
    raise OutputError(f"stdout: cannot be written ({error.strerror or error})") from None


def _give_up(stream: TextIO) -> None:
    """What else goes there goes nowhere, also what is in its buffer."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextmanager
def lasting_streams() -> Iterator[None]:
    """Inside, both streams are there, also where the shell closed them, and take all characters, as `\\u591c` where
    their encoding has none. A full disk behind stderr does not end the work; behind stdout it is an `OutputError`.
    """
    global _data_is_lost
    _data_is_lost = False
    configure()
    with ExitStack() as stack:
        out = sys.stdout or stack.enter_context(Path(os.devnull).open("w"))
        talk = sys.stderr or stack.enter_context(Path(os.devnull).open("w"))
        for stream in (out, talk):
            if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
                stream.reconfigure(errors="backslashreplace")
        stack.enter_context(redirect_stdout(_Stream(out, _data_failed)))
        stack.enter_context(redirect_stderr(_Stream(talk, _talk_failed)))
        yield


def data(text: str) -> None:
    """One line of data to stdout. While stdout is guarded, work goes on when it takes no more.

    Raises:
        BrokenPipeError: nobody reads stdout, and it is not guarded.
        OutputError: it cannot be written, and it is not guarded.
    """
    global _data_is_lost
    try:
        print(text, file=_stdout, flush=True)
    except (BrokenPipeError, OutputError) as error:
        if _stdout is None:
            raise
        if isinstance(error, OutputError):
            _data_is_lost = True
            talk(f"{error.message}; going on without it")
        else:
            talk("nobody reads stdout any more; going on without it")


def data_is_lost() -> bool:
    """Whether work went on without a stdout that could not be written."""
    return _data_is_lost


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
    stderr_console().print(text)


def on_terminal() -> bool:
    """Whether stdout, guarded or not, is read by a person."""
    return (_stdout or sys.stdout).isatty()


def width() -> int:
    """Columns of the terminal that stdout is."""
    return _console().width


def _console(**options: Any) -> Console:
    """rich, which shows names as they are: `[x]` is no style there, and `:100:` no picture."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, **options)


def raw_data(text: str) -> None:
    """Text to stdout exactly as it is, as UTF-8."""
    sys.stdout.flush()
    try:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    except OSError as error:
        _data_failed(sys.stdout, error)


def stderr_console() -> Console:
    """rich on stderr; colours only where the terminal and NO_COLOR allow."""
    return _console(stderr=True, soft_wrap=not sys.stderr.isatty())


def show(renderable: RenderableType) -> None:
    """A table or the like to stdout; in a pipe its full width, without colours."""
    _console(width=_table_width(sys.stdout)).print(renderable)


def show_talk(renderable: RenderableType) -> None:
    """A table or the like to stderr."""
    _console(stderr=True, width=_table_width(sys.stderr)).print(renderable)


def _table_width(stream: TextIO) -> int | None:
    """None for the terminal's own."""
    columns = os.environ.get("COLUMNS", "")
    return None if stream.isatty() else max(120, int(columns) if columns.isdecimal() else 0)


def report(error: BaseException) -> int:
    """Tell an error and return its exit code."""
    if isinstance(error, ManyErrors):
        shown = error.errors if _json else error.errors[:MOST_ERRORS]
        for part in shown:
            _report_one(part)
        if len(shown) < len(error.errors):
            talk(f"… and {len(error.errors) - len(shown)} more; --json tells them all")
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
    terminal = stderr_console()
    terminal.print("error", style="bold red", end="")
    terminal.print(f": {error.message}")
    if error.hint:
        terminal.print(f"  {error.hint}")
