"""Every kind of bad input on the command line: the documented exit code, and a message that names the thing, what was
expected and the next step. None of these needs a weight, so none of them loads torch.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Music3, Ran

DEMO = ("--checkpoint", "demo", "--talker-dtype", "fp32")
"""With the dtype named, no device is asked and torch is not needed."""

LYRICS = "[verse]\nLight on the river\n[outro]\n"


@pytest.fixture
def lyrics() -> Path:
    path = Path("song.txt")
    path.write_text(LYRICS)
    return path


def refused(ran: Ran, code: int, *parts: str) -> None:
    assert ran.code == code, ran.err
    assert ran.out == ""
    assert "Traceback" not in ran.err
    message = " ".join(ran.err.split())
    for part in parts:
        assert part in message, message
    leftovers = [path.name for path in Path().rglob("*.wav*")]
    assert leftovers == []


def test_missing_lyrics(music3: Music3, lyrics: Path) -> None:
    refused(music3("render", "sonk.txt"), 4, "sonk.txt: no such file", "Did you mean song.txt?")


def test_a_folder_instead_of_lyrics(music3: Music3) -> None:
    refused(music3("render", "."), 4, "is a folder; a text file was expected")


@pytest.mark.parametrize("content", ["", "  \n\n", "---\ntitle: x\n---\n\n"])
def test_empty_lyrics(music3: Music3, lyrics: Path, content: str) -> None:
    lyrics.write_text(content)
    refused(music3("render", lyrics), 4, "song.txt: no lyrics", "For an instrumental")


def test_unreadable_encoding(music3: Music3, lyrics: Path) -> None:
    lyrics.write_bytes("[verse]\nGrüße".encode("latin-1"))
    refused(music3("render", lyrics), 4, "song.txt:2: byte 0xfc at offset 10 is not UTF-8", "iconv")


def test_lyrics_without_permission(music3: Music3, lyrics: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)  # root reads everything, so a mode would prove nothing
    refused(music3("render", lyrics), 4, "song.txt: cannot be read (Permission denied)")


@pytest.mark.parametrize("flags", [("--caption", ""), ("--caption", " \n")])
def test_empty_caption(music3: Music3, lyrics: Path, flags: tuple[str, ...]) -> None:
    refused(music3("render", lyrics, *flags), 2, "--caption: caption", "it is empty")


def test_empty_caption_in_files(music3: Music3, lyrics: Path) -> None:
    Path("empty.txt").write_text("\n")
    refused(music3("render", lyrics, "--caption-file", "empty.txt"), 4, "empty.txt: caption", "it is empty")
    lyrics.write_text("---\ncaption: ' '\n---\nhi")
    refused(music3("render", lyrics), 4, "song.txt:2: caption", "it is empty")


def test_two_captions(music3: Music3, lyrics: Path) -> None:
    flags = ("--caption", "a", "--caption-file", "b.txt")
    refused(music3("render", lyrics, *flags), 2, "--caption and --caption-file: one of them was expected")


def test_missing_caption_file(music3: Music3, lyrics: Path) -> None:
    refused(music3("render", lyrics, "--caption-file", "nope.txt"), 4, "nope.txt: no such file")


def test_unknown_preset(music3: Music3, lyrics: Path) -> None:
    refused(
        music3("render", lyrics, "--preset", "citypop"),
        4,
        "--preset: no preset named 'citypop'",
        "Did you mean city-pop?",
    )
    lyrics.write_text("---\npreset: nope\n---\nhi")
    refused(music3("render", lyrics), 4, "song.txt:2: no preset named 'nope'", "`music3 presets list`")


@pytest.mark.parametrize("seed", ["-1", str(2**64), "abc", "1.5"])
def test_seed_out_of_range(music3: Music3, lyrics: Path, seed: str) -> None:
    refused(music3("render", lyrics, f"--seed={seed}"), 2, f"--seed: seed '{seed}'", "0 to 18446744073709551615")
    lyrics.write_text(f"---\nseed: {seed}\n---\nhi")
    refused(music3("render", lyrics), 4, "song.txt:2: seed", "0 to 18446744073709551615")


def test_takes_that_pass_the_largest_seed(music3: Music3, lyrics: Path) -> None:
    ran = music3("render", lyrics, "--checkpoint", "demo", "--seed", 2**64 - 1, "--takes", 2)
    refused(ran, 4, "--seed", "with 2 takes passes the largest seed")


@pytest.mark.parametrize("duration", ["0", "0.01", "20:00", "-3", "long"])
def test_duration_out_of_range(music3: Music3, lyrics: Path, duration: str) -> None:
    refused(music3("render", lyrics, f"--max-duration={duration}"), 2, "--max-duration: max duration", "0.04 s to 6:00")
    lyrics.write_text(f"---\nmax_duration: {duration}\n---\nhi")
    refused(music3("render", lyrics), 4, "song.txt:2: max duration", "0.04 s to 6:00")


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        ("--steps", "0", "from 1 to 1000"),
        ("--steps", "x", "from 1 to 1000"),
        ("--takes", "0", "from 1 to 1000"),
        ("--seed-scheme", "mine", "one of server, diffusers"),
        ("--talker-dtype", "fp8", "one of auto, bf16, fp32"),
        ("--precision", "fp8", "one of"),
        ("--bit-depth", "12", "one of"),
        ("--on-exists", "ask", "one of keep, overwrite, number, error"),
    ],
)
def test_flag_values(music3: Music3, lyrics: Path, flag: str, value: str, expected: str) -> None:
    refused(music3("render", lyrics, flag, value), 2, flag, expected)


def test_unknown_flag_and_command(music3: Music3, lyrics: Path) -> None:
    assert music3("render", lyrics, "--sed", "7").code == 2
    assert music3("rendr", lyrics).code == 2
    assert music3("render").code == 2


def test_standard_input_twice(music3: Music3) -> None:
    refused(music3("render", "-", "-"), 2, "standard input (-) can be read only once")


def test_too_many_prompt_tokens(music3: Music3, lyrics: Path) -> None:
    lyrics.write_text("[verse]\n" + "夜の歌を歌う\n" * 400)
    refused(
        music3("render", lyrics, "--checkpoint", "demo"),
        4,
        "song.txt: caption and lyrics make",
        "at most 5000",
        "Shorten",
    )


def test_prompt_and_frames_over_the_context(music3: Music3, lyrics: Path) -> None:
    lyrics.write_text("[verse]\n" + "夜の歌を歌う\n" * 100)
    ran = music3("render", lyrics, "--checkpoint", "demo", "--max-duration", "6:00")
    refused(ran, 4, "--max-duration: max duration 6:00 is more than the prompt of", "0.04 s to 4:", "Lower the ceiling")


def test_all_faults_at_once(music3: Music3, lyrics: Path) -> None:
    Path("empty.txt").write_text("")
    ran = music3("render", "nope.txt", lyrics, "empty.txt")
    refused(ran, 4, "nope.txt: no such file", "empty.txt: no lyrics", "2 errors")


# Output


def test_output_exists(music3: Music3, lyrics: Path) -> None:
    Path("out").mkdir()
    target = Path("out/taken.wav")
    target.write_text("mine")
    for policy, reason in (("error", "the policy is error"), ("keep", "it has no sidecar")):
        ran = music3("render", lyrics, *DEMO, "-o", target, "--on-exists", policy)
        assert ran.code == 7 and "exists" in ran.err and reason in " ".join(ran.err.split())
        assert "--on-exists overwrite or number" in " ".join(ran.err.split())
        assert target.read_text() == "mine"


def test_output_folder_is_a_file(music3: Music3, lyrics: Path) -> None:
    Path("out").write_text("")
    refused(music3("render", lyrics, *DEMO, "-o", "out/x.wav"), 7, "out: is a file; a folder was expected")


def test_output_folder_not_writable(music3: Music3, lyrics: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("locked").mkdir()
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked" and real(path, mode))
    refused(
        music3("render", lyrics, *DEMO, "-o", "locked/x.wav"),
        7,
        "locked: not writable",
        "Choose another -o",
    )


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system that takes no files")
def test_output_folder_that_cannot_be_made(music3: Music3, lyrics: Path) -> None:
    """Where even permissions lie (root may do everything), it is tried before a weight is loaded."""
    ran = music3("render", lyrics, *DEMO, "-o", "/proc/nowhere/x.wav")
    refused(ran, 7, "/proc/nowhere: not writable", "Choose another -o")
    assert "weights loaded" not in ran.err


def test_two_songs_in_one_file(music3: Music3, lyrics: Path) -> None:
    flags = ("--checkpoint", "demo", "-o", "out/{title}.wav", "--title", "Same")
    refused(music3("render", lyrics, lyrics, *flags), 7, "both song and song-2 would be written there", "{index}")
    refused(music3("render", lyrics, lyrics, "--checkpoint", "demo", "-o", "x.wav"), 2, "one file for 2 songs")


# Checkpoint


@pytest.fixture
def checkpoint(demo_root: Path) -> Path:
    """A copy of the demo checkpoint that a test may damage: small files copied, weights linked, no completion record
    (with it, sizes alone would tell some of the damage).
    """
    copy = Path("checkpoint")
    for path in demo_root.rglob("*"):
        target = copy / path.relative_to(demo_root)
        if path.name.startswith("."):
            continue
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif path.suffix == ".safetensors":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(path)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return copy


def test_no_checkpoint_anywhere(music3: Music3, lyrics: Path) -> None:
    refused(music3("render", lyrics), 5, "no checkpoint", "--checkpoint demo")


@pytest.mark.parametrize("name", ["nowhere", "./nowhere/at-all", "some/repository", "some/repository@main"])
def test_missing_checkpoint(music3: Music3, lyrics: Path, name: str) -> None:
    refused(music3("render", lyrics, "--checkpoint", name), 5, f"checkpoint {name}", "--checkpoint demo")


def test_checkpoint_from_the_environment(music3: Music3, lyrics: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSIC3_CHECKPOINT", "elsewhere")
    refused(music3("render", lyrics), 5, "checkpoint elsewhere: no such folder")


def test_native_packaging(music3: Music3, lyrics: Path) -> None:
    Path("native/qwen_7B").mkdir(parents=True)
    Path("native/dav.pth").touch()
    refused(music3("render", lyrics, "--checkpoint", "native"), 5, "native packaging", "modular")


def test_an_empty_folder(music3: Music3, lyrics: Path) -> None:
    Path("empty").mkdir()
    refused(music3("render", lyrics, "--checkpoint", "empty"), 5, "none of the folders language_model")


def edit_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def own_copy(path: Path) -> Path:
    """Replace a linked weight file by a copy."""
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    return path


def rewrite_header(path: Path, change: Callable[[dict], None]) -> None:
    """Change a weight file's header and keep its data."""
    content = own_copy(path).read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header)
    raw = json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + content[8 + length :])


def rename_tensor(header: dict) -> None:
    header["proj.extra"] = header.pop("proj.bias")


def reshape_tensor(header: dict) -> None:
    header["proj.bias"]["shape"] = [16, 2]


VOCODER = "vocoder/diffusion_pytorch_model.safetensors"
CONDITION = "condition_encoder/diffusion_pytorch_model.safetensors"
LANGUAGE_MODEL = "language_model/model-00002-of-00004.safetensors"

DAMAGE: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "component missing": (lambda c: shutil.rmtree(c / "vocoder"), ("vocoder: component missing", "again")),
    "weight file missing": (lambda c: (c / VOCODER).unlink(), (VOCODER, "missing")),
    "shard missing": (lambda c: (c / LANGUAGE_MODEL).unlink(), (LANGUAGE_MODEL, "missing")),
    "tokenizer missing": (lambda c: (c / "tokenizer/tokenizer.json").unlink(), ("tokenizer.json: missing",)),
    "config missing": (lambda c: (c / "transformer/config.json").unlink(), ("transformer/config.json: missing",)),
    "config not JSON": (lambda c: (c / "transformer/config.json").write_text("{"), ("not valid JSON",)),
    "truncated": (lambda c: os.truncate(own_copy(c / VOCODER), 20000), (VOCODER, "truncated", "fetch it again")),
    "cut in its header": (lambda c: os.truncate(own_copy(c / VOCODER), 100), (VOCODER, "header should be")),
    "empty file": (lambda c: os.truncate(own_copy(c / VOCODER), 0), (VOCODER, "0 bytes")),
    "longer": (lambda c: os.truncate(own_copy(c / VOCODER), 10**7), (VOCODER, "longer than its header says")),
    "a web page": (lambda c: own_copy(c / VOCODER).write_text("<html>Not found</html>"), (VOCODER, "header should be")),
    "tensor of another name": (
        lambda c: rewrite_header(c / CONDITION, rename_tensor),
        ("tensors missing: proj.bias", "do not belong there: proj.extra"),
    ),
    "tensor of another shape": (
        lambda c: rewrite_header(c / CONDITION, reshape_tensor),
        ("tensor proj.bias has shape [16, 2]; expected [32]",),
    ),
    "another architecture": (
        lambda c: edit_json(c / "transformer/config.json", num_layers=3),
        ("transformer: tensors missing: transformer_blocks.2",),
    ),
    "configs that disagree": (
        lambda c: edit_json(c / "vocoder/config.json", sampling_rate=48000),
        ("the configs disagree: vocoder at 48000 Hz",),
    ),
    "config without a field": (
        lambda c: (c / "vocoder/config.json").write_text("{}"),
        ("vocoder/config.json: field latent_channels is missing",),
    ),
    "config with nonsense": (
        lambda c: edit_json(c / "vocoder/config.json", latent_channels="many"),
        ("latent_channels is many; expected a positive whole number",),
    ),
    "shards swapped": (
        lambda c: (
            (c / LANGUAGE_MODEL).rename(c / "x"),
            (c / LANGUAGE_MODEL.replace("2-of", "3-of")).rename(c / LANGUAGE_MODEL),
            (c / "x").rename(c / LANGUAGE_MODEL.replace("2-of", "3-of")),
        ),
        ("swapped: holds the tensors of model-00003-of-00004.safetensors", "model-00002-of-00004.safetensors"),
    ),
    "index that leaves the folder": (
        lambda c: edit_json(
            c / "language_model/model.safetensors.index.json", weight_map={"lm_head.weight": "../../secret.safetensors"}
        ),
        ("shard '../../secret.safetensors' is not a plain file name",),
    ),
    "tokenizer of another model": (
        lambda c: (c / "tokenizer/tokenizer.json").write_text(
            (c / "tokenizer/tokenizer.json").read_text().replace("<|audio_end|>", "<|other|>")
        ),
        ("special token <|audio_end|> is missing", "151670"),
    ),
    "tokenizer with other ids": (
        lambda c: (c / "tokenizer/tokenizer.json").write_text(
            (c / "tokenizer/tokenizer.json").read_text().replace("151654", "151655")
        ),
        ("special token <|audio_cfg|> has id 151655", "151654"),
    ),
    "tokenizer that is no JSON": (
        lambda c: (c / "tokenizer/tokenizer.json").write_text("no"),
        ("tokenizer.json: not a readable tokenizer",),
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_checkpoints(music3: Music3, lyrics: Path, checkpoint: Path, kind: str) -> None:
    damage, parts = DAMAGE[kind]
    damage(checkpoint)
    refused(music3("render", lyrics, "--checkpoint", checkpoint), 5, *parts)


def test_several_damages_are_all_named(music3: Music3, lyrics: Path, checkpoint: Path) -> None:
    (checkpoint / VOCODER).unlink()
    (checkpoint / LANGUAGE_MODEL).unlink()
    refused(music3("render", lyrics, "--checkpoint", checkpoint), 5, VOCODER, LANGUAGE_MODEL, "2 errors")


def test_an_undamaged_copy_with_links_is_taken(music3: Music3, lyrics: Path, checkpoint: Path) -> None:
    """As a snapshot in the hub's cache, whose files are links."""
    ran = music3("render", lyrics, "--checkpoint", checkpoint, "--talker-dtype", "fp32", "--dry-run")
    assert ran.code == 0 and "render: new" in ran.out


def test_a_damaged_demo_is_made_again(music3: Music3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MUSIC3_CACHE", str(tmp_path / "cache"))
    assert music3("inspect", "checkpoint", "demo").code == 0
    made = next((tmp_path / "cache").glob("demo-*"))
    (made / VOCODER).unlink()
    assert music3("inspect", "checkpoint", "demo").code == 0
    assert (made / VOCODER).is_file()


def test_an_error_as_json(music3: Music3) -> None:
    ran = music3("render", "nope.txt", "--json")
    assert ran.code == 4
    assert ran.records == [{"event": "error", "message": "nope.txt: no such file", "hint": "", "exit_code": 4}]


def test_a_traceback_only_when_asked(music3: Music3) -> None:
    assert "Traceback" in music3("render", "nope.txt", "-v").err
