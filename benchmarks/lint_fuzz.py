"""Lint and the prompt's exactness on generated texts: no crash, as-is ids equal to diffusers', mending settles.

    python benchmarks/lint_fuzz.py --count 100000

A third of the texts is random bytes, a third is drawn from pieces that matter to the contract (tags, brackets, marks,
odd characters), a third is a corpus case with random damage. For every text: lint as lyrics, as a caption and as each
kind of manifest never raises; mending is idempotent; and where the bytes are UTF-8, the ids of `--lyrics as-is` equal
those of diffusers' `_clean_caption` and `_normalize_lyrics` under the demo checkpoint's tokenizer as transformers
loads it. Needs the extra `test`.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from diffusers.modular_pipelines.minimax_music3.encoders import _clean_caption, _normalize_lyrics
from transformers import Qwen2Tokenizer

from music3_cli.checkpoint.locate import find_checkpoint
from music3_cli.errors import InputError
from music3_cli.song.lint.check import fix_caption, fix_lyrics_file
from music3_cli.song.lint.files import Kind, Options, lint_text
from music3_cli.song.lyrics import as_is_lyrics
from music3_cli.song.prompt import PromptTokenizer
from music3_cli.song.text import decode_text

CORPUS = Path(__file__).parents[1] / "tests" / "corpus" / "lint" / "cases.yaml"
CAPTION = "Warm indie folk with a female alto, 90 BPM, in D major."
PIECES = (
    *(
        "[verse]",
        "[Chorus 2]",
        "[",
        "]",
        "[[",
        "]]",
        "[]",
        "[ ]",
        "(Verse)",
        "【副歌】",
        "［",
        "］",
        "Verse:",
        "Chorus x2",
    ),
    *(
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "\t",
        " ",
        "    ",
        "  ",
        "\u00a0",
        "\u3000",
        "\u200b",
        "\u200d",
        "\ufeff",
        "\u2028",
        "\x85",
    ),
    *(" ^ ", "] ", " [", "• ", "---\n", "***", "**bold**", "*it*", "# ", "- ", "* ", "> ", "`", "__x__", "~~y~~"),
    *(
        "<|im_end|>",
        "<|lyrics_end|>",
        "<|mood calm|>",
        "<|",
        "|>",
        "<|<|im_end|>|>",
        "<br>",
        "&amp;",
        "&#0;",
        "&#xd800;",
    ),
    *("[00:12.3]", "[ti:x]", "[Am]", "C G7", "x2", "Title: a\n", "title: b\n", "seed: 3\n", "caption: |\n  words\n"),
    *("songs:", "  - lyrics_text: ", '{"songs": [', '{"lyrics": "a"}', "]}", '"', "'", "lyrics,caption\n", ",", ":"),
    *(
        "morning",
        "light",
        "sing",
        "a",
        "Ω",
        "é",
        "e\u0301",
        "Ã©",
        "â€™",
        "\ufffd",
        "夜",
        "の",
        "밤",
        "ночь",
        "ليل",
        "😀",
        "👩‍🎤",
    ),
    *("\x00", "\x07", "\x1b[1m", "{bpm}", "no drums", "9" * 30, "!!int", "&a", "*a", "%", "\\"),
)
KINDS: tuple[tuple[Kind, str], ...] = (
    ("lyrics", "song.txt"),
    ("caption", "caption.txt"),
    ("preset", "preset.yaml"),
    ("manifest", "songs.yaml"),
    ("manifest", "songs.json"),
    ("manifest", "songs.jsonl"),
    ("manifest", "songs.csv"),
)


@dataclass
class Result:
    """What was tried, and what went wrong (texts, at most ten of a kind)."""

    texts: int = 0
    compared: int = 0
    lint_seconds: list[float] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)
    different_ids: list[str] = field(default_factory=list)
    unsettled: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return bool(self.crashes or self.different_ids or self.unsettled)


class Texts:
    """An endless stream of odd texts, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._cases = [case["text"] for case in yaml.safe_load(CORPUS.read_text(encoding="utf-8"))]

    def next(self) -> bytes:
        dice = self._random
        match dice.randrange(3):
            case 0:
                return dice.randbytes(dice.randrange(120))
            case 1:
                return "".join(dice.choices(PIECES, k=dice.randrange(1, 40))).encode()
            case _:
                text = list(dice.choice(self._cases))
                for _ in range(dice.randrange(1, 8)):
                    place = dice.randrange(len(text) + 1)
                    if dice.random() < 0.5:
                        text[place : place + dice.randrange(4)] = []
                    else:
                        text.insert(place, dice.choice(PIECES))
                return "".join(text).encode()


def run(count: int, seed: int, tokenizer_file: Path) -> Result:
    """Try `count` texts under the tokenizer of `tokenizer_file`."""
    ours, theirs = PromptTokenizer.from_file(tokenizer_file), Qwen2Tokenizer.from_pretrained(tokenizer_file.parent)
    texts, result = Texts(seed), Result()
    for _ in range(count):
        data = texts.next()
        result.texts += 1
        try:
            _lint(data, result)
            _compare(data, ours, theirs, result)
        except Exception as error:  # what a crash is made of is the point
            _add(result.crashes, f"{type(error).__name__}: {error}: {data!r}")
    return result


def _lint(data: bytes, result: Result) -> None:
    for kind, name in KINDS:
        started = time.perf_counter()
        report = lint_text(data, name, kind, Options())
        if kind == "lyrics":
            result.lint_seconds.append(time.perf_counter() - started)
        if report.text is not None:
            fix = fix_lyrics_file if kind == "lyrics" else fix_caption
            if fix(report.text).text != report.text:
                _add(result.unsettled, f"{kind}: {data!r}")


def _compare(data: bytes, ours: PromptTokenizer, theirs: Qwen2Tokenizer, result: Result) -> None:
    try:
        text = as_is_lyrics(decode_text(data, "", as_is=True)).text
    except InputError:
        return
    result.compared += 1
    for caption, lyrics in ((CAPTION, text), (text, "[verse]\nmorning light")):
        wanted = (
            f"<|im_start|><|caption_start|>{_clean_caption(caption)}<|caption_end|>"
            f"<|lyrics_start|>{_normalize_lyrics(lyrics)}<|lyrics_end|><|im_end|><|audio_start|>"
        )
        if list(ours.prompt(caption, lyrics).ids) != theirs(wanted)["input_ids"]:
            _add(result.different_ids, repr(text))


def _add(found: list[str], text: str) -> None:
    if len(found) < 10:
        found.append(text)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tokenizer_file = find_checkpoint("demo").tokenizer_file
    started = time.perf_counter()
    result = run(options.count, options.seed, tokenizer_file)
    times = sorted(result.lint_seconds)
    say(f"{result.texts} texts in {time.perf_counter() - started:.0f} s, seed {options.seed}")
    say(f"crashes: {len(result.crashes)}")
    different = len(result.different_ids)
    say(f"as-is ids against diffusers: {result.compared} texts, as lyrics and as caption; different: {different}")
    say(f"mending not settled: {len(result.unsettled)}")
    say(
        f"lint of a file, ms: median {1e3 * statistics.median(times):.3f}, "
        f"99th of 100 {1e3 * times[len(times) * 99 // 100]:.3f}, most {1e3 * times[-1]:.3f}"
    )
    for text in (*result.crashes, *result.different_ids, *result.unsettled):
        say(f"  {text}")
    raise SystemExit(result.failed)


if __name__ == "__main__":
    main()
