"""Kills a batch with SIGKILL at random moments, reruns it, and compares the folder with an uninterrupted run's.

    python benchmarks/kill_batch.py --kills 30

After every kill: what was finished stays untouched by later runs. At the end of every round: the same files with the
same bytes as without kills, `batch.json` aside, which reports on the last run. Rounds are begun until enough kills
were made.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from music3_cli.files import file_sha256

ROOT = Path(__file__).parent.parent
QUICK = ["--checkpoint", "demo", "--steps", "2", "--max-duration", "0.6"]
RECORD = "batch.json"


@dataclass
class Tally:
    kills: int = 0
    runs: int = 0
    rounds: int = 0
    leftovers_seen: int = 0
    finished_at_kills: list[int] = field(default_factory=list)


def contents(folder: Path) -> dict[str, str]:
    """Every file's sha256, the page's too, but the record's."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != RECORD)
    return {str(path.relative_to(folder)): file_sha256(path) for path in files}


def finished_songs(folder: Path) -> dict[Path, int]:
    """Songs that are done by what lies in the folder, and when they came there."""
    done = {}
    for sidecar in folder.glob("*.json"):
        audio = sidecar.with_suffix("")
        if sidecar.name == RECORD or not audio.is_file():
            continue
        if json.loads(sidecar.read_bytes())["result"]["sha256"] == file_sha256(audio):
            done[audio] = audio.stat().st_mtime_ns
    return done


def run_and_kill(command: list[str], lines: int, seconds: float) -> bool:
    """Start a batch and kill it some time after its so-many-th record; says whether it had ended before."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        for _, _line in zip(range(lines), process.stdout, strict=False):
            pass
        time.sleep(seconds)
        ended = process.poll() is not None
        process.kill()
        process.wait()
    return ended


def run_round(command: list[str], folder: Path, expected: dict[str, str], kills: int, rng: random.Random) -> Tally:
    """One folder: kill and rerun until it is complete or there were enough kills, then let it end and compare."""
    tally = Tally(rounds=1)
    into = [*command, "-o", str(folder), "--json"]
    before: dict[Path, int] = {}
    while tally.kills < kills:
        tally.runs += 1
        if run_and_kill(into, rng.randrange(1, 24), rng.uniform(0, 0.4)):
            break
        tally.kills += 1
        now = finished_songs(folder) if folder.is_dir() else {}
        for audio, made in before.items():
            assert now.get(audio) == made, f"{audio} was finished and has been rendered again"
        before = now
        tally.finished_at_kills.append(len(now))
        tally.leftovers_seen += len(list(folder.glob(".music3-*"))) if folder.is_dir() else 0
    tally.runs += 1
    last = subprocess.run(into, capture_output=True, text=True, check=False)
    assert last.returncode == 0, last.stderr
    for audio, made in before.items():
        assert audio.stat().st_mtime_ns == made, f"{audio} was finished and has been rendered again"
    found = contents(folder)
    assert found == expected, f"differs: {sorted(set(found.items()) ^ set(expected.items()))}"
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--manifest", default=str(ROOT / "examples" / "album.yaml"))
    parser.add_argument("batch_flags", nargs="*", help="more flags of `music3 batch`, behind --")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    command = [sys.executable, "-m", "music3_cli", "batch", arguments.manifest, *QUICK, *arguments.batch_flags]
    total, left = Tally(), arguments.kills
    with tempfile.TemporaryDirectory() as work:
        plain = Path(work) / "plain"
        subprocess.run([*command, "-o", str(plain), "-q"], check=True, capture_output=True)
        expected = contents(plain)
        while left > 0:
            tally = run_round(command, Path(work) / f"killed-{total.rounds}", expected, left, rng)
            left -= tally.kills
            total.kills += tally.kills
            total.runs += tally.runs
            total.rounds += 1
            total.leftovers_seen += tally.leftovers_seen
            total.finished_at_kills += tally.finished_at_kills
    sys.stdout.write(
        f"{total.kills} kills in {total.runs} runs of {total.rounds} batches; songs finished at the kills: "
        f"{total.finished_at_kills}; unfinished files left by kills: {total.leftovers_seen}, all removed by reruns; "
        f"every folder byte-identical to the uninterrupted one ({len(expected)} files), nothing rendered twice\n"
    )


if __name__ == "__main__":
    main()
