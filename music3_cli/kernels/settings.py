"""torch's settings that belong to the whole process, for threads that want them at the same time.

Which arithmetic float32 products have and which kernel does attention are such settings. Two threads that set and
restore them without knowing of each other would leave each other's behind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from torch.nn.attention import SDPBackend, sdpa_kernel


@dataclass
class _Level:
    """Settings in force, and the threads that hold them, one entry for every time."""

    wanted: Hashable
    settings: AbstractContextManager[object]
    threads: list[int] = field(default_factory=list)


class SharedSettings:
    """One kind of setting. Who wants what is in force shares it; who wants something else waits until no other thread
    holds any. Within a thread settings nest, innermost last.

    Two threads that share and each want something else inside would wait for each other: a thread that runs beside
    others holds one at a time.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._levels: list[_Level] = []

    @contextmanager
    def held(self, wanted: Hashable, settings: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
        """Inside, what `settings` makes is in force; equal `wanted`, equal settings."""
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._is_free(wanted, me))
            if not self._levels or self._levels[-1].wanted != wanted:
                made = settings()
                made.__enter__()
                self._levels.append(_Level(wanted, made))
            level = self._levels[-1]
            level.threads.append(me)
        try:
            yield
        finally:
            with self._changed:
                level.threads.remove(me)
                while self._levels and not self._levels[-1].threads:
                    self._levels.pop().settings.__exit__(None, None, None)
                self._changed.notify_all()

    def _is_free(self, wanted: Hashable, me: int) -> bool:
        return all(
            thread == me or level.wanted == wanted == self._levels[-1].wanted
            for level in self._levels
            for thread in level.threads
        )


_ATTENTION = SharedSettings()


def attention_by(*kernels: SDPBackend) -> AbstractContextManager[None]:
    """Inside, torch's attention is one of these kernels."""
    return _ATTENTION.held(kernels, lambda: sdpa_kernel(list(kernels)))
