"""Codes kept and rendered from: what is equal to the bit, what is equal up to rounding, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from music3_cli.song.codes import codes_path, read_codes, write_codes
from music3_cli.talker.forcing import forced_hiddens
from tests.conftest import Music3
from tests.support.stages import Stages, load_stages

FRAMES = 210  # two windows
COMMON = ("--checkpoint", "demo", "--steps", 2, "--no-progress", "--bit-depth", "float")
SONG = ("song.txt", "--caption", "A slow folk song.", "--seed", 5, "--max-duration", FRAMES / 25)


def ok(music3: Music3, *args: object) -> None:
    ran = music3(*args)
    assert ran.code == 0, ran.err


@pytest.fixture
def kept(music3: Music3, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`kept(scheme)`: a finished song with its codes, copied into the test's folder; rendered once a scheme."""

    def get(scheme: str = "server") -> Path:
        store = tmp_path_factory.getbasetemp() / f"kept-{scheme}"
        Path("song.txt").write_text("[verse]\nLight on the river\n")
        if not store.exists():
            ok(music3, "render", *SONG, *COMMON, "--seed-scheme", scheme, "--keep-codes", "-o", "first.wav")
            store.mkdir()
            for path in Path().glob("first.wav*"):
                shutil.copy(path, store)
        for path in store.iterdir():
            shutil.copy(path, Path())
        return Path("first.wav")

    return get


def samples(path: str | Path) -> np.ndarray:
    return soundfile.read(path, dtype="float32")[0]


def sidecar(path: str | Path) -> dict[str, Any]:
    return json.loads(Path(f"{path}.json").read_text())


@pytest.mark.parametrize("scheme", ["server", "diffusers"])
def test_exact_is_the_first_render_to_the_bit(music3: Music3, kept: Callable[[str], Path], scheme: str) -> None:
    first = kept(scheme)
    ok(music3, "render", "--from-codes", codes_path(first), "--exact", *COMMON, "-o", "again.wav", "--keep-codes")
    assert np.array_equal(samples("again.wav"), samples(first))
    assert read_codes(codes_path(Path("again.wav"))).digest == read_codes(codes_path(first)).digest


@pytest.mark.parametrize("scheme", ["server", "diffusers"])
def test_from_codes_is_the_first_render_up_to_rounding(
    music3: Music3, kept: Callable[[str], Path], scheme: str
) -> None:
    first = kept(scheme)
    ok(music3, "render", "--from-codes", codes_path(first), *COMMON, "-o", "again.wav")
    difference = np.abs(samples("again.wav") - samples(first))
    assert difference.max() < 1e-4 and np.abs(samples(first)).max() > 0.05
    again, whole = sidecar("again.wav"), sidecar(first)
    assert again["key"] != whole["key"] and again["settings"]["teacher_forcing"] == "prefill"
    assert again["result"]["frames"] == FRAMES and again["result"]["finish_reason"] == whole["result"]["finish_reason"]


def test_other_acoustic_settings_are_those_of_a_whole_render(music3: Music3, kept: Callable[[str], Path]) -> None:
    first = kept("server")
    changes = ("--steps", 3, "--guidance", 2.5, "--noise-seed", 77)
    flags = (*COMMON[:2], *COMMON[4:], *changes)
    ok(music3, "render", *SONG, *flags, "-o", "whole.wav")
    ok(music3, "render", "--from-codes", codes_path(first), "--exact", *flags, "-o", "exact.wav")
    ok(music3, "render", "--from-codes", codes_path(first), *flags, "-o", "fast.wav")
    assert np.array_equal(samples("exact.wav"), samples("whole.wav"))
    assert np.abs(samples("fast.wav") - samples("whole.wav")).max() < 1e-4
    assert np.abs(samples("whole.wav") - samples(first)).max() > 0.01


def test_names_come_along_and_flags_are_stronger(music3: Music3, kept: Callable[[str], Path]) -> None:
    flags = (*COMMON[:2], *COMMON[4:], "--steps", 1)
    names = ("--title", "Night", "--artist", "Someone", "--track", 3)
    ok(music3, "render", "--from-codes", codes_path(kept("server")), *flags, *names, "--keep-codes", "-o", "b.wav")
    ok(music3, "render", "--from-codes", codes_path(Path("b.wav")), *flags, "--title", "Day", "-o", "c.wav")
    song = sidecar("c.wav")["song"]
    assert (song["title"], song["artist"], song["track"], song["seed"]) == ("Day", "Someone", "3", 5)


