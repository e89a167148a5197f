"""What int8 matrices do to the talker: errors of its hiddens, and where the full talker's codes rank.

Usage: python3 benchmarks/int8.py --checkpoint FOLDER [--frames 250] [--device auto]

The full talker draws a song. Then both talkers go over its codes (teacher forcing): at every step the rank of
the full talker's code among the int8 talker's logits of the conditional row, and its rank among the full talker's own.
"""

from __future__ import annotations

import argparse

import torch

from music3_cli.checkpoint.inventory import Checkpoint
from music3_cli.checkpoint.load import load_talker
from music3_cli.checkpoint.locate import find_checkpoint
from music3_cli.cli.bench_song import SHEET
from music3_cli.cli.console import data
from music3_cli.devices import DTYPES, default_talker_dtype, device_name, resolve_device, true_fp32
from music3_cli.kernels.linear import sum_parts
from music3_cli.models.talker import Talker
from music3_cli.randomness import song_randomness
from music3_cli.song.prompt import PromptTokenizer
from music3_cli.talker.engine import TalkerEngine
from music3_cli.talker.forcing import forced_hiddens
from music3_cli.talker.song import TalkerSong

RANKS = (1, 5, 10, 50)


def drawn(checkpoint: Checkpoint, talker: Talker, frames: int) -> TalkerSong:
    """A song of the full talker."""
    prompt = PromptTokenizer.from_file(checkpoint.tokenizer_file).prompt("A slow folk song, female voice.", SHEET)
    randomness = song_randomness("server", 0, checkpoint.architecture.backbone.vocab_size)
    song = TalkerSong("reference", prompt.ids, prompt.unconditional_ids, frames, randomness)
    for _ in TalkerEngine(talker).run([song]):
        pass
    return song


@torch.inference_mode()
def over_codes(talker: Talker, song: TalkerSong) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """[F, 8, H] hiddens of the song's codes, [F, 8] ranks of its codes (1 is the most likely), [F] semantic logits of
    the codes' own column.
    """
    steps_FC = torch.tensor([song.priming, *song.codes])
    hiddens_FCH = torch.cat(list(forced_hiddens(talker, song.ids, steps_FC)))
    codes_FC = steps_FC[1:].to(hiddens_FCH.device)
    ranks, own = [], torch.empty(0)
    for codebook in range(codes_FC.shape[1]):
        hidden_FH = hiddens_FCH[:, codebook].contiguous()
        if codebook == 0:
            parts, column_F = talker.semantic_logits(hidden_FH), codes_FC[:, 0] + 1
        else:
            parts, column_F = talker.depth.logits(hidden_FH, codebook), codes_FC[:, codebook]
        logits_FV = sum_parts(parts, torch.float32)
        own_F1 = logits_FV.gather(1, column_F[:, None])
        ranks.append((logits_FV > own_F1).sum(1) + 1)
        own = own_F1[:, 0] if codebook == 0 else own
    return hiddens_FCH.float().cpu(), torch.stack(ranks, 1).cpu(), own.cpu()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--frames", type=int, default=250)
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    checkpoint, device = find_checkpoint(args.checkpoint), resolve_device(args.device)
    dtype = DTYPES[default_talker_dtype(device)]
    data(f"{checkpoint.name} on {device_name(device)}, {dtype}")
    with true_fp32():
        full = load_talker(checkpoint, device, dtype)
        size = sum(p.nbytes for p in full.parameters())
        song = drawn(checkpoint, full, args.frames)
        exact, own_ranks, exact_logits = over_codes(full, song)
        del full
        if device.type == "cuda":
            torch.cuda.empty_cache()
        int8 = load_talker(checkpoint, device, dtype, int8=True)
        near, ranks, near_logits = over_codes(int8, song)
    small = sum(p.nbytes for p in int8.parameters())
    data(
        f"weights {size / 2**30:.2f} GiB, in int8 {small / 2**30:.2f} GiB; {song.frames} frames ({song.finish_reason})"
    )
    for codebook in range(exact.shape[1]):
        error = near[:, codebook] - exact[:, codebook]
        relative = error.norm() / exact[:, codebook].norm()
        cosine = torch.cosine_similarity(near[:, codebook], exact[:, codebook], dim=-1)
        kept = ", ".join(
            f"{(ranks[:, codebook] <= most).float().mean():.1%} ({(own_ranks[:, codebook] <= most).float().mean():.1%})"
            for most in RANKS
        )
        data(
            f"codebook {codebook}: hiddens' relative error {relative:.4f}, cosine {cosine.mean():.5f} (least "
            f"{cosine.min():.5f}); codes ranked up to {'/'.join(map(str, RANKS))}: {kept}; median rank "
            f"{ranks[:, codebook].median().item()} ({own_ranks[:, codebook].median().item()})"
        )
    difference = near_logits - exact_logits
    data(f"the code's own semantic logit: difference {difference.mean():+.4f} +- {difference.std():.4f}")
    data("in brackets: the full talker's own")


if __name__ == "__main__":
    main()
