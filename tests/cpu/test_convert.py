"""`music3 convert`: a native packaging made from the demo checkpoint becomes the demo checkpoint again."""

from __future__ import annotations

import json
import pickle
import shutil
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
import soundfile
import torch

from music3_cli.checkpoint import pickled
from music3_cli.checkpoint.layout import COMPONENTS
from music3_cli.checkpoint.native import FLOW_FILE, TALKER_FOLDER, VOCODER_FILE, source_of
from tests.conftest import EXAMPLES, Music3
from tests.support.damage import linked_copy
from tests.support.native import write_native
from tests.support.released_layout import released_shapes

TENSORS = 212


@pytest.fixture(scope="session")
def native(demo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read only."""
    root = tmp_path_factory.mktemp("native") / "checkpoint"
    root.mkdir()
    write_native(demo_root, root)
    return root


def test_converted_equals_the_original_and_renders_the_same(native: Path, music3: Music3, tmp_path: Path) -> None:
    ran = music3("convert", native, tmp_path / "made", "--configs", "demo", "--check", "demo")
    assert ran.code == 0, ran.err
    assert f"{TENSORS} of {TENSORS} tensors equal, 0 different, 0 missing" in ran.out
    assert "peak memory" in ran.err and "1 tensors that rendering does not need" in ran.err
    assert music3("verify", tmp_path / "made", "--deep").code == 0
    for name, checkpoint in (("one", "demo"), ("two", tmp_path / "made")):
        song = ("render", EXAMPLES / "short-and-bare.txt", "--max-duration", "0.2", "--steps", "1", "--device", "cpu")
        assert music3(*song, "--checkpoint", checkpoint, "-o", tmp_path / f"{name}.wav", "-q").code == 0
    one, two = (soundfile.read(tmp_path / f"{name}.wav", dtype="int16")[0] for name in ("one", "two"))
    assert (one == two).all() and one.any()  # the files' tags tell a demo checkpoint from another


def test_shards_with_an_index_and_json(demo_root: Path, music3: Music3, tmp_path: Path) -> None:
    (tmp_path / "native").mkdir()
    write_native(demo_root, tmp_path / "native", shards=2, with_index=True)
    ran = music3("convert", tmp_path / "native", tmp_path / "made", "--configs", "demo", "--check", "demo", "--json")
    assert ran.code == 0
    last = ran.records[-1]
    assert last["event"] == "convert_finished" and last["tensors"] == TENSORS
    assert last["check"]["equal"] == TENSORS and not last["check"]["different"]
    assert last["peak_memory_bytes"] > 0


def test_files_are_mapped_anew_on_the_way(
    native: Path, music3: Music3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same result when the map is renewed after every few kilobytes, as it is after every GiB of a large file."""
    monkeypatch.setattr(pickled, "REMAP_BYTES", 50_000)
    loads = []
    real = torch.load
    monkeypatch.setattr(torch, "load", lambda *args, **options: loads.append(options) or real(*args, **options))
    assert music3("convert", native, tmp_path / "made", "--configs", "demo", "--check", "demo").code == 0
    assert len(loads) > 10
    assert all(options["weights_only"] is True and options["mmap"] is True for options in loads)


def test_different_missing_and_extra_are_told(demo_root: Path, native: Path, music3: Music3, tmp_path: Path) -> None:
    from tests.support.damage import CONDITION, flip

    other = linked_copy(demo_root, tmp_path / "other")
    flip(CONDITION, -4)(other)
    ran = music3("convert", native, tmp_path / "made", "--configs", "demo", "--check", other)
    assert ran.code == 5
    assert "different: condition_encoder/proj." in ran.out and ": 1 of " in ran.out
    assert f"{TENSORS - 1} of {TENSORS} tensors equal, 1 different, 0 missing" in ran.out


def test_the_name_map_covers_the_released_sizes() -> None:
    """Every one of the 1012 tensors has its own place in the native files; only q, k and v share one."""
    count = 0
    for component in COMPONENTS:
        sources = [source_of(component, name) for name in released_shapes()[component]]
        assert len(set(sources)) == len(sources)
        fused = [source for source in sources if source.parts == 3]
        assert len(fused) == (108 if component == "transformer" else 0)
        assert len({source.name for source in fused}) * 3 == len(fused)
        count += len(sources)
    assert count == 1012


def test_names_as_the_spec_has_them() -> None:
    for component, name, native in (
        ("transformer", "time_proj.weight", "diffusion_transformer.timestep_features.weight"),
        ("transformer", "time_embed.linear_2.bias", "diffusion_transformer.to_timestep_embed.2.bias"),
        ("transformer", "preprocess_conv.weight", "diffusion_transformer.preprocess_conv.weight"),
        ("transformer", "proj_out.weight", "diffusion_transformer.transformer.project_out.weight"),
        (
            "transformer",
            "transformer_blocks.7.attn.to_k.weight",
            "diffusion_transformer.transformer.layers.7.self_attn.to_qkv.weight",
        ),
        (
            "transformer",
            "transformer_blocks.7.norm2.bias",
            "diffusion_transformer.transformer.layers.7.ff_norm.beta",
        ),
        (
            "transformer",
            "transformer_blocks.7.ff_in.bias",
            "diffusion_transformer.transformer.layers.7.ff.ff.0.proj.bias",
        ),
        ("condition_encoder", "layer_scale", "cond_layer_scale"),
        ("condition_encoder", "proj.bias", "latent_conditioners.0.bias"),
        ("vocoder", "dec_in_proj.bias", "dec_in_proj.bias"),
        ("vocoder", "conv_in.weight_v", "decoder.model.0.weight_v"),
        ("vocoder", "blocks.2.snake1.alpha", "decoder.model.3.block.0.alpha"),
        ("vocoder", "blocks.2.conv_t1.weight_g", "decoder.model.3.block.1.weight_g"),
        ("vocoder", "blocks.0.res_unit3.snake2.alpha", "decoder.model.1.block.4.block.2.alpha"),
        ("vocoder", "snake_out.alpha", "decoder.model.5.alpha"),
        ("vocoder", "conv_out.bias", "decoder.model.6.bias"),
        ("rvq_depth_decoder", "audio_embeddings.weight", "model.audio_extra_embedding.weight"),
        ("rvq_depth_decoder", "audio_heads.3.weight", "model.audio_decoder.audio_heads.3.weight"),
        ("rvq_depth_decoder", "layers.1.attn.to_out.weight", "model.audio_decoder.layers.1.self_attn.o_proj.weight"),
        ("rvq_depth_decoder", "layers.1.gate_proj.weight", "model.audio_decoder.layers.1.mlp.gate_proj.weight"),
        ("rvq_depth_decoder", "layers.1.input_layernorm.weight", "model.audio_decoder.layers.1.input_layernorm.weight"),
        ("language_model", "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight"),
    ):
        assert source_of(component, name).name == native


class Bomb:
    """Runs code when it is unpickled carelessly."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.mark,))


@pytest.mark.parametrize("plain", [False, True], ids=["torch file", "plain pickle"])
def test_a_pickle_that_runs_code_is_refused(plain: bool, native: Path, music3: Music3, tmp_path: Path) -> None:
    root = linked_copy(native, tmp_path / "native")
    (root / VOCODER_FILE).unlink()
    mark = tmp_path / "executed"
    if plain:
        (root / VOCODER_FILE).write_bytes(pickle.dumps(Bomb(mark)))
    else:
        torch.save({"decoder.model.0.bias": torch.ones(3), "x": Bomb(mark)}, root / VOCODER_FILE)
    ran = music3("convert", root, tmp_path / "made", "--configs", "demo")
    assert ran.code == 5 and VOCODER_FILE in ran.err
    assert plain or "nothing of it was executed" in ran.err
    assert not mark.exists()
    assert not (tmp_path / "made").exists() and not list(tmp_path.glob(".music3-convert-*"))
    # Looking at it does not open it at all.
    assert music3("inspect", "checkpoint", root).code == 0
    assert not mark.exists()


def test_what_is_wrong_with_native_files_is_told(native: Path, music3: Music3, tmp_path: Path) -> None:
    shard = TALKER_FOLDER / "model-00001-of-00003.safetensors"
    flow = torch.load(native / FLOW_FILE, weights_only=True)
    first = "diffusion_transformer.proj_in" if "diffusion_transformer.proj_in" in flow else next(iter(flow))

    def change(root: Path, kind: str) -> None:
        file = root / FLOW_FILE
        if kind == "shard":
            (root / shard).unlink()
        elif kind == "gone":
            file.unlink()
        elif kind == "cut":
            content = file.read_bytes()
            file.unlink()
            file.write_bytes(content[: len(content) // 2])
        else:
            tensors = dict(flow)
            if kind == "tensor":
                del tensors[first]
            elif kind == "shape":
                tensors[first] = torch.ones(2, 2)
            else:
                tensors[first] = tensors[first].half()
            file.unlink()
            torch.save(tensors, file)

    for kind, said in (
        ("shard", "is missing"),
        ("gone", f"{FLOW_FILE}: missing"),
        ("cut", "is no torch file that can be mapped"),
        ("tensor", f"tensor {first} is missing"),
        ("shape", f"tensor {first} has shape [2, 2]"),
        ("dtype", f"tensor {first} is F16; expected F32"),
    ):
        root = linked_copy(native, tmp_path / kind)
        change(root, kind)
        ran = music3("convert", root, tmp_path / "made", "--configs", "demo")
        assert ran.code == 5 and said in ran.err, (kind, ran.err)
        assert not (tmp_path / "made").exists()


def test_other_ends(
    native: Path, demo_root: Path, music3: Music3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disk_with(free: int) -> None:
        """Without --configs the released 28.5 GB are planned for, whatever the files are."""
        monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=free))

    disk_with(20 * 10**9)
    ran = music3("convert", native, tmp_path / "made")
    assert ran.code == 7 and "28,505,979,820 bytes will be written, 20,000,000,000 are free on this disk" in ran.err
    disk_with(30 * 10**9)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for args, code, said in (
        ((native, tmp_path / "full"), 7, "exists already"),
        ((demo_root, tmp_path / "made"), 5, "nothing of the native packaging is here"),
        ((tmp_path / "nowhere", tmp_path / "made"), 5, "no such folder"),
        ((native, tmp_path / "made"), 5, "--configs"),
    ):
        ran = music3("convert", *args)
        assert ran.code == code and said in ran.err, ran.err
        assert len(ran.err.splitlines()) < 60
    assert not (tmp_path / "made").exists()
    (tmp_path / "empty").mkdir()
    assert music3("convert", native, tmp_path / "empty", "--configs", "demo").code == 0


def test_the_native_packaging_is_listed_and_not_rendered(native: Path, music3: Music3) -> None:
    seen = json.loads(music3("inspect", "checkpoint", native, "--json", "--tensors", "*norm*").out)
    assert seen["packaging"] == "native" and seen["convert"] == f"music3 convert {native} DEST"
    rows = {row["component"]: row for row in seen["components"]}
    assert rows["language_model"]["tensors"] == 25 and rows["rvq_depth_decoder"]["tensors"] == 29
    assert rows[FLOW_FILE]["bytes"] == (native / FLOW_FILE).stat().st_size and "tensors" not in rows[FLOW_FILE]
    assert all("norm" in row["tensor"] for row in seen["tensors"]) and seen["tensors"]
    text = music3("inspect", "checkpoint", native).out
    assert "pickle, not opened" in text and "convert it: music3 convert" in text
    refused = music3("render", EXAMPLES / "short-and-bare.txt", "--checkpoint", native)
    assert refused.code == 5 and "music3 convert" in refused.err


def test_nothing_but_download_uses_the_network(
    demo_root: Path, music3: Music3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every socket refused and no offline switch set, a local folder is all that is needed."""

    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.delenv("HF_HUB_OFFLINE")
    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)
    assert music3("verify", demo_root, "--deep").code == 0
    assert music3("inspect", "checkpoint", demo_root).code == 0
    song = EXAMPLES / "short-and-bare.txt"
    options = ("--checkpoint", demo_root, "--max-duration", "0.2", "--steps", "1", "--device", "cpu")
    ran = music3("render", song, *options, "-o", tmp_path / "song.wav")
    assert ran.code == 0 and (tmp_path / "song.wav").stat().st_size > 1000
    missing = music3("render", song, "--checkpoint", "MiniMaxAI/MiniMax-Music3")
    assert missing.code == 5 and "music3 download" in missing.err