def test_the_default_name_does_not_replace_the_first_render(music3: Music3, kept: Callable[[str], Path]) -> None:
    first = kept("server")
    before = first.read_bytes()
    ran = music3("render", "--from-codes", codes_path(first), "--checkpoint", "demo", "--no-progress")
    assert ran.code == 7 and "first.wav: exists" in ran.err and first.read_bytes() == before
    ran = music3("render", "--from-codes", codes_path(first), "--checkpoint", "demo", "--show-settings", "--json")
    shown = json.loads(ran.out)["first"]
    assert shown["steps"] == {"value": 2, "source": str(codes_path(first))} and shown["seed"]["value"] == 5


def test_keep_codes_finds_out_what_is_missing(music3: Music3, kept: Callable[[str], Path]) -> None:
    first = kept("server")
    again = ("render", *SONG, *COMMON, "--seed-scheme", "server", "--keep-codes", "-o", first, "--dry-run", "--json")
    assert music3(*again).records[0]["songs"][0]["action"] == "keep"
    codes = codes_path(first).read_bytes()
    codes_path(first).write_bytes(codes[:-1] + b"\xff")
    assert music3(*again).records[0]["songs"][0]["action"] == "render"
    codes_path(first).unlink()
    planned = music3(*again).records[0]["songs"][0]
    assert (planned["action"], planned["reason"]) == ("render", "finished, but without its codes")
    ok(music3, *again[:-2])
    assert codes_path(first).read_bytes() == codes  # the same song, the same codes file
    # Another song under the same name takes the codes along.
    again = ("render", *SONG, *COMMON, "--seed", 77, "--on-exists", "overwrite", "-o", first)
    ok(music3, *again)
    assert read_codes(codes_path(first)).record["settings"]["seed"] == 77


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--seed", 1), "--noise-seed"),
        (("--caption", "x"), "--caption"),
        (("--takes", 2), "--takes"),
        (("--max-duration", 3), "--max-duration"),
        (("--preset", "default"), "--preset"),
        (("--seed-scheme", "server"), "--seed-scheme"),
        (("--exact", "--talker-dtype", "bf16"), "--exact"),
    ],
)
def test_flags_that_need_other_codes_are_usage_errors(
    music3: Music3, kept: Callable[[str], Path], flags: tuple[object, ...], message: str
) -> None:
    ran = music3("render", "--from-codes", codes_path(kept("server")), *flags, "--checkpoint", "demo")
    assert ran.code == 2 and message in ran.err


def test_lyrics_and_codes_do_not_mix(music3: Music3, kept: Callable[[str], Path]) -> None:
    assert music3("render", "song.txt", "--from-codes", codes_path(kept("server"))).code == 2
    assert music3("render", "song.txt", "--exact").code == 2
    assert music3("render").code == 2


def test_another_checkpoints_codes_are_refused_before_loading(music3: Music3, kept: Callable[[str], Path]) -> None:
    path = codes_path(kept("server"))
    codes = read_codes(path)
    record = {name: value for name, value in codes.record.items() if name not in ("version", "digest", "finish_reason")}
    write_codes(path, codes, {**record, "checkpoint": {"name": "elsewhere", "digest": "0" * 64}})
    ran = music3("render", "--from-codes", path, "--checkpoint", "demo", "-o", "x.wav", "--no-progress")
    assert ran.code == 4 and "elsewhere" in ran.err and "weights loaded" not in ran.err
    assert not Path("x.wav").exists()


def test_a_damaged_codes_file_is_an_input_error(music3: Music3, kept: Callable[[str], Path]) -> None:
    path = codes_path(kept("server"))
    path.write_bytes(path.read_bytes()[:-8])
    ran = music3("render", "--from-codes", path, "--checkpoint", "demo", "-o", "x.wav")
    assert ran.code == 4 and str(path) in ran.err


def drawn_and_forced(stages: Stages, frames: int) -> tuple[torch.Tensor, torch.Tensor]:
    song = stages.song(frames, seed=3)
    stages.talk([song])
    steps = torch.tensor([song.priming, *song.codes])
    with torch.inference_mode():
        forced = torch.cat(list(forced_hiddens(stages.talker.talker, song.ids, steps)))
        return song.frame_hiddens().unflatten(1, (8, -1)), forced


@pytest.mark.parametrize("frames", [1, 2, 60])
def test_forced_hiddens_are_the_drawn_ones_up_to_rounding(stages: Stages, frames: int) -> None:
    drawn, forced = drawn_and_forced(stages, frames)
    assert forced.shape == drawn.shape == (frames, 8, drawn.shape[2])
    assert (forced - drawn).abs().max() < 2e-5


def test_forced_hiddens_in_bf16_differ_by_its_rounding(demo_root: Path) -> None:
    drawn, forced = drawn_and_forced(load_stages(demo_root, dtype=torch.bfloat16), 40)
    error = (forced.float() - drawn.float()).norm() / drawn.float().norm()
    assert 0 < error < 0.03
