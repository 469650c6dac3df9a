"""How a caller waits for a call: a thread in larder, a coroutine or a greenlet in its event loop."""

from __future__ import annotations

import asyncio
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ._core import Call, Queue

T = TypeVar("T")


class PerLoop(Generic[T]):
    """What each event loop, or hub, has for each cache. A forked child begins with nothing."""

    def __init__(self) -> None:
        self._by_loop: weakref.WeakKeyDictionary[Any, weakref.WeakKeyDictionary[Any, T]] = weakref.WeakKeyDictionary()
        # What is of the parent is never dropped: to unwatch a queue would take it from the parent, with whom the child shares
        # what it is watched by.
        self._inherited: list[Any] = []
        os.register_at_fork(after_in_child=self._forget)

    def get(self, loop: Any, cache: Any, make: Callable[[], T]) -> T:
        """The one of this loop and cache, which ``make`` makes if there is none."""
        of_loop = self._by_loop.setdefault(loop, weakref.WeakKeyDictionary())
        found = of_loop.get(cache)
        if found is None:
            found = of_loop[cache] = make()
        return found

    def _forget(self) -> None:
        self._inherited.append(self._by_loop)
        self._by_loop = weakref.WeakKeyDictionary()


_queues: PerLoop[Queue] = PerLoop()


def wait(cache: Any, call: Call) -> Any:
    """Blocks until the call ends: the thread, or under gevent the greenlet alone.

    A thread must not wait in larder for a load that another greenlet of it leads.
    """
    if "gevent" in sys.modules:
        from . import _gevent

        if _gevent.is_patched():
            return _gevent.wait(cache, call)
    return call.wait()


def start(cache: Any, call: Call) -> asyncio.Future[Any]:
    """A future of the running loop. To cancel it drops the call."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    queue = _queues.get(loop, cache, lambda: _watched(cache, loop))
    started = queue.start(future, call)
    future.add_done_callback(lambda future: queue.cancel(started) if future.cancelled() else None)
    return future


def _watched(cache: Any, loop: asyncio.AbstractEventLoop) -> Queue:
    queue = Queue(cache)
    # The loop has no reference to the queue, and the queue none to the loop but in its tokens.
    loop.add_reader(queue.fileno(), _drain, weakref.ref(queue))
    weakref.finalize(queue, _unwatch, weakref.ref(loop), queue.fileno())
    return queue


def _unwatch(loop: weakref.ref[asyncio.AbstractEventLoop], descriptor: int) -> None:
    watching = loop()
    if watching is not None and not watching.is_closed():
        watching.remove_reader(descriptor)


def _drain(queue: weakref.ref[Queue]) -> None:
    ended = queue()
    if ended is None:
        return
    for future, result, raised in ended.take():
        # A future that was cancelled has its own end.
        if future.done():
            continue
        if raised is None:
            future.set_result(result)
        else:
            future.set_exception(raised)
