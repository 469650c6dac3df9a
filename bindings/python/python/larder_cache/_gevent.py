"""Waiting in a greenlet: the hub watches the queue, and switches to the greenlet whose call has ended."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import gevent
from gevent import monkey
from gevent.event import AsyncResult

from ._core import Call, Queue
from ._waiting import PerLoop


def is_patched() -> bool:
    """Whether the program waits in greenlets."""
    return monkey.is_module_patched("threading") or monkey.is_module_patched("socket")


def wait(cache: Any, call: Call) -> Any:
    """Blocks this greenlet until the call ends."""
    hub = gevent.get_hub()
    calls = _calls.get(hub, cache, lambda: _Calls(cache, hub))
    answer = AsyncResult()
    with calls.watching():
        started = calls.queue.start(answer, call)
        try:
            return answer.get()
        except BaseException:
            # The greenlet was killed or timed out. What has ended stays as it is.
            calls.queue.cancel(started)
            raise


class _Calls:
    """The calls of one hub on one cache. The hub watches the queue only while a greenlet waits: a watcher keeps it running."""

    def __init__(self, cache: Any, hub: Any) -> None:
        self.queue = Queue(cache)
        self._watcher = hub.loop.io(self.queue.fileno(), 1)
        self._waiting = 0

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        self._waiting += 1
        if self._waiting == 1:
            self._watcher.start(self._drain)
        try:
            yield
        finally:
            self._waiting -= 1
            if self._waiting == 0:
                self._watcher.stop()

    def _drain(self) -> None:
        for answer, result, raised in self.queue.take():
            if raised is None:
                answer.set(result)
            else:
                answer.set_exception(raised)


_calls: PerLoop[_Calls] = PerLoop()
