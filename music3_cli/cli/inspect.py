"""`music3 inspect`: look into a checkpoint or a prompt without rendering."""

from __future__ import annotations

from typing import Annotated

import typer

from music3_cli.cli import console
from music3_cli.cli.inspect_prompt import inspect_prompt

app = typer.Typer(
    help="Look into a checkpoint or a prompt without rendering.", no_args_is_help=True, rich_markup_mode=None
)

Json = Annotated[bool, typer.Option("--json", help="A JSON document instead of text.")]


@app.command("checkpoint")
def inspect_checkpoint(
    path: Annotated[str | None, typer.Argument(help="Folder, demo, or REPO[@REV] in the hub's cache.")] = None,
    as_json: Json = False,
) -> None:
    """List a checkpoint's components from its headers; reads no weights."""
    from music3_cli.checkpoint.locate import find_checkpoint

    checkpoint = find_checkpoint(path)
    rows = [
        {
            "component": name,
            "tensors": len(files.tensors),
            "dtype": ", ".join(sorted({entry.dtype for _, entry in files.tensors.values()})),
            "parameters": sum(entry.parameters for _, entry in files.tensors.values()),
            "bytes": files.file_bytes,
            "files": len(files.headers),
        }
        for name, files in checkpoint.components.items()
    ]
    if as_json:
        console.document(
            {
                "name": checkpoint.name,
                "path": str(checkpoint.root),
                "digest": checkpoint.digest,
                "demo": checkpoint.is_demo,
                "components": rows,
            }
        )
        return
    from rich import box
    from rich.table import Table

    table = Table(*rows[0], box=box.SIMPLE)
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()))
    console.data(f"{checkpoint.name}  {checkpoint.root}" + ("  (demo: random weights)" if checkpoint.is_demo else ""))
    console.show(table)


app.command("prompt")(inspect_prompt)
