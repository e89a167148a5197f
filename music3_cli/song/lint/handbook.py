"""docs/lint.md, made from the rule registry: every rule with what it finds, what it says and what `--fix` does.

The messages in it are real: each rule is run on its own example.
"""

from __future__ import annotations

from music3_cli.song.lint.files import Options, lint_text
from music3_cli.song.lint.finding import Finding
from music3_cli.song.lint.rule import RULES, Rule
from music3_cli.song.text import visible

_SUBJECTS = {
    "file": "Files and characters",
    "tags": "Section tags",
    "lyrics": "Lyrics",
    "caption": "Captions",
    "prompt": "The prompt as a whole",
    "preset": "Presets",
    "manifest": "Manifests",
}
_LONGEST_EXAMPLE = 12

_HEAD = """\
# Lint rules

<!-- Made by `python -m music3_cli.song.lint.handbook > docs/lint.md`; a test fails when it drifts. -->

`music3 lint FILE…` reads lyrics, captions, presets and manifests and tells what will not come out as meant, with
line and column, the words at risk, and what to do. `render` runs the same rules before anything is loaded: an
**error** stops it, a **warning** is reported (and stops it with `--strict`), an **info** is shown by `lint` only.

| command | does |
|---|---|
| `music3 lint song.txt` | exit code 0: no errors or warnings; 4: some. With `--strict`, infos count too. |
| `music3 lint --fix song.txt` | mends what can be mended; the file as it was stays beside it as `song.txt.bak` |
| `music3 lint --fix -o mended.txt song.txt` | writes the mended text elsewhere; `-o -` to standard output |
| `music3 lint --select 'tag-*' --ignore tag-unknown song.txt` | only some rules, by id or pattern |
| `music3 lint --json song.txt` | one JSON document: `findings`, `errors`, `warnings`, `infos`, `fixed` |
| `music3 render --fix-lyrics song.txt` | mends the lyrics for this song and leaves the file alone |
| `music3 render --lyrics as-is song.txt` | no lint, no cleaning, no front matter: the bytes as they are |

What a file is, is told by its ending: `.yaml`, `.yml`, `.json`, `.jsonl` and `.csv` are manifests (YAML with a
`caption` and no `songs` is a preset); a text file with `caption` in its name, or with the caption guide's headings and
no section tags, is a caption; everything else is lyrics. `--kind` overrides it. Texts inside manifests and front
matter are checked where they stand, and `--fix` leaves them alone; it mends the lyrics files that a manifest names.

Reading cleans two things, and says so: a byte-order mark at the head, and carriage returns. Everything else goes to
the prompt as it was written, and from there as the model's contract has it; `music3 inspect prompt` shows the result.

Lengths and, without a checkpoint, token counts are estimates from rules of thumb (syllables or signs by script, 1.4 to
5 syllables a second, 5 to 22 s for a section without words), not measurements of the model.
"""


def handbook() -> str:
    """The whole page."""
    parts = [_HEAD]
    for subject, title in _SUBJECTS.items():
        rules = [rule for rule in RULES.values() if rule.subject == subject]
        parts.append(f"\n## {title}\n")
        parts += [_section(rule) for rule in rules]
    return "".join(parts)


def example_findings(rule: Rule) -> list[Finding]:
    """What the rule says about its own example."""
    report = lint_text(
        rule.example.encode(), "song.txt" if rule.kind == "lyrics" else "caption.txt", rule.kind, Options()
    )
    return [finding for finding in report.findings if finding.rule == rule.id]


def _section(rule: Rule) -> str:
    lines = [f"\n### `{rule.id}` ({rule.severity})\n", f"\n{rule.what}\n"]
    if rule.example:
        shown = rule.example.rstrip("\n").split("\n")
        cut = [*shown[:_LONGEST_EXAMPLE], "…"] if len(shown) > _LONGEST_EXAMPLE else shown
        block = "\n".join(visible(line) for line in cut)
        lines.append(f"\n```text\n{block}\n```\n\n")
        lines += [f"- `{f.place}`: {f.message}. {f.advice}\n" for f in example_findings(rule)]
    else:
        lines.append(f"\nSays what was found and what was expected{': ' if '{what}' not in rule.says else '.'}")
        lines.append(f"{rule.says}. {rule.advice}\n" if "{what}" not in rule.says else "\n")
    if rule.fix:
        lines.append(f"\n`--fix` {rule.fix}.\n")
    return "".join(lines)


if __name__ == "__main__":
    import sys

    sys.stdout.write(handbook())
