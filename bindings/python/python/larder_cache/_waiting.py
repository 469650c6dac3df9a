"""How a caller waits for a call: a thread in larder, a coroutine or a greenlet in its event loop."""

from __future__ import annotations

import asyncio
import os
import sys
import weakref
from typing import Any

from ._core import Call, Queue

#: The queue of each event loop, or hub, on each cache.
Queues = weakref.WeakKeyDictionary[Any, "weakref.WeakKeyDictionary[Any, Queue]"]

_queues: Queues = weakref.WeakKeyDictionary()
#: Those of the parent. They are never dropped: to unwatch one would take it from the parent, which shares what it is watched by.
_inherited: list[Queues] = []


def _forget() -> None:
    global _queues
    _inherited.append(_queues)
    _queues = weakref.WeakKeyDictionary()


os.register_at_fork(after_in_child=_forget)


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
    queue = _queue(cache, loop)
    started = queue.start(future, call)
    future.add_done_callback(lambda future: queue.cancel(started) if future.cancelled() else None)
    return future


def _queue(cache: Any, loop: asyncio.AbstractEventLoop) -> Queue:
    of_loop = _queues.setdefault(loop, weakref.WeakKeyDictionary())
    queue = of_loop.get(cache)
    if queue is None:
        queue = of_loop[cache] = Queue(cache)
        # The loop has the queue as long as it watches it, and the queue has no reference to the loop but in its tokens.
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
