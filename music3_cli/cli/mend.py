"""Writing mended texts for `music3 lint --fix`: in place with a backup, or elsewhere. Nothing is half written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from music3_cli.cli import console
from music3_cli.errors import OutputError, UsageError, system_errors_as
from music3_cli.song.lint.files import Options, Report, lint_text


@system_errors_as(OutputError)
def write_mended(reports: Sequence[Report], output: str | None, options: Options) -> tuple[list[Report], list[str]]:
    """Write every text that mending changes, and lint it again.

    Args:
        output: None for the files themselves, `-` for stdout, else a file (for one text) or a folder.

    Returns:
        reports whose findings are those of the mended texts, and a line for each text about what was done.

    Raises:
        UsageError: one output file for several texts.
        OutputError: a file cannot be written.
    """
    texts = [report for report in reports if report.text is not None]
    if output is not None and len(texts) > 1 and not _is_folder(output):
        raise UsageError(f"--output {output}: one place for {len(texts)} texts", hint="Name a folder, such as mended/.")
    if output is not None and not texts:
        raise UsageError(
            f"--output {output}: no text among the files can be mended",
            hint="--fix mends lyrics and captions; front matter, presets and manifests are the author's.",
        )
    after: list[Report] = []
    lines: list[str] = []
    for report in reports:
        if report.text is None:
            after.append(report)
            if report.findings:
                lines.append(f"{report.file}: left as it is")
            continue
        told = ", ".join(f"{rule} {count}" for rule, count in report.mended.items())
        if output == "-":
            console.raw_data(report.text)
            lines.append(f"{report.file}: mended {told}" if told else f"{report.file}: nothing to mend")
        elif output is not None:
            target = Path(output) / Path(report.file).name if _is_folder(output) else Path(output)
            _write(target, report.text)
            lines.append(f"{report.file}: {f'mended {told}' if told else 'nothing to mend'}; written to {target}")
        elif told:
            backup = _rewrite(Path(report.file), report.text)
            lines.append(f"{report.file}: mended {told}; the old text is in {backup}")
        else:
            lines.append(f"{report.file}: nothing to mend")
        again = lint_text(report.text.encode(), report.file, report.kind, options)
        after.append(replace(again, mended=report.mended))
    return after, lines


def _is_folder(output: str) -> bool:
    return output != "-" and (output.endswith(("/", os.sep)) or Path(output).is_dir())


def _rewrite(file: Path, text: str) -> Path:
    """Replace a file's text and keep the old one under a name that was free."""
    file = file.resolve()  # a link stays a link
    backup = file.with_name(f"{file.name}.bak")
    number = 2
    while backup.exists():
        backup, number = file.with_name(f"{file.name}.bak{number}"), number + 1
    try:
        shutil.copy2(file, backup)
    except OSError as error:
        raise OutputError(f"{backup}: cannot be written ({error.strerror or error})") from None
    _write(file, text, like=backup)
    return backup


def _write(target: Path, text: str, like: Path | None = None) -> None:
    partial = target.with_name(f".music3-{os.getpid()}-{target.name}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(text.encode())
        if like is not None:
            shutil.copymode(like, partial)
        partial.replace(target)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise OutputError(f"{target}: cannot be written ({error.strerror or error})") from None
