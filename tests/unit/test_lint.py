"""The lint command and its registry: what it prints, which code it gives, and what `--fix` writes."""

from __future__ import annotations

import importlib.util
import json
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from music3_cli.song.lint.check import check_lyrics, fix_caption, fix_lyrics_file
from music3_cli.song.lint.files import Options, lint_text
from music3_cli.song.lint.rule import RULES, sorted_rules
from music3_cli.song.lyrics import parse_lyrics
from music3_cli.song.text import SourceText
from tests.conftest import EXAMPLES, ROOT, Music3

CLEAN = "[verse]\nPaper lanterns on the water\nCarry every wish we wrote\n[outro]\n"
FAULTY = "[Verse] Paper lanterns on the water\nCarry every wish we wrote\n[outro]\n"
MENDED = FAULTY.replace("] P", "]\nP")


def write(name: str, content: str | bytes) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rules_of(ran_out: str) -> list[str]:
    return [finding["rule"] for finding in json.loads(ran_out)["findings"]]


def load_script(name: str) -> object:
    path = ROOT / name
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_of_rules_is_up_to_date() -> None:
    generate = load_script("docs/generate_lint.py")
    page = generate.page()  # type: ignore[attr-defined]
    assert page == (ROOT / "docs" / "lint.md").read_text(encoding="utf-8"), "run `python docs/generate_lint.py`"


@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_rule_finds_something_in_its_example_and_says_what_to_do(rule: str) -> None:
    generate = load_script("docs/generate_lint.py")
    findings = generate.example_findings(RULES[rule])  # type: ignore[attr-defined]
    assert findings
    for finding in findings:
        assert finding.message and finding.advice and finding.file in finding.place
        assert "{" not in finding.message.replace("{bpm}", "").replace("{tempo}", "")
    assert bool(RULES[rule].fix) == any(finding.fixable for finding in findings)


def test_a_clean_file(music3: Music3) -> None:
    ran = music3("lint", write("song.txt", CLEAN))
    assert (ran.code, ran.out) == (0, "")
    assert "nothing to complain about" in ran.err


def test_a_warning_has_place_words_rule_and_advice(music3: Music3) -> None:
    ran = music3("lint", write("song.txt", FAULTY))
    assert ran.code == 4
    assert ran.out.splitlines() == [
        "song.txt:1:9: warning: the model will not see 'Paper lanterns on the water': words behind the tag [Verse] on "
        "the same line are dropped [tag-line-words]. Move them to a line of their own."
    ]
    assert "--fix mends 1" in ran.err


def test_infos_count_only_when_strict(music3: Music3) -> None:
    song = write("song.txt", CLEAN.replace("[verse]", "[verse 1]"))
    assert music3("lint", song).code == 0
    assert music3("lint", "--strict", song).code == 4


def test_json_is_one_document(music3: Music3) -> None:
    ran = music3("lint", "--json", write("song.txt", FAULTY), "missing.txt")
    content = json.loads(ran.out)
    assert ran.code == 4
    assert (content["errors"], content["warnings"], content["infos"], content["files"]) == (1, 1, 0, 2)
    assert content["findings"][0] == {
        "file": "song.txt",
        "line": 1,
        "column": 9,
        "rule": "tag-line-words",
        "severity": "warning",
        "message": "the model will not see 'Paper lanterns on the water': words behind the tag [Verse] on the same "
        "line are dropped",
        "advice": "Move them to a line of their own.",
        "words": "Paper lanterns on the water",
        "fixable": True,
    }


def test_selecting_and_ignoring(music3: Music3) -> None:
    song = write("song.txt", FAULTY.replace("[Verse]", "[Verse 1]").replace("\n[outro]\n", "\n"))
    all_rules = rules_of(music3("lint", "--json", song).out)
    assert set(all_rules) == {"tag-line-words", "tag-numbered", "lyrics-no-ending"}
    assert set(rules_of(music3("lint", "--json", "--select", "tag-*", song).out)) == {"tag-line-words", "tag-numbered"}
    assert rules_of(music3("lint", "--json", "--ignore", "tag-*,lyrics-no-ending", song).out) == []
    unknown = music3("lint", "--select", "tag-lines-word", song)
    assert unknown.code == 2
    assert "Did you mean tag-line-words?" in unknown.err


