"""What must hold of the talker at full size, on a GPU: bits that do not depend on graphs or neighbours, hiddens as near
to float32 as those of transformers and diffusers, and room for sixteen songs of the longest kind.

Usage: python3 benchmarks/talker_full.py CHECKPOINT [--frames N] [--longest N] [--no-peer]
"""

from __future__ import annotations

import argparse
import hashlib
import time
from pathlib import Path

import torch

from music3_cli.checkpoint import load
from music3_cli.checkpoint.inventory import open_checkpoint
from music3_cli.cli.console import data
from music3_cli.devices import true_fp32
from music3_cli.models.talker import Talker
from music3_cli.placement import RunLimits
from music3_cli.randomness import ServerRandomness
from music3_cli.song.limits import MAX_FRAMES
from music3_cli.song.prompt import PromptTokenizer
from music3_cli.talker.engine import TalkerEngine
from music3_cli.talker.forcing import forced_hiddens
from music3_cli.talker.song import TalkerSong

CAPTION, LYRICS = (
    "A slow folk song with acoustic guitar.",
    "[Verse]\nLight on the river\nstay with me\n[Chorus]\nSing\n",
)
device, bf16 = torch.device("cuda" if torch.cuda.is_available() else "cpu"), torch.bfloat16


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--frames", type=int, default=500)
    parser.add_argument("--longest", type=int, default=MAX_FRAMES)
    parser.add_argument("--no-peer", action="store_true", help="without transformers and diffusers")
    return parser.parse_args()


options = parse()
checkpoint = open_checkpoint(Path(options.checkpoint))
tokenizer = PromptTokenizer.from_file(checkpoint.tokenizer_file)


def song(seed: int, frames: int, verses: int = 1) -> TalkerSong:
    prompt = tokenizer.prompt(CAPTION, LYRICS * verses)
    return TalkerSong(f"{seed}", prompt.ids, prompt.unconditional_ids, frames, ServerRandomness(seed))


def digest(one: TalkerSong, hiddens: list[torch.Tensor]) -> str:
    whole = torch.cat([part.to("cpu", torch.float32) for part in hiddens])
    assert len(whole) == one.frames
    return hashlib.sha256(whole.numpy().tobytes() + str(one.codes).encode()).hexdigest()[:16]


def run(engine: TalkerEngine, songs: list[TalkerSong], slots: int) -> dict[str, str]:
    """Digest of codes and hiddens by song."""
    hiddens: dict[str, list[torch.Tensor]] = {one.id: [] for one in songs}
    digests = {}
    for one in engine.run(songs, slots):
        hiddens[one.id] += [part.wait().clone() for part in one.take_hiddens()]
        if one.finish_reason:
            digests[one.id] = digest(one, hiddens.pop(one.id))
    return digests


