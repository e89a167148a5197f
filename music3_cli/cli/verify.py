"""`music3 verify`: is a checkpoint whole and right?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from music3_cli.cli import console, options

if TYPE_CHECKING:
    from music3_cli.checkpoint.verify import Report


def verify(
    checkpoint: Annotated[
        str | None,
        typer.Argument(
            help="Folder, demo, or REPO[@REV] in the hub's cache. [default: as in render]", show_default=False
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only files, sizes and headers: what every run checks.")
    ] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Every value too: finite, weight-norm scales, statistics a component.")
    ] = False,
    as_json: options.JsonDocument = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only findings.")] = False,
    verbose: options.Verbose = False,
    no_progress: options.NoProgress = False,
) -> None:
    """Check a checkpoint: all files there, every byte as published, everything fitting together.

    Reads every file and compares its sha256 with the published one (or, for another revision, with what the download
    recorded). Exits with 5 and every finding if anything is wrong. Never uses the network.
    """
    console.configure(verbose=verbose, as_json=as_json)
    from music3_cli.checkpoint.locate import find_place
    from music3_cli.checkpoint.verify import DEEP, DEFAULT, QUICK
    from music3_cli.checkpoint.verify import verify as run_verify
    from music3_cli.cli.work import show_work
    from music3_cli.errors import UsageError

    if quick and deep:
        raise UsageError("--quick and --deep: one of them was expected")
    place = find_place(checkpoint)
    depth = QUICK if quick else DEEP if deep else DEFAULT
    report = show_work(run_verify(place.root, depth), as_json=False, quiet=quiet or as_json, no_progress=no_progress)
    if as_json:
        console.document({"name": place.name, **report.to_json()})
    else:
        _show(place.name, report, quiet)
    raise typer.Exit(5 if report.findings else 0)


def _show(name: str, report: Report, quiet: bool) -> None:
    from music3_cli.cli.work import size_text

    if not quiet:
        console.data(f"{name}  {report.root}" if name != str(report.root) else name)
        for line in _what_was_done(report):
            console.data(f"  {line}")
    hints: dict[str, None] = {}
    for finding in report.findings:
        rest = finding.text.removeprefix(finding.kind).lstrip(":; ")
        console.data(f"{finding.kind}: {finding.relative_file(report.root)}" + (f": {rest}" if rest else ""))
        if finding.hint:
            hints[finding.hint] = None
    if report.statistics and not quiet:
        _show_statistics(report)
    if report.findings:
        for hint in hints:
            console.talk(f"  {hint}")
        console.talk(f"{len(report.findings)} finding{'s' * (len(report.findings) != 1)}: do not use this checkpoint")
    elif not quiet:
        speed = f" in {report.seconds:.1f} s ({size_text(report.bytes / report.seconds)}/s)" if report.bytes else ""
        console.data(f"whole and right{speed}" if report.bytes else "nothing wrong was seen; the weights were not read")


def _what_was_done(report: Report) -> list[str]:
    from music3_cli.cli.work import size_text

    if not report.files:
        return ["headers, names, shapes and sizes were checked"]
    read = f"{report.files} files, {size_text(report.bytes)}, read to the end"
    if not report.against:
        return [f"{read}; no digests are known for this checkpoint, so only its structure was checked"]
    return [f"{read}, sha256 against {report.against}"]


def _show_statistics(report: Report) -> None:
    from rich import box
    from rich.table import Table

    table = Table("component", "tensors", "values", "not finite", "zeros", "smallest", "largest", "mean", "deviation")
    table.box = box.SIMPLE
    for name, row in report.statistics.items():
        numbers = (f"{row.smallest:.4g}", f"{row.largest:.4g}", f"{row.mean:.4g}", f"{row.deviation:.4g}")
        counts = (f"{row.tensors:,}", f"{row.values:,}", f"{row.not_finite:,}", f"{row.zeros:,}")
        table.add_row(name, *counts, *numbers)
    console.show(table)
