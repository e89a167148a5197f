"""The demo checkpoint's stages and diffusers' pipeline on the same folder, loaded once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.stages import Stages, load_stages


@pytest.fixture(scope="session")
def stages(demo_root: Path) -> Stages:
    return load_stages(demo_root)


@pytest.fixture(scope="session")
def oracle(demo_root: Path):
    """diffusers' whole pipeline in fp32, from the same files."""
    diffusers = pytest.importorskip("diffusers")
    import torch

    pipeline = diffusers.ModularPipeline.from_pretrained(str(demo_root))
    pipeline.load_components(pretrained_model_name_or_path=str(demo_root), dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline
