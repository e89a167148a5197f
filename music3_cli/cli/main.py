"""The `music3` program: its commands, and the one place where errors become exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import typer

from music3_cli import __version__
from music3_cli.cli import console
from music3_cli.cli.batch import batch
from music3_cli.cli.bench import app as bench_app
from music3_cli.cli.convert import convert
from music3_cli.cli.doctor import doctor
from music3_cli.cli.download import download
from music3_cli.cli.inspect import app as inspect_app
from music3_cli.cli.lint import lint
from music3_cli.cli.presets import app as presets_app
from music3_cli.cli.render import render
from music3_cli.cli.signals import interrupt_at_signals
from music3_cli.cli.verify import verify
from music3_cli.errors import OutputError, UsageError

app = typer.Typer(
    name="music3",
    help="Render songs with MiniMax-Music3: lyrics and a caption in, finished stereo files out.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(render)
app.command()(batch)
app.command()(lint)
app.command()(download)
app.command()(verify)
app.command()(convert)
app.command()(doctor)
app.add_typer(bench_app, name="bench")
app.add_typer(inspect_app, name="inspect")
app.add_typer(presets_app, name="presets")


def _version(wanted: bool) -> None:
    if wanted:
        console.data(f"music3 {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    pass


def main() -> NoReturn:
    """Run the program; never returns. Exit codes: DESIGN "Command line", docs/cli.md."""
    interrupt_at_signals()
    with console.lasting_streams():
        try:
            _check_surroundings(sys.argv[1:])
            app()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        except BrokenPipeError:
            code = 1  # whoever read our output has gone; there is nobody to tell
        except (Exception, KeyboardInterrupt) as error:
            code = console.report(error)
        if code == 0 and console.data_is_lost():
            code = OutputError.exit_code
    sys.exit(code)


def _check_surroundings(words: Sequence[str]) -> None:
    """Before any command: what none can work with.

    Raises:
        UsageError: a word that is no UTF-8, as sidecars, tags and pages are.
        OutputError: the folder that relative names begin at is gone.
    """
    try:
        Path.cwd()
    except OSError as error:
        hint = "It was removed, or may not be entered: cd elsewhere."
        raise OutputError(f"the current folder: {error.strerror or error}", hint=hint) from None
    for word in words:
        if not word.isascii() and any("\udc80" <= character <= "\udcff" for character in word):
            shown = word.encode(errors="surrogateescape").decode(errors="backslashreplace")
            raise UsageError(f"{shown}: not valid UTF-8", hint="Rename the file or folder, or type the text again.")
