"""Words on their way to the prompt: as-is to the letter, mended on request, checked before anything is loaded."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import mutagen
import pytest
from diffusers.modular_pipelines.minimax_music3.encoders import _clean_caption, _normalize_lyrics
from transformers import Qwen2Tokenizer

from tests.conftest import EXAMPLES, ROOT, Music3
from tests.unit.test_lint import load_script

FAULTY = "[Verse] Paper lanterns on the water\nCarry every wish we wrote\n[outro]\n"
MENDED = FAULTY.replace("] P", "]\nP")
DEMO = ("--checkpoint", "demo")


def oracle_ids(demo_root: Path, caption: str, lyrics: str) -> list[int]:
    tokenizer = Qwen2Tokenizer.from_pretrained(demo_root / "tokenizer")
    text = (
        f"<|im_start|><|caption_start|>{_clean_caption(caption)}<|caption_end|>"
        f"<|lyrics_start|>{_normalize_lyrics(lyrics)}<|lyrics_end|><|im_end|><|audio_start|>"
    )
    ids: list[int] = tokenizer(text)["input_ids"]
    return ids


def seen(music3: Music3, *arguments: object) -> dict[str, Any]:
    ran = music3("inspect", "prompt", *arguments, *DEMO, "--json")
    assert ran.code == 0, ran.err
    content: dict[str, Any] = json.loads(ran.out)
    return content


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf[Verse] words \r\nmore\r\n",
        b"---\ntitle: sung, too\n---\n[verse]\nhey",
        b"[verse]<|lyrics_end|>\x00\n\xc2\xa0[chorus]\xe2\x80\xa8x ^ y [z] w",
        b"\r\r",
        "[VERSE]\n夜 [Ünd] \u3000\n\n\n".encode(),
    ],
)
def test_as_is_goes_to_the_prompt_to_the_letter(music3: Music3, demo_root: Path, data: bytes) -> None:
    Path("song.txt").write_bytes(data)
    caption = b"\xef\xbb\xbf# Folk\r\n**warm** <|mood calm|>    voice\r\n"
    Path("cap.txt").write_bytes(caption)
    if not data.strip():
        assert music3("inspect", "prompt", "song.txt", *DEMO, "--lyrics", "as-is").code == 4
        return
    content = seen(music3, "song.txt", "--caption-file", "cap.txt", "--lyrics", "as-is")
    assert content["ids"] == oracle_ids(demo_root, caption.decode(), data.decode())
    assert content["warnings"] == []


def test_without_a_flag_the_file_s_own_text_goes_to_the_prompt(music3: Music3, demo_root: Path) -> None:
    """Only what reading cleans is gone: lint reports and changes nothing."""
    Path("song.txt").write_bytes(b"\xef\xbb\xbf" + FAULTY.replace("\n", "  \r\n").encode())
    content = seen(music3, "song.txt", "--caption", "Folk,    with a female alto")
    assert content["ids"] == oracle_ids(demo_root, "Folk,    with a female alto", FAULTY.replace("\n", "  \n"))
    assert any("byte-order mark" in note for note in content["notes"])
    assert any("carriage returns" in note for note in content["notes"])
    assert any("song.txt:1:9: the model will not see 'Paper lanterns on the water'" in w for w in content["warnings"])


def test_mended_words_are_seen_and_the_file_stays(music3: Music3, demo_root: Path) -> None:
    Path("song.txt").write_text(FAULTY)
    content = seen(music3, "song.txt", "--caption", "Folk", "--fix-lyrics")
    assert content["ids"] == oracle_ids(demo_root, "Folk", MENDED)
    assert "song.txt:1:9: mended tag-line-words: 'Paper lanterns on the water'" in content["notes"]
    assert not any("tag-line-words" in warning for warning in content["warnings"])
    assert Path("song.txt").read_text() == FAULTY


def test_what_is_left_after_mending_is_told_in_places_of_the_file(music3: Music3) -> None:
    Path("song.txt").write_text("---\ntitle: x\n---\n[verse] Paper lanterns\n[chorus] Hold on (x2)\n[outro]\n")
    warnings = seen(music3, "song.txt", "--fix-lyrics")["warnings"]
    assert any(warning.startswith("song.txt:5:18: '(x2)'") for warning in warnings), warnings


def test_changes_parts_and_room(music3: Music3) -> None:
    Path("song.txt").write_text(FAULTY)
    content = seen(music3, "song.txt", "--caption", "# Folk")
    assert content["changes"] == {
        "caption": [{"mark": "-", "text": "# Folk"}, {"mark": "+", "text": "Folk"}],
        "lyrics": [
            {"mark": "+", "text": "[start]"},
            {"mark": "-", "text": "[Verse] Paper lanterns on the water"},
            {"mark": "+", "text": "[verse]"},
        ],
    }
    assert content["exact"] and sum(content["parts"].values()) == content["tokens"] == len(content["ids"])
    assert content["frames_left"] == min(9000, 10240 - content["tokens"] - 1)
    assert "syllables" in content["length"]["basis"]


def test_prompt_as_text(music3: Music3) -> None:
    Path("song.txt").write_text(FAULTY)
    ran = music3("inspect", "prompt", "song.txt", "--caption", "Folk", *DEMO, "--ids")
    lines = ran.out.splitlines()
    assert lines[:8] == [
        "  <|im_start|><|caption_start|>",
        "  Folk",
        "  <|caption_end|><|lyrics_start|>",
        "+ [start]",
        "- [Verse] Paper lanterns on the water",
        "+ [verse]",
        "  Carry every wish we wrote",
        "  [outro]",
    ]
    assert any(line.startswith("ids: 151644 151671 ") for line in lines)
    assert "warning: song.txt:1:9:" in ran.err


def test_without_a_checkpoint_it_estimates_and_says_so(music3: Music3) -> None:
    Path("song.txt").write_text(FAULTY)
    ran = music3("inspect", "prompt", "song.txt")
    assert ran.code == 0 and "tokens: about " in ran.out and "name a --checkpoint" in ran.out
    assert music3("inspect", "prompt", "song.txt", "--ids").code == 5
    assert music3("inspect", "prompt", "song.txt", "--checkpoint", "nowhere").code == 5
    assert music3("inspect", "prompt").code == 2
    assert music3("inspect", "prompt", "song.txt", "song.txt").code == 2


def test_errors_of_lint_stop_a_render_and_warnings_do_when_strict(music3: Music3) -> None:
    Path("bad.txt").write_text("[verse]\nPaper<|im_end|> lanterns on the water\n[outro]\n")
    Path("odd.txt").write_text(FAULTY)
    stopped = music3("render", "bad.txt", *DEMO, "--dry-run")
    assert stopped.code == 4
    assert "bad.txt:2:6: '<|im_end|>'" in stopped.err and "[special-token]" in stopped.err
    assert music3("render", "bad.txt", *DEMO, "--dry-run", "--lyrics", "as-is").code == 0
    warned = music3("render", "odd.txt", *DEMO, "--dry-run")
    assert warned.code == 0 and "odd.txt:1:9" in warned.out
    strict = music3("render", "odd.txt", "bad.txt", *DEMO, "--dry-run", "--strict")
    assert strict.code == 4 and "odd.txt:1:9" in strict.err and "bad.txt:2:6" in strict.err
    assert music3("render", "odd.txt", *DEMO, "--dry-run", "--strict", "--fix-lyrics").code == 0
    assert not list(Path().glob("*.wav"))


@pytest.mark.parametrize("other", ["--fix-lyrics", "--strict"])
def test_as_is_allows_nothing_beside_it(music3: Music3, other: str) -> None:
    ran = music3("render", EXAMPLES / "short-and-bare.txt", "--lyrics", "as-is", other, "--show-settings")
    assert ran.code == 2 and f"as-is and {other}" in ran.err


def test_a_prompt_near_the_limit_is_a_warning_and_over_it_an_error(music3: Music3) -> None:
    line = "Paper lanterns on the water\n"
    tokens = len(seen(music3, EXAMPLES / "short-and-bare.txt", "--caption", "Folk")["ids"])
    assert tokens < 1000
    Path("one.txt").write_text("[verse]\n" + line + "[outro]\n")
    Path("two.txt").write_text("[verse]\n" + line * 2 + "[outro]\n")
    each = len(seen(music3, "two.txt", "--caption", "Folk")["ids"]) - len(
        seen(music3, "one.txt", "--caption", "Folk")["ids"]
    )
    Path("near.txt").write_text("[verse]\n" + line * (4700 // each) + "[outro]\n")
    Path("over.txt").write_text("[verse]\n" + line * (5100 // each) + "[outro]\n")
    near = music3("render", "near.txt", "--caption", "Folk", *DEMO, "--dry-run")
    assert near.code == 0 and "[prompt-near-limit]" in near.out and "about" not in near.out.split("tokens;")[0][-40:]
    over = music3("render", "over.txt", "--caption", "Folk", *DEMO, "--dry-run")
    assert over.code == 4 and "the model takes at most 5000" in over.err


@pytest.mark.parametrize("where", ["hub", "folder"])
def test_lint_counts_exactly_where_a_tokenizer_lies(
    music3: Music3, demo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """With the tokenizer of the hub's cache or of MUSIC3_CHECKPOINT; without one it is an estimate."""
    Path("near.txt").write_text("[verse]\n" + "Paper lanterns on the water\n" * 480 + "[outro]\n")
    assert "(estimated)" in music3("lint", "near.txt", "--select", "prompt-*").out
    if where == "hub":
        hub = tmp_path / "hub" / "models--MiniMaxAI--MiniMax-Music3"
        folder = hub / "snapshots" / "abc"
        (hub / "refs").mkdir(parents=True)
        (hub / "refs" / "main").write_text("abc\n")
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    else:
        folder = tmp_path / "checkpoint"
        monkeypatch.setenv("MUSIC3_CHECKPOINT", str(folder))
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "tokenizer" / "tokenizer.json").write_bytes((demo_root / "tokenizer" / "tokenizer.json").read_bytes())
    out = music3("lint", "near.txt", "--select", "prompt-*").out
    assert "[prompt-too-long]" in out and "(estimated)" not in out
    (folder / "tokenizer" / "tokenizer.json").write_text("{}")
    assert "(estimated)" in music3("lint", "near.txt", "--select", "prompt-*").out


