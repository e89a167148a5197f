"""What a lint rule is, and the registry of all of them.

A rule is data (id, severity, what it says); a check is a generator of hits in one text. Checks stand beside their
rules in the modules of this package; `check.py` runs them and docs/lint.md is made from the registry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

Severity = Literal["error", "warning", "info"]
Subject = Literal["file", "tags", "lyrics", "caption", "prompt", "preset", "manifest"]


@dataclass(frozen=True)
class Edit:
    """Replace `text[start:end]` by `new`."""

    start: int
    end: int
    new: str


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        id: its name on the command line and in messages.
        severity: an error stops a render; a warning is probably not meant; an info may well be meant.
        subject: what it is about.
        what: what it finds and why that matters, for docs/lint.md.
        says: the message, with {fields}.
        advice: what to do, with {fields}.
        fix: what `--fix` does; empty where only the author can know.
        example: a text that the rule finds something in; its real message stands in docs/lint.md. Empty for rules
            about files, whose examples are not text.
        kind: what `example` is, `lyrics` or `caption`.
    """

    id: str
    severity: Severity
    subject: Subject
    what: str
    says: str
    advice: str
    fix: str = ""
    example: str = ""
    kind: Literal["lyrics", "caption"] = "lyrics"

    def hit(self, start: int, words: str = "", edits: Sequence[Edit] = (), **fields: object) -> Hit:
        """A hit at offset `start`. `words` are the exact words at risk; `{words}` in a message shows them quoted."""
        shown: Mapping[str, object] = {"words": quoted(words), **fields}
        return Hit(self, start, words, self.says.format_map(shown), self.advice.format_map(shown), tuple(edits))


@dataclass(frozen=True)
class Hit:
    """A rule's finding in a text; `edits` mend it, all or none of them."""

    rule: Rule
    start: int
    words: str
    message: str
    advice: str
    edits: tuple[Edit, ...] = ()


def sorted_rules() -> list[Rule]:
    """Every rule, by subject, then the gravest first, then by id."""
    subjects, severities = get_args(Subject), get_args(Severity)
    return sorted(
        RULES.values(), key=lambda rule: (subjects.index(rule.subject), severities.index(rule.severity), rule.id)
    )


def moved(hit: Hit, by: int) -> Hit:
    """The same hit `by` characters further on."""
    edits = tuple(Edit(edit.start + by, edit.end + by, edit.new) for edit in hit.edits)
    return replace(hit, start=hit.start + by, edits=edits)


RULES: dict[str, Rule] = {}
"""Every rule by id. Complete once `files.py` is imported, which knows every module of rules."""


def register(rule: Rule) -> Rule:
    """Add a rule to the registry.

    Raises:
        ValueError: the id is taken.
    """
    if rule.id in RULES:
        raise ValueError(f"two lint rules are called {rule.id}")
    RULES[rule.id] = rule
    return rule


def quoted(words: str, longest: int = 72) -> str:
    """`words` in quotes with invisible characters spelled out, cut where a message would become too long."""
    text = repr(words)
    return text if len(text) <= longest else f"{text[: longest - 2]}…{text[0]}"
