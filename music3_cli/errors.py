"""The errors that music3 raises on purpose, one class for each documented exit code.

A message names the thing (file, line, field, value) and what was expected; `hint` says what to do next.
Nothing here prints: `cli/main.py` turns an error into text and an exit code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class Music3Error(Exception):
    """Base of all expected errors.

    Args:
        message: what is wrong, with the thing's name and what was expected.
        hint: the next step for the user, or nothing.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(Music3Error):
    """Flags that do not fit together or a value that a flag does not take."""

    exit_code = 2


class SongsFailedError(Music3Error):
    """Some songs failed; the others are finished and kept."""

    exit_code = 3


class InputError(Music3Error):
    """Lyrics, caption, preset or a setting in them is invalid; nothing was rendered."""

    exit_code = 4


class CheckpointError(Music3Error):
    """The checkpoint is missing, incomplete, corrupt or of another architecture."""

    exit_code = 5


class DeviceError(Music3Error):
    """No such device, or out of memory at the smallest plan."""

    exit_code = 6


class OutputError(Music3Error):
    """The output cannot be written, or exists and may not be replaced."""

    exit_code = 7


class FolderInUseError(Music3Error):
    """Another run holds the output folder."""

    exit_code = 8


class Interrupted(Music3Error):
    """The user stopped the run; finished songs are kept."""

    exit_code = 130


class SongError(Music3Error):
    """One song could not be finished (zero frames, non-finite audio); its neighbours are not touched."""

    exit_code = 3


class ManyErrors(Music3Error):
    """Several errors found in one check, so that the user sees all of them at once.

    The exit code is that of the first, which callers order by weight.
    """

    def __init__(self, errors: Sequence[Music3Error]) -> None:
        super().__init__("\n".join(error.message for error in errors))
        self.errors = tuple(errors)
        self.exit_code = errors[0].exit_code


def raise_all(errors: Sequence[Music3Error]) -> None:
    """Raise nothing, the one error, or all of them together; several errors in one count each for itself."""
    errors = [part for error in errors for part in (error.errors if isinstance(error, ManyErrors) else (error,))]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ManyErrors(errors)


@contextmanager
def system_errors_as(kind: type[Music3Error]) -> Iterator[None]:
    """Around work with named files, as a block or a decorator: what the system says of one that nobody foresaw (a name
    too long, a folder that may not be looked into) is told as an error of this kind.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        raise kind(f"{error.filename}: {error.strerror or error}") from None