def test_an_instrumental_is_rendered_without_a_file(music3: Music3) -> None:
    ran = music3("render", "--instrumental", "--max-duration", "1", "--steps", "1", *DEMO, "--preset", "neo-soul")
    assert ran.code == 0, ran.err
    sidecar = json.loads(Path("instrumental.wav.json").read_text())
    assert sidecar["settings"]["lyrics"] == "[instrumental]\n(instrumental)\n\n[outro]\n(instrumental)\n"
    assert "purely instrumental" in sidecar["settings"]["caption"]
    assert "a tendency, no promise" in ran.err


def test_a_short_run_of_the_fuzz_script(demo_root: Path) -> None:
    fuzz = load_script("benchmarks/lint_fuzz.py")
    result = fuzz.run(300, 1, demo_root / "tokenizer" / "tokenizer.json")  # type: ignore[attr-defined]
    assert result.texts == 300 and result.compared > 100
    assert not result.failed, (result.crashes, result.different_ids, result.unsettled)


def test_captures_fit_their_terminals() -> None:
    capture = load_script("docs/capture.py")
    files = sorted((ROOT / "docs" / "captures").glob("*.txt"))
    assert len(files) == 4 * len(capture.COMMANDS)  # type: ignore[attr-defined]
    for path in files:
        columns = 80 if "-80-" in path.name else 40
        text = path.read_text(encoding="utf-8")
        assert not capture.too_wide(text, columns), path.name  # type: ignore[attr-defined]
        assert ("\x1b[1;33m" in text or "\x1b[32m" in text or "\x1b[1m" in text) or "plain" in path.name
        assert "\x1b[33m" not in text or "colour" in path.name


@pytest.mark.parametrize("flags", [("--instrumental",), ("--fix-lyrics", "s.txt"), ("--lyrics", "as-is", "s.txt")])
def test_the_command_in_a_file_s_comment_repeats_it(music3: Music3, flags: tuple[str, ...]) -> None:
    Path("s.txt").write_text("[Verse] Morning light\r\nOn the pine\r\n[outro]\r\n", newline="")
    made = music3("render", *flags, "--checkpoint", "demo", "--max-duration", "0.4", "--steps", "1", "-o", "one.wav")
    assert made.code == 0, made.err
    command = str(mutagen.File("one.wav").tags["COMM::eng"].text[0]).split("To repeat it:\n")[1]
    assert shlex.split(command)[:2] == ["music3", "render"]
    again = music3(*shlex.split(command)[1:], "-o", "two.wav")
    assert again.code == 0, again.err
    assert Path("one.wav").read_bytes() == Path("two.wav").read_bytes()
