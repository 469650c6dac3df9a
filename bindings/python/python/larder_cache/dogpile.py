"""A backend of dogpile.cache, by the name ``larder_cache``.

>>> import larder_cache.dogpile
>>> from dogpile.cache import make_region
>>> arguments = {"namespace": "shop", "ttl": "1h", "keys": ["a secret of 16 bytes or more"]}
>>> region = make_region().configure("larder_cache", expiration_time=300, arguments=arguments)
>>> region.get_or_create("apple", lambda: 3)
3
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

from dogpile.cache import register_backend
from dogpile.cache.api import NO_VALUE, CacheBackend, CachedValue, CacheMutex

from ._cache import Cache
from ._errors import Contended, OptionError, RedisError
from ._registry import cache_of
from ._view import View
from ._waiting import wait

__all__ = ["LarderBackend"]

#: The seconds after which a waiting creator tries again: at first, and at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.2
#: An entry that ends within these seconds is not deleted: the deletion might arrive when it is that of another process.
MARGIN = 1.0
#: After as many attempts in a row that add no entry and find none, the cache must be turned off.
MOST_ABSENCES = 3

_log = logging.getLogger(__name__)


class LarderBackend(CacheBackend):
    """Values of a region: in the memory of each process, and in Redis if ``redis`` has its address.

    Arguments of the region:

    ``namespace`` is the first part of the keys in Redis, and ``view`` the second one, ``"dogpile"`` by default.

    ``keys`` are secrets of at least 16 bytes, texts or bytes. The first one signs the pickled values, all are accepted.
    Without them values are MessagePack: other objects raise an error when they are stored.

    ``ttl`` is when a value ends, expired or not. It should be longer than the ``expiration_time`` of the region.

    ``distributed_lock``, true by default, has one process create a value while the others wait or return the expired
    one. ``lock_timeout``, 30 seconds by default, is when another one may begin, since the first one may have died.

    All others are the options of :class:`larder_cache.Cache`. The backends of a process with the same ones share one
    cache, which is the attribute ``larder``; ``view`` has the values.
    """

    larder: Cache
    view: View

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        options = dict(arguments)
        namespace = options.pop("namespace", None)
        if not isinstance(namespace, str):
            raise OptionError(f"namespace is {namespace!r}; it must be a name without ':'")
        name = options.pop("view", None) or "dogpile"
        keys = _keys(options.pop("keys", None))
        self.distributed_lock = _truth("distributed_lock", options.pop("distributed_lock", None), True)
        self.lock_timeout = _seconds("lock_timeout", options.pop("lock_timeout", None), 30.0)
        self.larder = cache_of(namespace, options)
        self._is_pickled = keys is not None
        codec: Literal["messagepack", "pickle"] = "pickle" if self._is_pickled else "messagepack"
        self.view = self.larder.view(name, schema=("dogpile", 1), codec=codec, keys=keys)
        # Without a jitter: an entry that ends before lock_timeout would have two processes create.
        self._locks = self.larder.view(
            f"{name}-lock", schema=("dogpile-lock", 1), ttl=self.lock_timeout, jitter=0.0, grace=0
        )

    def get(self, key: str) -> Any:
        """The value with its metadata, or ``NO_VALUE``. Without Redis only memory has values."""
        return self._cached_value(self.view.get(key))

    def get_multi(self, keys: Iterable[str]) -> Sequence[Any]:
        """As :meth:`get`, in the order of the keys. One round trip."""
        keys = list(keys)
        found = self.view.get_many(keys)
        return [self._cached_value(found.get(key)) for key in keys]

    def get_serialized(self, key: str) -> Any:
        """The bytes that the serializer of the region has made, or ``NO_VALUE``."""
        return _serialized(self.view.get(key))

    def get_serialized_multi(self, keys: Iterable[str]) -> Sequence[Any]:
        """As :meth:`get_serialized`, in the order of the keys. One round trip."""
        keys = list(keys)
        found = self.view.get_many(keys)
        return [_serialized(found.get(key)) for key in keys]

    def set(self, key: str, value: Any) -> None:
        """Stores a value. Without Redis this process has it, and it is queued."""
        self._confirmed(self.view.set(key, self._stored(value)), "set", key)

    def set_multi(self, mapping: Mapping[str, Any]) -> None:
        """Stores values in one round trip."""
        values = {key: self._stored(value) for key, value in mapping.items()}
        if values:
            self._confirmed(self.view.set_many(values), "set", *values)

    def delete(self, key: str) -> None:
        """Removes a value from all processes. Without Redis it is queued."""
        _, is_everywhere = wait(self.larder, self.view._delete(key))
        self._confirmed(is_everywhere, "delete", key)

    def delete_multi(self, keys: Iterable[str]) -> None:
        """Removes values in one round trip."""
        keys = list(keys)
        if keys:
            _, is_everywhere = wait(self.larder, self.view._delete_many(keys))
            self._confirmed(is_everywhere, "delete", *keys)

    def get_mutex(self, key: str) -> CacheMutex | None:
        """The lock of a key: for all processes, or for the threads of this one with ``distributed_lock=False``."""
        return _Mutex(self, key) if self.distributed_lock else None

    def has_lock_timeout(self) -> bool:
        """Whether a second creator may begin while the first one still runs, after ``lock_timeout``."""
        return self.distributed_lock

    def _stored(self, value: Any) -> Any:
        """What a view stores: bytes of a serializer as they are, and a value with its metadata."""
        if self._is_pickled or isinstance(value, bytes):
            return value
        return [dict(value.metadata), value.payload]

    def _cached_value(self, found: Any) -> Any:
        if isinstance(found, CachedValue):
            return found
        if isinstance(found, list) and len(found) == 2 and isinstance(found[0], dict):
            return CachedValue(found[1], found[0])
        # Nothing, or the bytes of a region with another serializer.
        return NO_VALUE

    def _confirmed(self, is_everywhere: bool, what: str, *keys: str) -> None:
        if not is_everywhere:
            _log.warning("%s of %s is queued: Redis has not confirmed it", what, ", ".join(map(repr, keys)))


class _Mutex(CacheMutex):
    """The right to create the value of a key: a lock of this process, then an entry that one process adds.

    Without Redis the first one is all there is: one creator in each process.
    """

    def __init__(self, backend: LarderBackend, key: str) -> None:
        self._backend, self._key = backend, key
        self._local: _LocalLock | None = None
        self._until = 0.0

    def acquire(self, wait: bool = True) -> bool:
        # Looked up at each call: a child of a fork has locks of its own.
        local = _local_lock(self._backend, self._key)
        if not local.lock.acquire(wait):
            return False
        try:
            until = self._add(wait)
        except BaseException:
            local.lock.release()
            raise
        if until is None:
            local.lock.release()
            return False
        self._local, self._until = local, until
        return True

    def release(self) -> None:
        local, self._local = self._local, None
        if local is None:
            raise RuntimeError(f"the lock of {self._key!r} is not held")
        try:
            self._remove()
        finally:
            local.lock.release()

    def locked(self) -> bool:
        if _local_lock(self._backend, self._key).lock.locked():
            return True
        return self._backend._locks.ttl(self._key) is not None

    def _add(self, wait: bool) -> float | None:
        """Adds the entry that all processes see, and returns when it ends: 0 if this process does without.

        ``None`` if another process has added it.
        """
        timeout = self._backend.lock_timeout
        give_up, pause, absences = time.monotonic() + timeout, FIRST_PAUSE, 0
        while True:
            # Before the call: by this clock the entry ends no earlier.
            until = time.monotonic() + timeout
            try:
                if self._backend._locks.add(self._key, os.getpid()):
                    return until
            except Contended:
                pass
            except RedisError as error:
                _log.warning("the lock of %r is one of this process only: %s", self._key, error)
                return 0.0
            if not wait:
                return None
            # A cache that is turned off adds nothing, and nobody waits for that.
            absences = absences + 1 if self._backend._locks.ttl(self._key) is None else 0
            if absences == MOST_ABSENCES or time.monotonic() > give_up:
                return 0.0
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _remove(self) -> None:
        remaining = self._until - time.monotonic()
        if remaining > min(MARGIN, self._backend.lock_timeout / 2):
            self._backend._locks.delete(self._key)
        elif self._until and remaining < 0:
            # It has ended, and may be that of another process now.
            _log.warning("the creator of %r took longer than lock_timeout", self._key)


class _LocalLock:
    """A lock that is known as long as somebody has it, or waits for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_local_locks: weakref.WeakValueDictionary[tuple[int, int, str, str], _LocalLock] = weakref.WeakValueDictionary()