def neighbours() -> list[TalkerSong]:
    return [song(100 + index, options.frames // 2 + 20 * index, 1 + index % 3) for index in range(16)]


def graphs_and_neighbours(talker: Talker) -> None:
    engine, frames = TalkerEngine(talker), options.frames
    alone = run(engine, [song(7, frames)], 1)["7"]
    assert not engine.eager_because, engine.eager_because
    eager = run(TalkerEngine(talker, cuda_graph=False), [song(7, frames)], 1)["7"]
    data(
        f"graph = eager, {frames} frames, codes and hiddens: {alone} {eager} {'equal' if alone == eager else 'DIFFER'}"
    )
    # Neighbours of other prompts and lengths; slots are filled in the songs' order.
    for place in (0, 5, 15):
        others = neighbours()
        company = [*others[:place], song(7, frames), *others[place:15]]
        found = run(engine, company, 16)["7"]
        data(f"in slot {place} of 16: {found} {'equal' if found == alone else 'DIFFERS'}")
    late = run(engine, [*neighbours(), song(8, 40), song(7, frames)], 16)["7"]
    data(f"admitted late, other neighbours: {late} {'equal' if late == alone else 'DIFFERS'}")


def relative(ours: torch.Tensor, exact: torch.Tensor) -> str:
    return f"{((ours.float() - exact.float()).norm() / exact.float().norm()).item():.2e}"


@torch.inference_mode()
def teacher_forced(talker: Talker) -> None:
    """Hiddens of 300 known frames: ours by steps and at once, and those of transformers and diffusers, each in bf16
    against transformers and diffusers in float32 with the same (bf16) weights.
    """
    from diffusers import MiniMaxMusic3RVQDepthDecoder
    from transformers import Qwen3ForCausalLM

    one, hiddens = song(3, 300), []
    for each in TalkerEngine(talker).run([one], 1):
        hiddens += [part.wait().clone() for part in each.take_hiddens()]
    by_steps = torch.cat(hiddens).unflatten(1, (8, -1))
    steps_FC = torch.tensor([one.priming, *one.codes])
    at_once = torch.cat(list(forced_hiddens(talker, one.ids, steps_FC)))
    root = str(checkpoint.root)
    model = Qwen3ForCausalLM.from_pretrained(f"{root}/language_model", dtype=bf16).to(device).eval()
    depth = (
        MiniMaxMusic3RVQDepthDecoder.from_pretrained(f"{root}/rvq_depth_decoder", torch_dtype=bf16).to(device).eval()
    )

    def theirs(dtype: torch.dtype) -> torch.Tensor:
        model.to(dtype), depth.to(dtype)
        feedback_FH = talker.embed_frame(steps_FC[:-1].to(device)).to(dtype)
        text_TH = model.get_input_embeddings()(torch.tensor(one.ids, device=device))
        inputs = torch.cat((text_TH, feedback_FH))[None]
        hidden_FH = model.model(inputs_embeds=inputs).last_hidden_state[0, len(one.ids) :]
        codes_FC = steps_FC[1:].to(device)
        embedded = [hidden_FH, talker.code_embeddings[codes_FC[:, 0]].to(dtype)]
        embedded += [depth.audio_embeddings(codes_FC[:, book] + (book - 1) * 1024) for book in range(1, 7)]
        deep_FCH = depth(depth.projection(torch.stack(embedded, 1)))
        return torch.cat((hidden_FH[:, None], deep_FCH[:, 1:]), 1)

    rough = theirs(bf16)
    exact = theirs(torch.float32)
    for name, found in (("ours by steps", by_steps), ("ours at once", at_once), ("transformers and diffusers", rough)):
        parts = [relative(found[:, :1], exact[:, :1]), relative(found[:, 1:], exact[:, 1:])]
        data(f"bf16 hiddens against float32, {name}: backbone {parts[0]}, depth decoder {parts[1]}")
    data(f"ours by steps against theirs, bf16: {relative(by_steps, rough)}")


def longest(talker: Talker) -> None:
    """One song that fills the context, with fifteen others, in slots of the longest kind beside the acoustic stage."""
    acoustic = load.load_acoustic(checkpoint, device, bf16, lambda _: None)
    limit, frames = checkpoint.architecture.backbone.max_position_embeddings, options.longest
    ids, unconditional = (
        list(row)[: limit - frames - 1]
        for row in (tokenizer.prompt(CAPTION, LYRICS * 99).ids, song(0, 1, 99).unconditional_ids)
    )
    full = TalkerSong("full", ids, unconditional, frames, ServerRandomness(1))
    others = [song(200 + index, 150) for index in range(15)]
    started, handed = time.perf_counter(), 0
    engine = TalkerEngine(talker)
    for one in engine.run([full, *others], 16, RunLimits(16, limit, frames)):
        if one is full:
            handed += sum(len(part.wait()) for part in one.take_hiddens())
    seconds = time.perf_counter() - started
    codes = torch.tensor(full.codes)
    assert handed == full.frames == len(codes) == frames and full.finish_reason == "ceiling"
    assert codes.min() >= 0 and codes[:, 0].max() < 16384 and codes[:, 1:].max() < 1024
    data(
        f"{frames} frames behind {len(ids)} tokens (position {len(ids) + frames} of {limit}): all {handed} handed "
        f"over, {seconds:.1f} s; sixteen slots of this size beside the acoustic stage: peak "
        f"{torch.cuda.max_memory_allocated() / 2**30 if device.type == 'cuda' else 0:.1f} GiB"
    )
    del acoustic


with torch.inference_mode(), true_fp32():
    talker = load.load_talker(checkpoint, device, bf16)
    graphs_and_neighbours(talker)
    if not options.no_peer:
        teacher_forced(talker)
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    longest(talker)
