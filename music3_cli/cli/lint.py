"""`music3 lint`: what will not come out as meant, before a weight is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from music3_cli.cli import console

if TYPE_CHECKING:
    from music3_cli.song.lint.files import Report
    from music3_cli.song.lint.finding import Finding

_COLOURS = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def lint(
    files: Annotated[
        list[str] | None,
        typer.Argument(help="Lyrics, captions, presets or manifests; - reads standard input.", show_default=False),
    ] = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Mend what can be mended; keeps the old file as NAME.bak.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Write mended texts to this file, folder or - (stdout) instead."),
    ] = None,
    select: Annotated[
        list[str] | None, typer.Option(help="Only these rules: ids or patterns such as 'tag-*', with commas.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Leave these rules out.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 4 for infos too.")] = False,
    kind: Annotated[
        str | None, typer.Option(help="lyrics, caption, preset or manifest. [default: by ending and content]")
    ] = None,
    max_duration: Annotated[
        str | None, typer.Option(help="Ceiling for lyrics that have none of their own, such as 3:30.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON document instead of text; see docs/lint.md.")] = False,
    list_rules: Annotated[bool, typer.Option("--list", help="List all rules and exit.")] = False,
) -> None:
    """Check texts before rendering, and mend them.

    Exit code 0: no errors or warnings; 4: some. Infos are shown and do not count, unless --strict is given.
    docs/lint.md has every rule.
    """
    from music3_cli.errors import UsageError
    from music3_cli.song.lint.files import KINDS, Options, lint_all
    from music3_cli.song.lint.finding import Selection

    console.configure(as_json=as_json)
    if list_rules:
        _list_rules(as_json)
        return
    if not files:
        raise UsageError("no file was named", hint="music3 lint song.txt, or - for standard input.")
    if files.count("-") > 1:
        raise UsageError("standard input (-) can be read only once")
    chosen = next((known for known in KINDS if known == kind), None)
    if kind is not None and chosen is None:
        raise UsageError(f"--kind {kind}: one of {', '.join(KINDS)} was expected")
    from music3_cli.jobs.tokenizer import token_counter

    selection = Selection(_split(select), _split(ignore))
    mending = fix or output is not None
    options = Options(selection, _ceiling(max_duration), token_counter(), mend=mending)
    reports: list[Report] = []
    lint_all(files, chosen, options, reports.append)
    written: list[str] = []
    to_stdout = False
    if mending:
        from music3_cli.cli.mend import write_mended

        if output is None and "-" in files:
            output = "-"
        to_stdout = output == "-"
        if to_stdout and as_json:
            raise UsageError("--json and mended text cannot both go to stdout", hint="Name a file with --output.")
        reports, written = write_mended(reports, output, options)
    _show(reports, written, as_json, to_stdout)
    bad = {"error", "warning", "info"} if strict else {"error", "warning"}
    if any(finding.severity in bad for report in reports for finding in report.findings):
        raise typer.Exit(4)


def _split(patterns: list[str] | None) -> tuple[str, ...]:
    return tuple(part.strip() for pattern in patterns or () for part in pattern.split(",") if part.strip())


def _ceiling(text: str | None) -> int | None:
    from music3_cli.errors import UsageError
    from music3_cli.song.settings import parse_duration

    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--max-duration {text!r}: {error}") from None


def _list_rules(as_json: bool) -> None:
    from music3_cli.song.lint import files as _all_rules  # noqa: F401  registers every rule
    from music3_cli.song.lint.rule import sorted_rules

    if as_json:
        console.document(
            [
                {"id": rule.id, "severity": rule.severity, "about": rule.subject, "what": rule.what, "fix": rule.fix}
                for rule in sorted_rules()
            ]
        )
        return
    for rule in sorted_rules():
        if console.on_terminal():
            _paragraph(rule.id, rule.severity, rule.what, f"--fix {rule.fix}." if rule.fix else "")
        else:
            console.data(f"{rule.id}\t{rule.severity}\t{rule.what}\t{rule.fix}")


def _show(reports: list[Report], written: list[str], as_json: bool, to_stdout: bool) -> None:
    findings = [finding for report in reports for finding in report.findings]
    counts = {kind: sum(f.severity == kind for f in findings) for kind in ("error", "warning", "info")}
    if as_json:
        console.document(
            {
                "findings": [finding.to_json() for finding in findings],
                **{f"{kind}s": count for kind, count in counts.items()},
                "fixed": [{"file": r.file, "rules": dict(r.mended)} for r in reports if written and r.mended],
                "files": len(reports),
            }
        )
        return
    for finding in findings:
        if to_stdout:
            console.talk(_line(finding))
        elif console.on_terminal():
            _paragraph(finding.place, finding.severity, f"{finding.message} [{finding.rule}]", finding.advice)
        else:
            console.data(_line(finding))
    for line in written:
        console.tell(line)
    names = [f"{count} {kind}{'s' * (count != 1)}" for kind, count in counts.items() if count]
    fixable = sum(finding.fixable for finding in findings)
    mend = f"; --fix mends {fixable}" if fixable and not written else ""
    files = f"{len(reports)} file{'s' * (len(reports) != 1)}"
    console.tell(f"{files}: {', '.join(names) or 'nothing to complain about'}{mend}")


def _line(finding: Finding) -> str:
    return f"{finding.place}: {finding.severity}: {finding.message} [{finding.rule}]. {finding.advice}".rstrip()


def _paragraph(head: str, severity: str, message: str, advice: str) -> None:
    """For people: the place, then message and advice, indented and wrapped to the terminal."""
    from rich.padding import Padding
    from rich.text import Text

    title = Text(head, style="bold").append("  ").append(severity, style=_COLOURS[severity])
    console.show(title)
    console.show(Padding(Text(message), (0, 0, 0, 2)))
    if advice:
        console.show(Padding(Text(advice, style="dim"), (0, 0, 0, 2)))