_guard = threading.Lock()


def _renew_guard() -> None:
    # At the fork another thread of the parent may have held it.
    global _guard
    _guard = threading.Lock()


os.register_at_fork(after_in_child=_renew_guard)


def _local_lock(backend: LarderBackend, key: str) -> _LocalLock:
    # A thread of the parent that held a lock at the fork is not in the child.
    name = (os.getpid(), id(backend.larder), backend.view.name, key)
    with _guard:
        lock = _local_locks.get(name)
        if lock is None:
            lock = _local_locks[name] = _LocalLock()
        return lock


def _serialized(found: Any) -> Any:
    return found if isinstance(found, bytes) else NO_VALUE


def _keys(keys: Any) -> list[bytes] | None:
    """The secrets as bytes. The messages have none of them."""
    if keys is None:
        return None
    secrets = [keys] if isinstance(keys, (str, bytes)) else keys
    if not isinstance(secrets, (list, tuple)) or not all(isinstance(key, (str, bytes)) for key in secrets):
        raise OptionError(f"keys is of type {type(keys).__name__}; it must be a list of texts or bytes")
    return [key.encode() if isinstance(key, str) else key for key in secrets]


def _truth(name: str, value: Any, default: bool) -> bool:
    if value is None:
        return default
    if not isinstance(value, bool):
        raise OptionError(f"{name} is {value!r}; it must be True or False")
    return value


def _seconds(name: str, value: Any, default: float) -> float:
    if value is None:
        return default
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < float("inf"):
        raise OptionError(f"{name} is {value!r}; it must be a number of seconds above 0, or a timedelta")
    return float(seconds)


register_backend("larder_cache", __name__, "LarderBackend")
