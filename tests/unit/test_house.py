"""The structure that DESIGN draws: which way imports run, what is loaded for which command, who prints."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES, ROOT

PACKAGE = ROOT / "music3_cli"

# A layer may import itself, anything to its right, and the shared modules.
LAYERS = [
    "cli",
    "jobs",
    "pipeline",
    "stages",
    "talker acoustic audio",
    "randomness devices timing",
    "placement",
    "models",
    "kernels",
]
SHARED = ["song", "checkpoint", "events", "errors", "files", ""]
SHARED_MAY_USE = {
    "song": {"song", "errors", "files", ""},
    "checkpoint": {"checkpoint", "song", "errors", "events", "files", ""},
    "events": {"errors", ""},
    "errors": {""},
    "files": {"errors", ""},
    "": {""},
}
# The loader fills the networks, so this one module of checkpoint knows them and how they hold matrices.
EXCEPTIONS = {("checkpoint/load.py", "models"), ("checkpoint/load.py", "kernels")}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.name not in ("__main__.py",))


def unit_of(path: Path) -> str:
    """`talker` for talker/engine.py, `pipeline` for pipeline.py, empty for the package itself."""
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py").replace("__init__", "")


def imports_of(path: Path) -> set[str]:
    """Units of music3_cli that a module imports anywhere, and other top-level packages it imports when loaded."""
    units = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "music3_cli":
                names = [f"music3_cli.{alias.name}" for alias in node.names if (PACKAGE / alias.name).exists()] or names
        for name in names:
            parts = name.split(".")
            if parts[0] == "music3_cli":
                units.add(parts[1] if len(parts) > 1 else "")
    return units


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_one_way(path: Path) -> None:
    unit = unit_of(path)
    relative = path.relative_to(PACKAGE).as_posix()
    if unit in SHARED:
        allowed = SHARED_MAY_USE[unit]
    else:
        level = next(i for i, layer in enumerate(LAYERS) if unit in layer.split())
        peers = {unit}
        allowed = {name for layer in LAYERS[level + 1 :] for name in layer.split()} | peers | set(SHARED)
    for imported in imports_of(path):
        assert imported in allowed or (relative, imported) in EXCEPTIONS, f"{relative} may not import {imported}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_console_prints_and_the_oracle_stays_in_tests(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert "print" not in calls or path.name == "console.py"
    tops = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            tops |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            tops.add(node.module.split(".")[0])
    forbidden = {"diffusers", "transformers", "pickle"}
    if path == PACKAGE / "jobs" / "peer.py":  # `bench` sets figures beside ours, where it is installed
        forbidden = {"pickle"}
    assert not tops & forbidden


COMMANDS = [
    ["--help"],
    ["--version"],
    ["render", "--help"],
    ["batch", "--help"],
    ["presets", "list"],
    ["presets", "show", "default"],
    ["lint", str(EXAMPLES / "morning-light.txt")],
    ["inspect", "checkpoint", "demo"],
    ["inspect", "prompt", str(EXAMPLES / "morning-light.txt"), "--checkpoint", "demo"],
    ["render", str(EXAMPLES / "morning-light.txt"), "--show-settings"],
    ["render", "missing.txt"],
    ["doctor", "--help"],
    ["bench", "song", "--help"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_commands_that_do_not_render_import_no_torch(arguments: list[str]) -> None:
    script = (
        "import sys\nsys.argv = ['music3', *sys.argv[1:]]\nfrom music3_cli.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    ran = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
