"""Mending a text: applies the edits of hits until none are left."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from music3_cli.song.lint.rule import Edit, Hit

MOST_ROUNDS = 50

Find = Callable[[str], Iterable[Hit]]


@dataclass(frozen=True)
class Round:
    """The edits of one round in order of place, and where each one's text begins afterwards."""

    edits: tuple[Edit, ...]
    starts: tuple[int, ...]

    @classmethod
    def of(cls, edits: Sequence[Edit]) -> Round:
        shift, starts = 0, []
        for edit in edits:
            starts.append(edit.start + shift)
            shift += len(edit.new) - (edit.end - edit.start)
        return cls(tuple(edits), tuple(starts))

    def before(self, offset: int) -> int:
        """The offset before this round; what an edit put in comes from the edit's place."""
        index = bisect_right(self.starts, offset) - 1
        if index < 0:
            return offset
        edit, inside = self.edits[index], offset - self.starts[index]
        if inside < len(edit.new):
            return edit.start + min(inside, max(0, edit.end - edit.start - 1))
        return edit.end + inside - len(edit.new)


@dataclass(frozen=True)
class Mended:
    """A text after all edits.

    Attributes:
        hits: every hit that was applied, with its offset in the first text.
        rounds: what was edited, round by round.
    """

    text: str
    hits: tuple[Hit, ...]
    rounds: tuple[Round, ...]

    def origin(self, offset: int) -> int:
        """The offset in the first text of what stands at `offset` in the mended one."""
        for done in reversed(self.rounds):
            offset = done.before(offset)
        return offset


def fix_text(text: str, find: Find) -> Mended:
    """Mend until `find` has nothing left to mend, so that fixing the result changes nothing."""
    hits: list[Hit] = []
    rounds: list[Round] = []
    for _ in range(MOST_ROUNDS):
        edits, done = _compatible(find(text))
        mended = _applied(text, edits)
        if mended == text:
            break
        so_far = Mended(text, (), tuple(rounds))
        hits += [replace(hit, start=so_far.origin(hit.start)) for hit in done]
        rounds.append(Round.of(edits))
        text = mended
    return Mended(text, tuple(hits), tuple(rounds))


def _compatible(hits: Iterable[Hit]) -> tuple[list[Edit], list[Hit]]:
    """Edits in order of place, and their hits: all edits of a hit or none, none that meet another's."""
    starts: list[int] = []
    taken: list[Edit] = []
    applied: list[Hit] = []
    for hit in sorted((hit for hit in hits if hit.edits), key=lambda hit: hit.edits[0].start):
        if all(_fits(edit, starts, taken) for edit in hit.edits):
            applied.append(hit)
            for edit in hit.edits:
                index = bisect_left(starts, edit.start)
                starts.insert(index, edit.start)
                taken.insert(index, edit)
    return taken, applied


def _fits(edit: Edit, starts: Sequence[int], taken: Sequence[Edit]) -> bool:
    index = bisect_left(starts, edit.start)
    follows = index == 0 or taken[index - 1].end <= edit.start
    precedes = index == len(taken) or (starts[index] > edit.start and starts[index] >= edit.end)
    return follows and precedes


def _applied(text: str, edits: Sequence[Edit]) -> str:
    pieces, end = [], 0
    for edit in edits:
        pieces += [text[end : edit.start], edit.new]
        end = edit.end
    return "".join([*pieces, text[end:]])