def test_fixing_keeps_the_old_file_and_mends_once(music3: Music3) -> None:
    song = write("song.txt", b"\xef\xbb\xbf" + FAULTY.replace("\n", "\r\n").encode())
    song.chmod(0o640)
    ran = music3("lint", "--fix", song)
    assert ran.code == 0
    assert song.read_text() == MENDED
    assert stat.S_IMODE(song.stat().st_mode) == 0o640
    assert Path("song.txt.bak").read_bytes().startswith(b"\xef\xbb\xbf[Verse] Paper")
    assert "tag-line-words 1" in ran.err and "text-bom 1" in ran.err
    assert music3("lint", "--fix", song).code == 0
    assert sorted(path.name for path in Path().iterdir()) == ["song.txt", "song.txt.bak"]


def test_a_second_backup_does_not_replace_the_first(music3: Music3) -> None:
    song = write("song.txt", FAULTY)
    music3("lint", "--fix", song)
    write("song.txt", FAULTY.replace("Paper", "Silver"))
    music3("lint", "--fix", song)
    assert Path("song.txt.bak").read_text() == FAULTY
    assert "Silver" in Path("song.txt.bak2").read_text()


def test_what_stays_after_fixing_is_told_and_counts(music3: Music3) -> None:
    ran = music3("lint", "--fix", "--json", write("song.txt", FAULTY.replace("water", "water (x2)")))
    assert ran.code == 4
    assert rules_of(ran.out) == ["lyrics-repeat-mark"]
    assert json.loads(ran.out)["fixed"] == [{"file": "song.txt", "rules": {"tag-line-words": 1}}]


def test_fixed_text_goes_where_it_is_sent(music3: Music3) -> None:
    song = write("song.txt", FAULTY)
    assert music3("lint", "-o", "mended.txt", song).code == 0
    assert Path("mended.txt").read_text() == MENDED
    assert music3("lint", "--fix", "-o", "-", song).out == MENDED
    assert music3("lint", "--fix", "-o", "all/", song, write("other.txt", CLEAN)).code == 0
    assert Path("all/song.txt").read_text() == MENDED and Path("all/other.txt").read_text() == CLEAN
    assert song.read_text() == FAULTY
    refused = music3("lint", "--fix", "-o", "one.txt", song, "other.txt")
    assert refused.code == 2 and "Name a folder" in refused.err and not Path("one.txt").exists()
    assert music3("lint", "--fix", "-o", "song.txt/deeper/x.txt", song).code == 7
    assert music3("lint", "--json", "-o", "-", song).code == 2


def test_a_link_stays_a_link(music3: Music3) -> None:
    song = write("real/song.txt", FAULTY)
    Path("link.txt").symlink_to(song)
    music3("lint", "--fix", "link.txt")
    assert Path("link.txt").is_symlink() and song.read_text() == MENDED


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "no file was named"),
        (["-", "-"], 2, "only once"),
        (["--kind", "poem", "x.txt"], 2, "one of lyrics, caption, preset, manifest"),
        (["--max-duration", "soon", "x.txt"], 2, "0.04 s to 6:00"),
        (["missing.txt"], 4, ""),
        (["."], 4, ""),
    ],
)
def test_wrong_usage(music3: Music3, arguments: list[str], code: int, message: str) -> None:
    ran = music3("lint", *arguments)
    assert ran.code == code
    assert message in ran.err


def test_the_ceiling_can_be_given(music3: Music3) -> None:
    song = EXAMPLES / "morning-light.txt"
    assert music3("lint", song).code == 0
    assert "lyrics-too-many-words" in music3("lint", "--max-duration", "0:30", song).out


def test_rules_are_listed(music3: Music3) -> None:
    listed = music3("lint", "--list")
    sorted_ids = [rule.id for rule in sorted_rules()]
    assert set(sorted_ids) == set(RULES)
    assert listed.code == 0
    assert [line.split("\t")[0] for line in listed.out.splitlines()] == sorted_ids
    assert [rule["id"] for rule in json.loads(music3("lint", "--list", "--json").out)] == sorted_ids


