"""The talker: sampling rules, rows that do not know each other, endings."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from music3_cli.talker.sampling import residual_candidates, semantic_candidates
from tests.support.stages import Stages

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=50, deadline=None)
@given(SEEDS, st.booleans())
def test_semantic_candidates_follow_the_rules(seed: int, ties: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(4, 200, generator=generator)
    if ties:
        logits = logits.mul(2).round()
    kept = semantic_candidates(logits)
    for song in range(2):
        conditional, unconditional = logits[2 * song], logits[2 * song + 1]
        guided = unconditional + 1.5 * (conditional - unconditional)
        allowed = conditional >= conditional.sort(descending=True).values[49]
        limit = guided[allowed].sort(descending=True).values[49]
        expected = torch.where(allowed & (guided >= limit), guided, -torch.inf)
        assert torch.allclose(kept[song], expected)


def test_residual_candidates_have_no_conditional_mask() -> None:
    logits = torch.randn(2, 100, generator=torch.Generator().manual_seed(1))
    kept = residual_candidates(logits)[0].isfinite()
    guided = logits[1] + 1.5 * (logits[0] - logits[1])
    assert kept.nonzero().flatten().tolist() == sorted(guided.topk(50).indices.tolist())


def test_songs_of_other_lengths_share_a_step(stages: Stages) -> None:
    """Rows of one step, whose prompts differ in length and which end at different frames: the same codes as alone."""
    prompts = [stages.prompt(lyrics="[verse]\n" + "over the road\n" * count) for count in (1, 9, 4)]
    limits = (30, 12, 21)

    def songs() -> list:
        return [stages.song(limits[i], 50 + i, prompt=prompts[i]) for i in range(3)]

    alone, together = songs(), songs()
    stages.talk(alone, songs_a_bucket=1)
    stages.talk(together, songs_a_bucket=4)
    for one, other in zip(alone, together, strict=True):
        assert one.codes == other.codes and len(one.codes) == one.max_frames
        assert torch.allclose(one.frame_hiddens(), other.frame_hiddens(), atol=1e-5, rtol=0)


def test_within_a_bucket_size_neighbours_change_no_bit(stages: Stages) -> None:
    def hiddens(slot: int, neighbours: int) -> torch.Tensor:
        song = stages.song(20, 7)
        songs = [stages.song(8 + n, 90 + n) for n in range(neighbours)]
        songs.insert(slot, song)
        stages.talk(songs, songs_a_bucket=4)
        return song.frame_hiddens()

    reference = hiddens(0, 0)
    assert torch.equal(reference, hiddens(0, 3))
    assert torch.equal(reference, hiddens(2, 2))


@pytest.mark.parametrize("scheme", ["server", "diffusers"])
def test_a_longer_ceiling_only_adds_frames(stages: Stages, scheme: str) -> None:
    short, long = stages.song(10, 3, scheme), stages.song(25, 3, scheme)
    stages.talk([short])
    stages.talk([long])
    assert long.codes[:10] == short.codes
    assert (short.finish_reason, len(short.hiddens)) == ("ceiling", 10)


def test_codes_are_in_range(stages: Stages) -> None:
    song = stages.song(40, 11)
    stages.talk([song])
    codes = torch.tensor(song.codes)
    assert codes.shape == (40, 8)
    assert codes.min() >= 0 and codes[:, 0].max() < 16384 and codes[:, 1:].max() < 1024
