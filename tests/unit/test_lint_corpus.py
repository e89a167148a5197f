"""Every faulty input of the corpus: found by its rule at its line, mended to what its author meant, and then clean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from music3_cli.song.lint.files import Kind, Options, Report, lint_text
from music3_cli.song.lyrics import normalize_lyrics, parse_lyrics
from music3_cli.song.presets import load_preset
from music3_cli.song.text import SourceText

CORPUS = Path(__file__).parents[1] / "corpus" / "lint" / "cases.yaml"
CASES: list[dict[str, Any]] = yaml.safe_load(CORPUS.read_text(encoding="utf-8"))
IDS = [case["id"] for case in CASES]

Case = Mapping[str, Any]


def filled(text: str) -> str:
    return text.replace("{guide}", load_preset("default").filled_caption())


def lint(case: Case, data: bytes) -> Report:
    kind: Kind = case.get("kind", "lyrics")
    return lint_text(data, f"{kind}.txt", kind, Options())


def faulty(case: Case) -> Report:
    return lint(case, filled(case["text"]).encode(case.get("encoding", "utf-8")))


def test_there_are_enough_cases_and_each_is_another() -> None:
    assert len(CASES) >= 60
    assert len(set(IDS)) == len(IDS)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_rule_finds_it_at_its_place(case: Case) -> None:
    report = faulty(case)
    found = [finding for finding in report.findings if finding.rule == case["rule"]]
    assert found, [finding.text for finding in report.findings]
    assert case["line"] in {finding.line for finding in found}
    if "column" in case:
        assert (case["line"], case["column"]) in {(finding.line, finding.column) for finding in found}
    if "words" in case:
        assert case["words"] in {finding.words for finding in found}
    for finding in report.findings:
        assert finding.message
        assert "{" not in finding.message or "{" in case["text"]
        assert finding.advice


@pytest.mark.parametrize("case", [case for case in CASES if not case.get("by_hand")], ids=lambda case: case["id"])
def test_fix_gives_what_was_meant(case: Case) -> None:
    report = faulty(case)
    assert report.text == filled(case["fixed"])
    assert report.mended
    again = lint(case, report.text.encode())
    assert again.text == report.text
    assert not again.mended


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_what_was_meant_is_clean(case: Case) -> None:
    report = lint(case, filled(case["fixed"]).encode())
    left = [finding.text for finding in report.findings]
    if case.get("leaves_others"):
        assert all(case["rule"] not in text for text in left)
    else:
        assert not left


@pytest.mark.parametrize("case", [case for case in CASES if "kind" not in case], ids=lambda case: case["id"])
def test_the_prompt_is_what_was_meant(case: Case) -> None:
    """Nothing of the fixed form is dropped, split or added by the contract but `[start]` and lower case in tags."""
    words = parse_lyrics(SourceText("song.txt", case["fixed"])).text
    lines = [line.strip() if line.strip().startswith("[") else line for line in words.split("\n")]
    as_seen = re.sub(r"\[([^\]]+)\]", lambda tag: tag.group().lower(), "\n".join(lines))
    assert normalize_lyrics(words) == f"[start]\n{as_seen}"
