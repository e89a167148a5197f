"""A hub on loopback and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.downloads import Client
from tests.support.hub_server import Hub, serve


@pytest.fixture
def hub(demo_root: Path) -> Iterator[Hub]:
    with serve(demo_root) as served:
        yield served


@pytest.fixture
def client(hub: Hub, tmp_path: Path) -> Client:
    return Client(tmp_path / "client", hub)
