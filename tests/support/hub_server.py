"""A small model hub on loopback: the part of the protocol that a download uses, with faults on demand.

It serves one folder as one repository at one commit. Besides the folder's files it lists files of the native packaging
and a README, which nobody should ask for. Weight files answer with a redirect to another path, as a hub's storage does.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

REPOSITORY = "someone/miniature"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_loopback"
UNWANTED = (
    "README.md",
    ".gitattributes",
    "flowmatching_vae.pth",
    "dav.pth",
    "qwen_7B/qwen_7B/model-00001-of-00048.safetensors",
)
_LFS_BYTES = 1000
_BLOCK = 2**18


@cache
def content_of(file: Path) -> bytes:
    """What is served does not change while it is served."""
    return file.read_bytes()


@cache
def digests_of(file: Path) -> tuple[str, str]:
    """sha256 and git's id."""
    content = content_of(file)
    git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    return hashlib.sha256(content).hexdigest(), git


@dataclass
class Request:
    method: str
    path: str
    range: str
    status: int = 0
    authorized: bool = False

    @property
    def file(self) -> str:
        """The repository's file that was asked for, or nothing."""
        return self.path.split(f"/resolve/{COMMIT}/", 1)[1] if "/resolve/" in self.path else ""


@dataclass
class Fault:
    """What happens to one file's body.

    Attributes:
        kind: `cut` after `at` bytes, `status` `at`, `corrupt` the byte at `at`, `short` by `at` bytes, `long` by `at`
            bytes, `missing`, `gone` (the whole server, after `at` bytes), `stall` after `at` bytes.
        times: how often; more than there can be requests for always.
    """

    kind: str
    at: int = 0
    times: int = 1


@dataclass
class Hub:
    """The server's state: what it serves, what goes wrong, what was asked."""

    folder: Path
    faults: dict[str, Fault] = field(default_factory=dict)
    private: bool = False
    requests: list[Request] = field(default_factory=list)
    url: str = ""
    gone: bool = False
    stalled: threading.Event = field(default_factory=threading.Event)

    @property
    def files(self) -> list[str]:
        found = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        return sorted(path.as_posix() for path in found if not path.name.startswith("."))

    @property
    def fetched(self) -> list[str]:
        """Every repository file whose body was asked for, in order."""
        return [request.file for request in self.requests if request.method == "GET" and request.file]

    def listing(self) -> dict[str, Any]:
        siblings = []
        for path in self.files:
            content = content_of(self.folder / path)
            digest, git = digests_of(self.folder / path)
            sibling: dict[str, Any] = {"rfilename": path, "size": len(content), "blobId": git}
            if len(content) > _LFS_BYTES and not path.endswith("index.json"):
                sibling["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 130}
            siblings.append(sibling)
        siblings += [{"rfilename": path, "size": 10**9, "blobId": "0" * 40} for path in UNWANTED]
        return {
            "id": REPOSITORY,
            "modelId": REPOSITORY,
            "sha": COMMIT,
            "private": False,
            "siblings": siblings,
            "tags": [],
        }

    def take_fault(self, path: str, *kinds: str) -> Fault | None:
        fault = self.faults.get(path)
        if fault is None or fault.kind not in kinds or fault.times <= 0:
            return None
        fault.times -= 1
        return fault


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(send_body=False)

    def do_GET(self) -> None:
        self._answer(send_body=True)

    def _answer(self, send_body: bool) -> None:
        hub, path = self.hub, unquote(urlsplit(self.path).path)
        authorized = self.headers.get("authorization") == f"Bearer {TOKEN}"
        request = Request(self.command, path, self.headers.get("range", ""), authorized=authorized)
        hub.requests.append(request)
        if hub.gone:
            self.close_connection = True
            return
        if fault := hub.take_fault("api" if path.startswith("/api/") else path.rsplit(f"{COMMIT}/", 1)[-1], "status"):
            headers = {"Retry-After": "0"} if fault.at == 429 else {}
            return self._finish(request, fault.at, {"Content-Length": "0", **headers})
        if hub.private and not authorized and "/storage/" not in path:
            return self._finish(request, 401, {"Content-Length": "0", "X-Error-Code": "GatedRepo"})
        if path.startswith(f"/api/models/{REPOSITORY}/revision/"):
            if path.rsplit("/", 1)[1] not in ("main", COMMIT):
                return self._finish(request, 404, {"Content-Length": "0", "X-Error-Code": "RevisionNotFound"})
            body = json.dumps(hub.listing()).encode()
            return self._finish(
                request, 200, {"Content-Type": "application/json", "Content-Length": str(len(body))}, body
            )
        if path.startswith(f"/{REPOSITORY}/resolve/{COMMIT}/"):
            return self._file(request, path.split(f"{COMMIT}/", 1)[1], send_body)
        if path.startswith("/storage/"):
            return self._body(request, path.removeprefix("/storage/"), send_body)
        self._finish(request, 404, {"Content-Length": "0", "X-Error-Code": "RepoNotFound"})

    def _file(self, request: Request, path: str, send_body: bool) -> None:
        file = self.hub.folder / path
        if not file.is_file() or self.hub.take_fault(path, "missing"):
            headers = {"Content-Length": "0", "X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}
            return self._finish(request, 404, headers)
        content = content_of(file)
        if path.endswith(".safetensors"):
            digest = digests_of(file)[0]
            headers = {"X-Linked-Size": str(len(content)), "X-Linked-Etag": f'"{digest}"', "X-Repo-Commit": COMMIT}
            return self._finish(
                request, 302, {**headers, "Location": f"{self.hub.url}/storage/{path}", "Content-Length": "0"}
            )
        return self._body(request, path, send_body)

    def _body(self, request: Request, path: str, send_body: bool) -> None:
        content = content_of(self.hub.folder / path)
        start, headers, status = 0, {"X-Repo-Commit": COMMIT, "ETag": '"x"', "Accept-Ranges": "bytes"}, 200
        if (fault := self.hub.take_fault(path, "corrupt")) is not None:
            content = content[: fault.at] + bytes([content[fault.at] ^ 1]) + content[fault.at + 1 :]
        if (fault := self.hub.take_fault(path, "short", "long")) is not None:
            content = content[: -fault.at] if fault.kind == "short" else content + bytes(fault.at)
        if request.range:
            start, status = int(request.range.removeprefix("bytes=").rstrip("-")), 206
            if start >= len(content):
                return self._finish(request, 416, {"Content-Range": f"bytes */{len(content)}", "Content-Length": "0"})
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        body: bytes | memoryview = memoryview(content)[start:]
        headers["Content-Length"] = str(len(body))
        fault = self.hub.take_fault(path, "cut", "gone", "stall")
        if fault is None:
            return self._finish(request, status, headers, body if send_body else b"")
        self._finish(request, status, headers, body[: fault.at])
        self.wfile.flush()
        if fault.kind == "stall":
            self.hub.stalled.set()
            time.sleep(60)
        self.hub.gone = self.hub.gone or fault.kind == "gone"
        self.close_connection = True

    def _finish(self, request: Request, status: int, headers: dict[str, str], body: bytes | memoryview = b"") -> None:
        request.status = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        for place in range(0, len(body), _BLOCK):
            self.wfile.write(body[place : place + _BLOCK])


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, address: object) -> None:
        pass


@contextmanager
def serve(folder: Path, **settings: Any) -> Iterator[Hub]:
    """Serve a checkpoint folder until the block ends."""
    hub = Hub(folder, **settings)
    handler: Callable[..., _Handler] = type("Handler", (_Handler,), {"hub": hub})
    server = _Server(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
