"""Pages that are generated are up to date, and README's numbers of commands hold."""

from __future__ import annotations

import importlib.util
import re

from tests.conftest import ROOT


def test_cli_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec and spec.loader
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert generate.page() == (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), "run `make docs`"


def test_readme_names_files_that_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\(([^)#:]+)\)", readme)
    assert linked
    for target in linked:
        assert (ROOT / target).exists(), target
