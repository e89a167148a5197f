"""The five network configs together, and what does not fit between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from music3_cli.checkpoint.layout import (
    COMPONENTS,
    LAST_TOKEN,
    BackboneConfig,
    Component,
    ComponentConfig,
    ConditionConfig,
    DepthConfig,
    TransformerConfig,
    VocoderConfig,
)


@dataclass(frozen=True)
class Architecture:
    """The five configs together."""

    backbone: BackboneConfig
    depth: DepthConfig
    condition: ConditionConfig
    transformer: TransformerConfig
    vocoder: VocoderConfig

    @classmethod
    def from_configs(cls, configs: Mapping[str, Any]) -> Architecture:
        """From parsed configs by component name."""
        return cls(*(configs[name] for name in COMPONENTS))

    def by_component(self) -> Iterator[tuple[Component, ComponentConfig]]:
        parts = (self.backbone, self.depth, self.condition, self.transformer, self.vocoder)
        yield from zip(COMPONENTS.values(), parts, strict=True)

    def disagreements(self) -> list[str]:
        """What does not fit together between the configs, a sentence each."""
        b, d, c, t, v = self.backbone, self.depth, self.condition, self.transformer, self.vocoder
        hop = 1
        for ratio in v.upsampling_ratios:
            hop *= ratio
        checks = (
            (d.hidden_size == b.hidden_size, f"depth decoder hidden size {d.hidden_size}, backbone {b.hidden_size}"),
            (
                c.condition_hidden_dim == b.hidden_size,
                f"condition encoder hidden size {c.condition_hidden_dim}, backbone {b.hidden_size}",
            ),
            (
                c.num_condition_layers == d.num_codebooks,
                f"condition encoder mixes {c.num_condition_layers} hiddens, the talker has {d.num_codebooks} codebooks",
            ),
            (c.out_dim == t.condition_dim, f"condition width {c.out_dim}, transformer expects {t.condition_dim}"),
            (
                v.latent_channels == t.in_channels,
                f"vocoder takes {v.latent_channels} channels, transformer gives {t.in_channels}",
            ),
            (
                v.sampling_rate == c.output_sampling_rate,
                f"vocoder at {v.sampling_rate} Hz, condition at {c.output_sampling_rate}",
            ),
            (
                hop == c.output_hop_length,
                f"vocoder makes {hop} samples a latent, condition encoder counts {c.output_hop_length}",
            ),
            (
                b.vocab_size >= LAST_TOKEN,
                f"vocabulary of {b.vocab_size} ends before the last audio code {LAST_TOKEN - 1}",
            ),
            (
                d.max_position_embeddings >= d.num_codebooks,
                f"depth decoder has {d.max_position_embeddings} positions for {d.num_codebooks} codebooks",
            ),
        )
        return [text for fits, text in checks if not fits]
