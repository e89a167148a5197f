"""What is wrong with a checkpoint, as one kind of record: the quick check raises it, `verify` and `inspect` list it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from music3_cli.errors import CheckpointError, ManyErrors, Music3Error

KINDS = {
    "packaging": "the folder is no modular checkpoint",
    "unfinished": "a download into this folder has not finished",
    "record": "the completion record cannot be read",
    "missing": "a file or component is not there",
    "extra": "a file is there that does not belong",
    "truncated": "a file is shorter than it should be",
    "longer": "a file is longer than it should be",
    "changed": "a file is complete in itself and has other content",
    "swapped": "a file has the content of another one",
    "unreadable": "a file cannot be read, or is no plain file",
    "header": "a weight file's header is damaged or malicious",
    "index": "an index and its shards do not fit",
    "tensor": "tensor names, shapes or dtypes are not those that the configs imply",
    "config": "a config is damaged, of another model, or does not fit the others",
    "tokens": "the tokenizer is damaged or has other special tokens",
    "values": "weights that cannot be used: not finite, or a weight-norm scale of zero",
}
"""Kind -> what it means."""

_WHOLE_FILE = ("swapped", "unreadable")
_BYTES = ("missing", "truncated", "longer", "changed")

_MOST_SHOWN = 5

FETCH_AGAIN = (
    "To fetch it again: `music3 download --check`, with the same --to, --repo and --revision, fetches only what is "
    "missing or wrong."
)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        kind: one of `KINDS`.
        file: the file or folder.
        found: what is there, as the beginning of a sentence.
        expected: what should be there, or nothing.
        hint: the next step.
    """

    kind: str
    file: Path
    found: str
    expected: str = ""
    hint: str = FETCH_AGAIN

    @property
    def text(self) -> str:
        return printable(f"{self.found}; expected {self.expected}" if self.expected else self.found)

    def relative_file(self, root: Path) -> str:
        """The file's path inside the checkpoint, with forward slashes."""
        inside = self.file.is_relative_to(root)
        return printable(self.file.relative_to(root).as_posix() if inside else str(self.file))


def printable(text: str) -> str:
    """Text with control characters spelled out: names in a downloaded file shall not talk to the terminal."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


class Fault(CheckpointError):
    """A finding as an error."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"{printable(str(finding.file))}: {finding.text}", hint=finding.hint)
        self.finding = finding


def faults(findings: Sequence[Finding]) -> list[Music3Error]:
    """Findings as errors, for `raise_all`."""
    return [Fault(finding) for finding in findings]


@contextmanager
def collecting(findings: list[Finding]) -> Iterator[None]:
    """Inside, a `Fault` (or several as `ManyErrors`) ends the block and lands in `findings`."""
    try:
        yield
    except Fault as error:
        findings.append(error.finding)
    except ManyErrors as error:
        findings.extend(part.finding for part in error.errors if isinstance(part, Fault))


def first_few(findings: Sequence[Finding], what: str) -> list[Finding]:
    """The first five of one file, and one that counts the rest: a wrong config makes hundreds of the same kind.

    Args:
        what: what the rest is, in the plural.
    """
    shown: list[Finding] = []
    counts: dict[Path, int] = {}
    for finding in findings:
        counts[finding.file] = counts.get(finding.file, 0) + 1
        if counts[finding.file] <= _MOST_SHOWN:
            shown.append(finding)
    for file, count in counts.items():
        if count > _MOST_SHOWN:
            last = max(i for i, finding in enumerate(shown) if finding.file == file)
            more = replace(shown[last], found=f"{count - _MOST_SHOWN} more {what}", expected="")
            shown.insert(last + 1, more)
    return shown


def settled(findings: Sequence[Finding]) -> list[Finding]:
    """Findings without those that say less about the same thing: of what a file's bytes are, the first counts; a file
    that is another one needs no word about its size, nor a file in a folder that is missing.
    """
    exchanged = {finding.file for finding in findings if finding.kind in _WHOLE_FILE}
    gone = {finding.file for finding in findings if finding.kind == "missing"}
    told: set[Path] = set()
    kept = []
    for finding in findings:
        if finding.kind in _BYTES and (finding.file in exchanged or finding.file.parent in gone):
            continue
        if finding.kind in _BYTES or finding.kind in _WHOLE_FILE:
            if finding.file in told:
                continue
            told.add(finding.file)
        kept.append(finding)
    return kept
