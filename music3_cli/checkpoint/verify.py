"""`verify`: the quick check, then every byte against the known digests, then every value.

The quick depth is `inventory.survey`, which every run makes. What follows adds to its findings and repeats none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from music3_cli.checkpoint import checks
from music3_cli.checkpoint.digests import Examined, Statistics
from music3_cli.checkpoint.findings import Fault, Finding, collecting, settled
from music3_cli.checkpoint.inventory import Survey, survey
from music3_cli.checkpoint.layout import CLASSES, COMPONENTS, PIPELINE_CLASS
from music3_cli.checkpoint.record import ORIGINS
from music3_cli.checkpoint.released import FileTable, released_table
from music3_cli.checkpoint.stock import read_files
from music3_cli.errors import CheckpointError
from music3_cli.events import Event

QUICK, DEFAULT, DEEP = "quick", "default", "deep"


@dataclass
class Report:
    """What a verification looked at and found.

    Attributes:
        against: what the digests were compared with, as people say it; nothing for the quick depth.
        files, bytes: read to the end.
        statistics: by component, of the deep depth.
    """

    root: Path
    depth: str
    findings: list[Finding] = field(default_factory=list)
    against: str = ""
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    statistics: dict[str, Statistics] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "path": str(self.root),
            "depth": self.depth,
            "ok": not self.findings,
            "against": self.against,
            "files": self.files,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "findings": [
                {
                    "kind": finding.kind,
                    "file": finding.relative_file(self.root),
                    "found": finding.found,
                    "expected": finding.expected,
                    "hint": finding.hint,
                }
                for finding in self.findings
            ],
            "statistics": {
                name: {key: None if isinstance(x, float) and not math.isfinite(x) else x for key, x in row.items()}
                for name, row in ((name, values.to_json()) for name, values in self.statistics.items())
            },
        }


def verify(root: Path, depth: str) -> Generator[Event, None, Report]:
    """Check a folder to a depth: `quick`, `default` or `deep`.

    Yields:
        progress of reading.

    Returns:
        the report, with every finding.
    """
    started = time.perf_counter()
    seen = survey(root)
    report = Report(root, depth, list(seen.findings))
    if depth != QUICK and seen.is_checkpoint and not seen.is_unfinished:
        report.findings += _meaning_findings(root)
        headers = [header for files in seen.components.values() for header in files.headers] if depth == DEEP else []
        examined = yield from read_files(root, headers, "verify")
        report.files, report.bytes = len(examined), sum(file.bytes for file in examined.values())
        table, report.against = expected_files(seen)
        if table is not None:
            report.findings += compare(root, table, examined)
        report.findings += [finding for file in examined.values() for finding in file.findings]
        if depth == DEEP:
            for name, files in seen.components.items():
                report.statistics[name] = Statistics()
                for header in files.headers:
                    report.statistics[name].add(examined[header.path.relative_to(root).as_posix()].statistics)
    report.findings = settled(report.findings)
    report.findings.sort(key=lambda finding: (finding.relative_file(root), finding.kind))
    report.seconds = time.perf_counter() - started
    return report


def expected_files(seen: Survey) -> tuple[FileTable | None, str]:
    """The table that a folder's digests must match, and what it is: its completion record's, else the released one."""
    if seen.record is not None:
        record = seen.record
        return record.table, f"the record of {ORIGINS[record.origin]} of {record.table.label}, {record.finished}"
    if seen.is_demo:
        return None, ""
    return released_table(), f"the published digests of {released_table().label}"


def compare(root: Path, table: FileTable, examined: Mapping[str, Examined]) -> list[Finding]:
    """Files against a table: missing, extra, truncated, longer, changed, and swapped with another one."""
    by_digest = {entry.sha256: entry.path for entry in table.files.values()}
    findings = []
    for entry in table.files.values():
        file, found = root / entry.path, examined.get(entry.path)
        if found is not None and (found.sha256 == entry.sha256 or not found.sha256):
            continue
        other = by_digest.get(found.sha256) if found is not None else None
        if found is not None and other is not None:
            findings.append(Finding("swapped", file, f"swapped: has the content of {other}", "its own"))
        elif finding := checks.size_finding(file, None if found is None else found.bytes, entry.bytes):
            findings.append(finding)
        elif found is not None:
            what = f"changed: sha256 {found.sha256[:16]}…"
            findings.append(Finding("changed", file, what, f"{entry.sha256[:16]}…"))
    for path in sorted(set(examined) - set(table.files)):
        what = "does not belong there"
        hint = "Delete it if it is a left-over; it belongs to no file list of this checkpoint."
        findings.append(Finding("extra", root / path, what, hint=hint))
    return findings


def _meaning_findings(root: Path) -> list[Finding]:
    """What small files say: special tokens, the modular index, the scheduler."""
    findings: list[Finding] = []
    if (root / "tokenizer" / "tokenizer.json").is_file():
        with collecting(findings):
            _check_tokens(root / "tokenizer" / "tokenizer.json")
    for check, file in (
        (_check_modular_index, root / "modular_model_index.json"),
        (_check_scheduler, root / "scheduler" / "scheduler_config.json"),
    ):
        if file.exists():
            with collecting(findings):
                check(file)
    return findings


def _check_tokens(file: Path) -> None:
    from music3_cli.song.prompt import PromptTokenizer

    try:
        PromptTokenizer.from_file(file)
    except CheckpointError as error:
        # Without the library's own words in brackets, which change with its version.
        what = error.message.removeprefix(f"{file}: ").partition(" (")[0]
        raise Fault(Finding("tokens", file, what, hint=error.hint)) from None


def _check_modular_index(file: Path) -> None:
    """The index names the pipeline and every component with its class. Where it says to fetch them is not followed."""
    content = checks.read_object(file)
    if content.get("_class_name") != PIPELINE_CLASS:
        raise Fault(Finding("index", file, f"its class is {content.get('_class_name')}", PIPELINE_CLASS))
    for name, (library, kind) in CLASSES.items():
        entry = content.get(name)
        if not isinstance(entry, list) or entry[:2] != [library, kind]:
            found = (
                "is not in it" if entry is None else f"is {str(entry[:2] if isinstance(entry, list) else entry)[:80]}"
            )
            raise Fault(Finding("index", file, f"component {name} {found}", f"{library} {kind}"))


def _check_scheduler(file: Path) -> None:
    """The flow's time grid is part of the model: i/n from noise to sound (spec section 4)."""
    content = checks.read_object(file)
    found = checks.config_class(content)
    expected = CLASSES["scheduler"][1]
    if found != expected:
        if found in {component.kind for component in COMPONENTS.values()}:
            checks.check_class(file, found, expected)
        raise Fault(Finding("config", file, f"its class is {found or 'not named'}", expected))
    for name, value in (("shift", 1), ("num_train_timesteps", 1), ("invert_sigmas", True)):
        if content.get(name) != value:
            raise Fault(Finding("config", file, f"{name} is {content.get(name)!r}", f"{value!r}"))
