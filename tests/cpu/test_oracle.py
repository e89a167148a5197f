"""Parity with diffusers' whole pipeline and with transformers' Qwen3: fp32, CPU, reference random scheme."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from music3_cli.acoustic.windows import song_samples
from music3_cli.checkpoint.layout import AUDIO_CODE_OFFSET
from music3_cli.models.backbone import KVCache
from tests.support.stages import CAPTION, LYRICS, Stages

TOLERANCE = 1e-5

# Every frame count at which the windows change: one, a full window, one more, a full hop, one more, several windows.
CASES = [(frames, seed, 3) for seed in (0, 1, 2) for frames in (1, 25, 199, 200, 201, 300, 301, 450)]


def run_oracle(oracle: Any, frames: int, seed: int, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """[F, 8 x H] frame hiddens and [2, samples] from diffusers."""
    state = oracle(
        prompt=CAPTION,
        lyrics=LYRICS,
        audio_duration=(frames + 0.5) / 25,  # it truncates; half a frame keeps float error out
        generator=torch.Generator().manual_seed(seed),
        num_inference_steps=steps,
        output_type="pt",
    )
    return state.get("frame_hiddens")[0], state.get("audios")[0]


@pytest.mark.parametrize(("frames", "seed", "steps"), [*CASES, (225, 3, 30)])
def test_whole_song(stages: Stages, oracle: Any, frames: int, seed: int, steps: int) -> None:
    hiddens, sound = run_oracle(oracle, frames, seed, steps)
    song = stages.song(frames, seed, "diffusers")
    stages.talk([song])
    assert song.finish_reason == "ceiling"
    ours = song.frame_hiddens()
    assert ours.shape == hiddens.shape
    assert (ours - hiddens).abs().max().item() < TOLERANCE
    our_sound = stages.sound(ours, song.randomness, steps)
    assert our_sound.shape == sound.shape == (2, song_samples(frames, stages.checkpoint.architecture.condition))
    assert (our_sound - sound).abs().max().item() < TOLERANCE
    assert sound.std().item() > 0.01  # the comparison is not one of silences


def test_backbone_equals_qwen3_in_prefill_and_decode(stages: Stages, oracle: Any) -> None:
    talker, reference = stages.talker.talker, oracle.language_model
    prompt = stages.prompt()
    ids = torch.tensor([prompt.ids, prompt.unconditional_ids])
    length = ids.shape[1]
    cache = KVCache.empty(talker.backbone.config, length + 50, talker.head)
    with torch.inference_mode():
        ours = talker.backbone.prefill(talker.embed_text(ids), cache)
        theirs = reference.model(input_ids=ids, use_cache=True)
        assert (ours - theirs.last_hidden_state).abs().max().item() < TOLERANCE
        generator = torch.Generator().manual_seed(0)
        tables = talker.backbone.phases(length + 50)
        for position in range(length, length + 50):
            code = torch.randint(0, 16384, (2,), generator=generator)
            at = torch.full((2,), position)
            ours = talker.backbone.decode(talker.code_embeddings[code], cache, tables, at)
            theirs = reference.model(
                input_ids=code[:, None] + AUDIO_CODE_OFFSET, past_key_values=theirs.past_key_values, use_cache=True
            )
            assert (ours - theirs.last_hidden_state[:, 0]).abs().max().item() < TOLERANCE


def test_sliced_head_equals_the_whole_one(stages: Stages, oracle: Any) -> None:
    hidden = torch.randn(6, stages.talker.talker.head.shape[1], generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        whole = oracle.language_model.lm_head(hidden)
        sliced = stages.talker.talker.semantic_logits(hidden)[0]
    kept = torch.cat((whole[:, 151670:151671], whole[:, AUDIO_CODE_OFFSET : AUDIO_CODE_OFFSET + 16384]), 1)
    assert (sliced - kept).abs().max().item() < TOLERANCE


def test_folded_weight_norm_equals_torch(stages: Stages, oracle: Any) -> None:
    for ours, theirs in (
        (stages.acoustic.vocoder.conv_in.weight, oracle.vocoder.conv_in),
        (stages.acoustic.vocoder.blocks[0].weight, oracle.vocoder.blocks[0].conv_t1),
        (stages.acoustic.vocoder.conv_out.weight, oracle.vocoder.conv_out),
    ):
        # Its own `weight` is made by its first forward.
        folded = torch._weight_norm(theirs.weight_v, theirs.weight_g, 0)
        assert ours.shape == folded.shape
        assert (ours - folded).abs().max().item() < 1e-7
