"""Both random schemes against published vectors."""

from __future__ import annotations

import json

import pytest
import torch

from music3_cli.randomness import (
    ReferenceRandomness,
    ServerDraws,
    ServerRandomness,
    gumbel,
    murmur3,
    talker_seed,
    window_seed,
)
from tests.conftest import ROOT
from tests.support.devices import DEVICES

VECTORS = json.loads((ROOT / "tests" / "data" / "seed_vectors.json").read_text())


def test_seeds_of_talker_and_windows() -> None:
    assert {seed: talker_seed(int(seed)) for seed in VECTORS["talker_seed"]} == VECTORS["talker_seed"]
    for vector in VECTORS["window_seed"]:
        assert window_seed(vector["seed"], vector["window"]) == vector["value"]


@pytest.mark.parametrize("device", DEVICES)
def test_hashes(device: str) -> None:
    vectors = VECTORS["hash"]
    seed, position, column = (
        torch.tensor([vector[name] for vector in vectors], device=device) for name in ("seed", "position", "column")
    )
    hashed = murmur3((seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF, position, column), column)
    assert hashed.tolist() == [vector["value"] for vector in vectors]


@pytest.mark.parametrize("device", DEVICES)
def test_gumbel_noise(device: str) -> None:
    for vector in VECTORS["gumbel"]:
        seed, position = (torch.tensor([vector[name]], device=device) for name in ("seed", "position"))
        noise = gumbel(seed, position, vector["column"] + 1)[0, vector["column"]].item()
        assert noise == pytest.approx(vector["value"], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_draws(device: str) -> None:
    for vector in VECTORS["draws"]:
        seed, position = vector["public_seed"], vector["position"]
        logits = torch.tensor([((i * 7919 + position * 31 + seed) % 1009) / 100 for i in range(64)], device=device)
        draws = ServerDraws([ServerRandomness(seed)], 1, torch.device(device))
        drawn = draws.draw(logits[None], [position // 8], position % 8, [True])
        assert drawn.item() == vector["no_top_k_argmax"]


@pytest.mark.parametrize("device", DEVICES)
def test_a_draw_does_not_depend_on_the_songs_beside_it(device: str) -> None:
    logits = torch.randn(5, 100, generator=torch.Generator().manual_seed(0)).to(device)
    songs, steps = [ServerRandomness(seed) for seed in (3, 2**63, 7, 0, 2**64 - 1)], [0, 5, 2, 9000, 1]
    together = ServerDraws(songs, 5, torch.device(device)).draw(logits, steps, 3, [True] * 5)
    for slot, song in enumerate(songs):
        alone = ServerDraws([song], 1, torch.device(device)).draw(
            logits[slot : slot + 1], steps[slot : slot + 1], 3, [True]
        )
        assert alone.item() == together[slot].item()


def test_window_noise_is_a_function_of_seed_and_window() -> None:
    song, again = ServerRandomness(7), ServerRandomness(7)
    noise = [song.noise(window, (1, 4, 9), torch.device("cpu")) for window in (0, 1, 2)]
    assert torch.equal(again.noise(2, (1, 4, 9), torch.device("cpu")), noise[2])
    assert not torch.equal(noise[0], noise[1])


def test_the_reference_scheme_takes_every_64_bit_seed() -> None:
    for seed in (0, 2**63 - 1, 2**63, 2**64 - 1):
        a, b = (ReferenceRandomness(seed, 10).noise(0, (3,), torch.device("cpu")) for _ in range(2))
        assert torch.equal(a, b)
