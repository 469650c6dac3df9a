"""The caches of this process by their options, for frameworks that make their backends again and again."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from ._cache import Cache, _text

Options = tuple[tuple[str, str], ...]

#: A cache that no backend uses ends, with its threads and connections.
_caches: weakref.WeakValueDictionary[tuple[str, Options], Cache] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def _renew_lock() -> None:
    # At the fork another thread of the parent may have held it.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def cache_of(namespace: str, options: Mapping[str, Any]) -> Cache:
    """The one cache of this process with these options, for all threads and backends. One that was closed stays closed: backends
    that are made later get another one."""
    pairs = sorted((name, _text(name, value)) for name, value in options.items() if value is not None)
    key = (namespace, tuple(pairs))
    with _lock:
        cache = _caches.get(key)
        if cache is None or cache._is_closed:
            cache = _caches[key] = Cache(namespace, **options)
        return cache
