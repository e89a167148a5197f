"""A finding: a hit of a rule with the place of its file, ready to be shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase

from music3_cli.errors import UsageError
from music3_cli.song.lint.rule import RULES, Hit, Severity
from music3_cli.song.place import Place
from music3_cli.song.text import SourceFault


@dataclass(frozen=True)
class Finding:
    """What is wrong, where, and what to do.

    Attributes:
        line, column: counted from 1, columns in characters; 0 where the file as a whole is meant.
        words: the exact words at risk; empty where there are none.
        fixable: whether `--fix` mends it.
    """

    file: str
    line: int
    column: int
    rule: str
    severity: Severity
    message: str
    advice: str
    words: str
    fixable: bool

    @property
    def place(self) -> str:
        """As editors take it: `song.txt:3:9`."""
        return ":".join([self.file, *(str(number) for number in (self.line, self.column) if number)])

    @property
    def text(self) -> str:
        """One line with everything, as a run reports it."""
        return f"{self.place}: {self.message} [{self.rule}]. {self.advice}".rstrip()

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def locate(hit: Hit, file: str, place: Place | None, *, fixable: bool = True) -> Finding:
    """A hit as a finding in `file`."""
    line, column = place(hit.start) if place is not None else (0, 0)
    rule = hit.rule
    can_fix = fixable and bool(hit.edits)
    return Finding(file, line, column, rule.id, rule.severity, hit.message, hit.advice, hit.words, can_fix)


def finding_of(fault: SourceFault, file: str) -> Finding:
    """A fault that was found while reading, as a finding of its rule."""
    rule = RULES[fault.rule]
    advice = fault.hint or ("Correct it there." if fault.line else "Check the name and the folder.")
    # What can be mended about a file that cannot even be read is its encoding.
    return Finding(
        file, fault.line, fault.column, rule.id, rule.severity, fault.what, advice, "", fixable=bool(rule.fix)
    )


@dataclass(frozen=True)
class Selection:
    """Which rules count: `select` and `ignore` are rule ids, or patterns such as `tag-*`. Nothing selected is all."""

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Raises:
        UsageError: a pattern that fits no rule.
        """
        for flag, patterns in (("--select", self.select), ("--ignore", self.ignore)):
            for pattern in patterns:
                if not any(fnmatchcase(rule, pattern) for rule in RULES):
                    near = get_close_matches(pattern, RULES, n=1)
                    raise UsageError(
                        f"{flag} {pattern}: no lint rule is called so",
                        hint=(f"Did you mean {near[0]}? " if near else "") + "`music3 lint --list` shows all of them.",
                    )

    def has(self, rule: str) -> bool:
        if self.select and not any(fnmatchcase(rule, pattern) for pattern in self.select):
            return False
        return not any(fnmatchcase(rule, pattern) for pattern in self.ignore)

    def hits(self, hits: Iterable[Hit]) -> list[Hit]:
        return [hit for hit in hits if self.has(hit.rule.id)]

    def findings(self, findings: Iterable[Finding]) -> list[Finding]:
        return [finding for finding in findings if self.has(finding.rule)]


ALL = Selection()
_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """By file as they came, then by line; of one place the gravest first; nothing twice."""
    files: dict[str, int] = {}
    unique = list(dict.fromkeys(findings))
    for finding in unique:
        files.setdefault(finding.file, len(files))
    return sorted(unique, key=lambda f: (files[f.file], f.line, f.column, _ORDER[f.severity]))