def test_no_checkpoint_is_made(music3: Music3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSIC3_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MUSIC3_CHECKPOINT", "demo")
    long = write("song.txt", "[verse]\n" + "晨光照在松树上你留在我身边\n" * 500)
    assert "prompt-near-limit" in music3("lint", long).out
    assert not (tmp_path / "cache").exists()


def test_a_caption_in_front_matter_is_found_where_it_stands(music3: Music3) -> None:
    head = "---\ntitle: Lanterns\ncaption: |\n  Warm folk with a female alto.\n  It has no drums at all.\n---\n"
    out = music3("lint", "--json", "--select", "caption-negative", write("song.txt", head + CLEAN)).out
    (finding,) = json.loads(out)["findings"]
    assert (finding["line"], finding["column"], finding["words"]) == (5, 10, "no drums")
    assert not finding["fixable"]


@pytest.mark.parametrize(
    "words",
    [
        "Solo en la noche de abril\nEl río me llama por nombre",
        "«\u202fÉté\u202f»… et le «\u202fCAFÉ»".replace("\u202f", "") + "\nLa lampe de papier s'en va",
        "He said: hold on, the bridge is gone\nAnd the chorus of the crickets sang",
        "A B C, the alphabet is free\nAm I the one who cannot see?",
        "- Cześć, powiedział wiatr do mnie\n- Cześć, odrzekłem mu spokojnie",
        "(ooh, ooh) the lanterns on the water\nCarry every wish we wrote (we wrote)",
        "Twice I called you, twice you wandered\nRepeat after me, my darling daughter",
        "می\u200cخواهم با تو باشم شب و روز\nدر این شهر دور از خانه ام هنوز",
        "👩\u200d🎤 sings about the water\nCarry every wish we wrote",
        "5 * 3 = 15 reasons to remember\nsnake_case_words and 100 % of December",
        "夜空に　光る星を数えて\n君の名前を　そっと呼ぶ",
    ],
)
def test_ordinary_lyrics_raise_nothing(words: str) -> None:
    lyrics = parse_lyrics(SourceText("song.txt", f"[verse]\n{words}\n[outro]\n"))
    assert [finding.text for finding in check_lyrics(lyrics, None)] == []


def test_any_word_behind_a_tag_is_told() -> None:
    for rest in ("x2", "repeat", "twice", "bis", "(x2)", "ad lib", "- softly", "*", "：", "[", "]"):
        lyrics = parse_lyrics(SourceText("song.txt", f"[chorus] {rest}\nPaper lanterns on the water\n[outro]\n"))
        assert [finding for finding in check_lyrics(lyrics, None) if finding.line == 1], rest


@given(st.text(max_size=80), st.sampled_from(["lyrics", "caption"]))
def test_any_text_can_be_linted_and_mended_once(text: str, kind: str) -> None:
    data = text.encode("utf-8", errors="surrogatepass")
    report = lint_text(data, f"{kind}.txt", "lyrics" if kind == "lyrics" else "caption", Options())
    for finding in report.findings:
        assert finding.message and finding.advice and RULES[finding.rule].severity == finding.severity
        assert 0 <= finding.line <= text.count("\n") + text.count("\r") + 1
    if report.text is not None:
        fix = fix_lyrics_file if kind == "lyrics" else fix_caption
        assert fix(report.text).text == report.text


@given(
    st.lists(st.sampled_from(["[verse]", "[Chorus 2]", "light ", "on", "\n", " ", "(Verse)", "x2", "[", "]", "[Am]"]))
)
def test_mending_loses_no_word(pieces: list[str]) -> None:
    """Whatever is sung before and after: mending moves words, and takes only marks, chords and section names away."""
    text = "".join(pieces)
    if not text.strip():
        return
    mended = fix_lyrics_file(text).text
    assert mended.count("light") >= text.count("light")
    assert mended.count("on") - mended.count("on)") >= text.count("on") or "chorus" in mended
    if not mended.strip():
        return  # chords and empty brackets alone
    lyrics = parse_lyrics(SourceText("", mended))
    assert not [finding for finding in check_lyrics(lyrics, None) if finding.fixable]
