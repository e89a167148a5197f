"""Options that several commands have: said once, so that they are called and explained alike everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

Text = str | None
"""An option that was not given is None: the next layer of settings then has its say."""

Checkpoint = Annotated[
    Text,
    typer.Option(
        help="Folder, demo, or REPO[@REV] in the hub's cache. [default: MUSIC3_CHECKPOINT, then the hub's cache]"
    ),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
AcousticDevice = Annotated[
    str,
    typer.Option(help="Of the acoustic stage: same (the talker's), auto (every other GPU), or a list like cuda:1."),
]
Placement = Annotated[
    str, typer.Option(help="auto, resident (both stages stay loaded) or swap (by turns, in less memory).")
]
MemoryLimit = Annotated[float | None, typer.Option(help="GiB of each device that may be used. [default: what is free]")]
TalkerWeights = Annotated[
    Text,
    typer.Option(help="full, or int8: half the talker's memory, another song. [default: full where the device can]"),
]
Peer = Annotated[
    bool | None,
    typer.Option("--peer/--no-peer", help="Beside it diffusers, on this checkpoint. [default: where it is installed]"),
]
NoCudaGraph = Annotated[bool, typer.Option("--no-cuda-graph", help="Run the talker's step eagerly.")]
Precision = Annotated[Text, typer.Option(help="Acoustic stage: fp32, tf32 or fp16. [default: tf32]")]
TalkerDtype = Annotated[Text, typer.Option(help="bf16 or fp32. [default: bf16 on a GPU, fp32 on a CPU]")]
SeedScheme = Annotated[
    Text, typer.Option(help="Random numbers as the official server (server) or as diffusers. [default: server]")
]
Steps = Annotated[Text, typer.Option(help="Euler steps a window. [default: 30]")]
Shift = Annotated[
    Text, typer.Option(help="Shift of the step times: above 1 makes the first steps smaller. [default: 1]")
]
Fast = Annotated[
    bool | None,
    typer.Option("--fast/--no-fast", help="16 steps, shift 2, fp16, where not given; see docs/numerics.md."),
]
Guidance = Annotated[Text, typer.Option(help="Guidance of the acoustic stage. [default: 1.7]")]
BitDepth = Annotated[Text, typer.Option(help="16, 24 or float (wav only). [default: 16]")]
Quality = Annotated[Text, typer.Option(help="Of mp3, ogg and opus, 0 to 10 (best). [default: 8]")]
SampleRate = Annotated[
    Text, typer.Option(help="44100 or 32000 (as the official server delivers). [default: 44100; opus: 48000]")
]
Normalize = Annotated[
    Text, typer.Option(help="peak[=-1] (dBTP) or loudness[=-14] (LUFS), true peak under -1 dBTP. [default: none]")
]
Artist = Annotated[Text, typer.Option(help="Artist, for tags.")]
Album = Annotated[Text, typer.Option(help="Album, for tags.")]

JsonDocument = Annotated[bool, typer.Option("--json", help="A JSON document instead of text.")]
JsonLines = Annotated[bool, typer.Option("--json", help="JSON lines on stdout; see docs/cli.md.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings and errors.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Tracebacks with errors.")]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="No bars and no heartbeat lines.")]
