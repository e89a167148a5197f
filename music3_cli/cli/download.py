"""`music3 download`: fetch the checkpoint, once. The only command that uses the network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from music3_cli.cli import console, options

if TYPE_CHECKING:
    from music3_cli.checkpoint.fetch import FetchPlan


def download(
    to: Annotated[str | None, typer.Option(help="Folder to put it in. [default: the hub's cache]")] = None,
    revision: Annotated[
        str | None, typer.Option(help="Commit, branch or tag. [default: the pinned commit; of another --repo: main]")
    ] = None,
    repo: Annotated[str | None, typer.Option(help="Repository. [default: MiniMaxAI/MiniMax-Music3]")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be fetched, and fetch nothing.")] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Read what is there once more, even if it was whole, and fetch what is wrong."),
    ] = False,
    as_json: options.JsonLines = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    no_progress: options.NoProgress = False,
) -> None:
    """Fetch the checkpoint: the modular folders only, 28.5 GB, every file compared with its published sha256.

    Goes on where it was broken off; asks for nothing when all is there. HF_ENDPOINT, HF_TOKEN and HF_HUB_CACHE are
    honoured. Prints the folder; render and all other commands find it by themselves.
    """
    console.configure(verbose=verbose, as_json=as_json)
    from music3_cli.checkpoint.fetch import check_room, plan_download
    from music3_cli.checkpoint.fetch import download as run_download
    from music3_cli.checkpoint.released import REPOSITORY
    from music3_cli.cli.work import show_work
    from music3_cli.events import DownloadFinished

    plan = plan_download(repo or REPOSITORY, revision or "", Path(to).expanduser() if to else None, check)
    if as_json:
        console.record({"event": "plan", **_plan_as_json(plan)})
    elif not quiet or dry_run:
        for line in _plan_lines(plan, list_files=dry_run):
            (console.data if dry_run else console.talk)(line)
    if dry_run:
        check_room(plan)
        return
    if not plan.done:
        show_work(run_download(plan), as_json=as_json, quiet=quiet, no_progress=no_progress)
    if as_json:
        console.record(DownloadFinished(str(plan.root), not plan.done).to_json())
    else:
        console.data(str(plan.root))


def _plan_lines(plan: FetchPlan, list_files: bool) -> list[str]:
    from music3_cli.checkpoint.released import LICENSE_NAME, LICENSE_TERMS, license_link
    from music3_cli.cli.work import size_text

    listing = plan.listing
    lines = [
        f"{listing.repository} at {listing.commit}: {len(listing.files)} files, {size_text(plan.total)}",
        f"weights' licence: {LICENSE_NAME} ({LICENSE_TERMS}): {license_link(listing.repository, listing.commit)}",
    ]
    if list_files:
        for file in listing.files:
            state = "there" if plan.done or file.path in plan.there else "to fetch"
            lines.append(f"  {file.bytes:>14,}  {state:8}  {file.path}")
    if plan.done:
        return [*lines, f"complete in {plan.root}; nothing to fetch (`music3 verify` reads every byte again)"]
    have = f"{size_text(plan.present)} are there, " if plan.present else ""
    return [*lines, f"into {plan.root}: {have}{size_text(plan.left)} to fetch, {size_text(plan.free)} free on the disk"]


def _plan_as_json(plan: FetchPlan) -> dict[str, object]:
    from music3_cli.checkpoint.released import LICENSE_NAME, license_link

    listing = plan.listing
    return {
        "repository": listing.repository,
        "revision": listing.commit,
        "path": str(plan.root),
        "complete": plan.done,
        "files": [{"path": file.path, "bytes": file.bytes} for file in listing.files],
        "total_bytes": plan.total,
        "present_bytes": plan.present,
        "free_bytes": plan.free,
        "licence": LICENSE_NAME,
        "licence_link": license_link(listing.repository, listing.commit),
    }
