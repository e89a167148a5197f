"""`music3 doctor`: is this machine ready?"""

from __future__ import annotations

import typer

from music3_cli.cli import console, options


def doctor(
    checkpoint: options.Checkpoint = None,
    device: options.Device = "auto",
    acoustic_device: options.AcousticDevice = "same",
    placement: options.Placement = "auto",
    memory_limit: options.MemoryLimit = None,
    as_json: options.JsonDocument = False,
) -> None:
    """Look at everything that rendering needs, and at what a four-minute song would get of this machine.

    Python, torch, GPUs and their memory, kernels, checkpoint, folders, audio formats. Ends with 0 when nothing failed;
    a failure ends with the code that a run would end with (5 checkpoint, 6 device).
    """
    console.configure(as_json=as_json)
    from dataclasses import asdict

    from music3_cli.jobs.doctor import FAILURE, WARNING, examine
    from music3_cli.jobs.machine import RunsOn

    checks = []
    for check in examine(RunsOn(device, acoustic_device, placement, memory_limit), checkpoint):
        checks.append(check)
        if not as_json:
            console.data(f"{check.level:8s} {check.name}: {check.found}")
            if check.fix:
                console.data(f"{'':8s}   {check.fix}")
    counts = {level: sum(check.level == level for check in checks) for level in (FAILURE, WARNING)}
    code = next((check.exit_code for check in checks if check.level == FAILURE), 0)
    if as_json:
        console.document({"checks": [asdict(check) for check in checks], "exit_code": code})
    elif any(counts.values()):
        parts = [f"{count} {level}{'s' * (count != 1)}" for level, count in counts.items() if count]
        console.talk(" and ".join(parts))
    raise typer.Exit(code)
