"""Placement as a function of the released model's sizes and of free memory."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from music3_cli.checkpoint.architecture import Architecture
from music3_cli.checkpoint.layout import COMPONENTS
from music3_cli.checkpoint.memory import sizes
from music3_cli.errors import DeviceError
from music3_cli.placement import GIB, DeviceMemory, Machine, RunLimits, decide, default_weights
from tests.conftest import ROOT

RELEASED = json.loads((ROOT / "music3_cli" / "checkpoint" / "released.json").read_text())["components"]
CONFIGS = {name: part.config.from_json(RELEASED[name]["config"], name) for name, part in COMPONENTS.items()}


def _files(name: str) -> SimpleNamespace:
    count = 0
    for shape in CONFIGS[name].shapes().values():
        product = 1
        for side in shape:
            product *= side
        count += product
    return SimpleNamespace(parameters=count, file_bytes=count * (2 if RELEASED[name]["dtype"] == "BF16" else 4))


SIZES = sizes({name: _files(name) for name in COMPONENTS}, Architecture.from_configs(CONFIGS))  # type: ignore[misc]
SONG = RunLimits.of([(1500, 6000)])
ALBUM = RunLimits.of([(1500, 6000)] * 16)
LONGEST = RunLimits.of([(1239, 9000)])


def card(gib: float, name: str = "cuda:0") -> DeviceMemory:
    return DeviceMemory(name, "card", int(gib * GIB), int(gib * GIB))


def machine(gib: float, host: float = 64, acoustic: DeviceMemory | None = None) -> Machine:
    return Machine(card(gib), (acoustic or card(gib),), int(host * GIB), 16)


@pytest.mark.parametrize(
    ("gib", "weights", "kind", "songs"),
    [
        (139.7, "full", "resident", 16),
        (79.2, "full", "resident", 16),
        (47.4, "full", "resident", 7),
        (23.6, "full", "swap", 3),
        (15.6, "int8", "swap", 3),
        (11.8, "int8", "swap", 1),
    ],
)
def test_cards(gib: float, weights: str, kind: str, songs: int) -> None:
    """What each size of card does with sixteen four-minute songs."""
    assert default_weights(SIZES, card(gib)) == weights
    placement = decide(SIZES, ALBUM, machine(gib), weights)
    assert (placement.kind, placement.songs) == (kind, songs)
    assert weights == "full" or "in int8" in placement.text


def test_a_card_of_8_gib_is_refused_with_what_is_missing() -> None:
    with pytest.raises(DeviceError, match=r"cuda:0: 1\d\.\d GiB are needed .* 7\.8 GiB are free .* missing") as refused:
        decide(SIZES, SONG, machine(7.8), "int8")
    assert refused.value.exit_code == 6


def test_full_weights_on_a_card_that_is_too_small_name_int8() -> None:
    with pytest.raises(DeviceError) as refused:
        decide(SIZES, SONG, machine(15.6), "full")
    assert "--talker-weights int8" in refused.value.hint


def test_the_longest_song_fits_where_a_card_of_12_gib_is_free() -> None:
    assert decide(SIZES, LONGEST, machine(12), "int8").kind == "swap"


def test_float16_products_need_copies_or_nothing_but_them() -> None:
    lengths = [(1500, 6000)]
    mixed = decide(SIZES, RunLimits.of(lengths, ["fp16", "tf32"]), machine(23.6))
    alone = decide(SIZES, RunLimits.of(lengths, ["fp16"]), machine(11.8), "int8")
    plain = decide(SIZES, RunLimits.of(lengths, ["tf32"]), machine(11.8), "int8")
    assert (mixed.acoustic_weights, alone.acoustic_weights, plain.acoustic_weights) == ("fp32", "fp16", "fp32")
    assert alone.acoustic_bytes < plain.acoustic_bytes < mixed.acoustic_bytes
    with pytest.raises(DeviceError):
        decide(SIZES, RunLimits.of(lengths, ["fp16", "fp32"]), machine(11.8), "int8")


def test_tf32_songs_among_others_have_matrices_of_their_own() -> None:
    lengths = [(1500, 6000)]

    def placed(*precisions: str) -> int:
        return decide(SIZES, RunLimits.of(lengths, precisions), replace(machine(80), rounds_tf32=True)).acoustic_bytes

    alone, exact = placed("tf32"), placed("fp32")
    assert alone == exact == decide(SIZES, RunLimits.of(lengths, ["tf32", "fp32"]), machine(80)).acoustic_bytes
    assert placed("tf32", "fp32") == alone + 2 * SIZES.half


def test_two_devices_need_less_of_each() -> None:
    split = decide(SIZES, SONG, machine(23.6, acoustic=card(15.6, "cuda:1")))
    assert (split.kind, split.acoustic_devices) == ("split", ("cuda:1",))
    with pytest.raises(DeviceError):
        decide(SIZES, SONG, machine(23.6, acoustic=card(7.8, "cuda:1")))


@pytest.mark.parametrize(("host", "kept"), [(128, "host"), (48, "host"), (24, "disk"), (0, "disk")])
def test_absent_weights_wait_where_they_fit(host: float, kept: str) -> None:
    placement = decide(SIZES, SONG, machine(23.6, host))
    assert (placement.kind, placement.weights_kept) == ("swap", kept)


def test_a_group_is_no_larger_than_the_host_can_hold() -> None:
    many = RunLimits.of([(1500, 6000)] * 200)
    groups = [decide(SIZES, many, machine(23.6, host)).group for host in (8, 24, 64, 512)]
    assert groups == sorted(groups) and groups[0] >= 1 and groups[-1] == 64


def test_what_the_user_wants_is_done() -> None:
    assert decide(SIZES, SONG, machine(139.7), kind="swap").kind == "swap"
    with pytest.raises(DeviceError):
        decide(SIZES, SONG, machine(23.6), kind="resident")


@given(st.floats(6, 200), st.integers(1, 40), st.sampled_from(["full", "int8"]))
def test_every_placement_fits_and_steps_down_to_an_end(gib: float, songs: int, weights: str) -> None:
    limits = RunLimits.of([(1500, 6000)] * songs)
    try:
        placement = decide(SIZES, limits, machine(gib), weights)
    except DeviceError:
        return
    need = placement.talker_bytes + placement.songs * placement.song_bytes
    if placement.kind == "resident":
        need += placement.acoustic_bytes + placement.work_bytes
    assert need <= gib * GIB
    assert 1 <= placement.songs <= min(16, songs)
    steps = 0
    while (smaller := placement.smaller()) is not None:
        assert smaller.songs < placement.songs or (placement.kind, smaller.kind) == ("resident", "swap")
        placement, steps = smaller, steps + 1
    assert placement.kind in ("swap", "split") and placement.songs == 1 and steps <= 4


def test_int8_halves_the_layers() -> None:
    assert 7.0 < SIZES.talker["int8"] / GIB < 8.5 < 14 < SIZES.talker["full"] / GIB < 15.5
