"""Both stages of a checkpoint, loaded for tests that look between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from music3_cli.acoustic.engine import AcousticEngine, Sound
from music3_cli.checkpoint import load
from music3_cli.checkpoint.inventory import Checkpoint, open_checkpoint
from music3_cli.devices import true_fp32
from music3_cli.randomness import SongRandomness, song_randomness
from music3_cli.song.prompt import Prompt, PromptTokenizer
from music3_cli.talker.engine import TalkerEngine
from music3_cli.talker.song import TalkerSong

CAPTION = "A slow folk song with a warm female voice, acoustic guitar and soft strings."
LYRICS = "[Verse]\nLight on the river\nstay with me\n[Chorus]\nSing it again\n[outro]\n"


@dataclass(frozen=True)
class Stages:
    checkpoint: Checkpoint
    talker: TalkerEngine
    acoustic: AcousticEngine
    tokenizer: PromptTokenizer

    def prompt(self, caption: str = CAPTION, lyrics: str = LYRICS) -> Prompt:
        return self.tokenizer.prompt(caption, lyrics)

    def song(self, frames: int, seed: int, scheme: str = "server", prompt: Prompt | None = None) -> TalkerSong:
        prompt = prompt or self.prompt()
        randomness = song_randomness(scheme, seed, self.checkpoint.architecture.backbone.vocab_size)
        return TalkerSong(f"seed {seed}", prompt.ids, prompt.unconditional_ids, frames, randomness)

    def talk(self, songs: Sequence[TalkerSong], most_slots: int | None = None) -> None:
        """Run songs through the talker, longest first, by default in as many slots as suit the device."""
        with true_fp32():
            for _ in self.talker.run(sorted(songs, key=lambda song: -song.max_frames), most_slots):
                pass

    def sound(
        self,
        hiddens_FD: torch.Tensor,
        randomness: SongRandomness,
        steps: int,
        precision: str = "fp32",
        shift: float = 1.0,
    ) -> torch.Tensor:
        """[2, samples]."""
        parts = list(self.acoustic.run(hiddens_FD, randomness, steps, precision=precision, shift=shift))
        return torch.cat([part.wait() for part in parts if isinstance(part, Sound)], 1)


def load_stages(root: Path, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Stages:
    checkpoint, where = open_checkpoint(root), torch.device(device)
    with torch.inference_mode():
        return Stages(
            checkpoint,
            TalkerEngine(load.load_talker(checkpoint, where, dtype)),
            AcousticEngine(
                load.load_condition_encoder(checkpoint, where, dtype),
                load.load_transformer(checkpoint, where),
                load.load_vocoder(checkpoint, where),
            ),
            PromptTokenizer.from_file(checkpoint.tokenizer_file),
        )
