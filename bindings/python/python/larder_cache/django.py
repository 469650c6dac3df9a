"""The cache backend for Django, ``larder_cache.django.LarderCache``.

It maps the contract of Django's ``BaseCache`` (keys with prefix and version, timeouts, the ``a…`` twins) to a view of
one :class:`larder_cache.Cache`, which all threads and requests of the process share.

    CACHES = {
        "default": {
            "BACKEND": "larder_cache.django.LarderCache",
            "LOCATION": "redis://127.0.0.1:6379/0",
            "OPTIONS": {"namespace": "shop"},
        }
    }
"""

from __future__ import annotations

import contextlib
import copy
import hmac
import inspect
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.db import connections, transaction
from django.utils.encoding import force_bytes
from django.utils.functional import cached_property

from ._cache import Cache
from ._errors import LoadFailed, OptionError, RedisError
from ._registry import cache_of
from ._view import View
from ._waiting import start, wait

#: The entries of OPTIONS that are no options of larder, with their defaults.
_OWN_OPTIONS: dict[str, Any] = {
    "namespace": "django",
    "view": "django",
    "codec": "pickle",
    "strict": False,
    "store_in_atomic": True,
}
#: Django's own. Memory is limited by ``memory_bytes`` or ``memory_entries`` instead, and Redis by its ``maxmemory``.
_CULL_OPTIONS = ("MAX_ENTRIES", "CULL_FREQUENCY")

#: The seconds of a timeout of ``None``: 8,000 years, as larder has no value without a TTL.
_FOREVER = 2_920_000 * 86_400
#: The shortest TTL of larder, in seconds.
_SHORTEST = 0.001

#: The seconds for which a configuration does not repeat its warning about Redis.
_QUIET = 10.0

_MISSED = object()
#: Most keys. Django's own check looks at each letter, which takes longer than a hit.
_PORTABLE_KEY = re.compile("[!-~]{1,250}")

#: Seconds; ``None`` is for ever, and what is not above 0 is not stored.
Timeout = float | None
Version = int | None
Tags = Iterable[str] | None
Codec = Literal["pickle", "messagepack"]
#: A call of larder, and the function that makes the answer of a method of its result.
Pending = tuple[Any, Callable[[Any], Any]]


class LarderCache(BaseCache):
    """A backend whose values are in the memory of the process and, with a LOCATION, in Redis.

    ``MAX_ENTRIES`` and ``CULL_FREQUENCY`` have no effect.
    """

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        options = {name: value for name, value in params.get("OPTIONS", {}).items() if name not in _CULL_OPTIONS}
        own = {name: options.pop(name, default) for name, default in _OWN_OPTIONS.items()}
        _check(own, options)
        if location:
            options["redis"] = _address(location, options)
        self._strict: bool = own["strict"]
        self._store_in_atomic: bool = own["store_in_atomic"]
        self._view_name, self._codec = own["view"], own["codec"]
        self._shared = _shared_of(own["namespace"], options)

    @property
    def larder(self) -> Cache:
        """The cache behind this backend, for its ``stats()``, ``coherence()`` and ``drain()``."""
        return self._shared.cache

    # Reading.

    def validate_key(self, key: str) -> None:
        """Warns of keys that memcached does not take, as Django's backends do."""
        if not _PORTABLE_KEY.fullmatch(key):
            super().validate_key(key)

    def get(self, key: Any, default: Any = None, version: Version = None) -> Any:
        """The value, or ``default``. Without Redis, what memory does not have is a miss."""
        return self._view.get(self.make_and_validate_key(key, version), default)

    async def aget(self, key: Any, default: Any = None, version: Version = None) -> Any:
        """As :meth:`get`."""
        return await self._view.aget(self.make_and_validate_key(key, version), default)

    def get_many(self, keys: Iterable[Any], version: Version = None) -> dict[Any, Any]:
        """The values that are there, by their keys. One round trip for those that memory does not have."""
        return self._wait(self._get_many(keys, version))

    async def aget_many(self, keys: Iterable[Any], version: Version = None) -> dict[Any, Any]:
        """As :meth:`get_many`."""
        return await self._await(self._get_many(keys, version))

    # Loading.

    def get_or_set(
        self, key: Any, default: Any, timeout: Timeout = DEFAULT_TIMEOUT, version: Version = None, *, tags: Tags = None
    ) -> Any:
        """The value. If there is none, ``default`` is stored: a value, or a function that makes one.

        Of many callers, in all processes, one calls its function. If that raises, all get the stale value if there is
        one within its grace period. Otherwise each caller of this process that waited raises a copy of the exception.
        """
        load, options = _loader(default), self._write_options(timeout, tags)
        if options is None or self._keeps_apart():
            found = self.get(key, _MISSED, version)
            return load() if found is _MISSED else found
        with _failures_of_others():
            return self._view.fetch(self.make_and_validate_key(key, version), load, **options)

    async def aget_or_set(
        self, key: Any, default: Any, timeout: Timeout = DEFAULT_TIMEOUT, version: Version = None, *, tags: Tags = None
    ) -> Any:
        """As :meth:`get_or_set`. ``default`` may also be a coroutine function."""
        load, options = _loader(default), self._write_options(timeout, tags)
        if options is None or await self._akeeps_apart():
            found = await self.aget(key, _MISSED, version)
            if found is not _MISSED:
                return found
            value = load()
            return await value if inspect.isawaitable(value) else value
        with _failures_of_others():
            return await self._view.afetch(self.make_and_validate_key(key, version), load, **options)

    # Writing.

    def set(
        self, key: Any, value: Any, timeout: Timeout = DEFAULT_TIMEOUT, version: Version = None, *, tags: Tags = None
    ) -> None:
        """Stores a value, and invalidates the one that other processes have in memory."""
        self._wait(self._set(key, value, timeout, version, tags))

    async def aset(
        self, key: Any, value: Any, timeout: Timeout = DEFAULT_TIMEOUT, version: Version = None, *, tags: Tags = None
    ) -> None:
        """As :meth:`set`."""
        await self._await(self._set(key, value, timeout, version, tags))

    def set_many(
        self, data: Mapping[Any, Any], timeout: Timeout = DEFAULT_TIMEOUT, version: Version = None, *, tags: Tags = None
    ) -> list[Any]:
        """Stores values by their keys. The list of those that could not be stored is always empty."""
        return self._wait(self._set_many(data, timeout, version, tags))

    async def aset_many(
        self, data: Mapping[Any, Any], timeout: Timeout = DEFAULT_TIMEOUT, version: Version = None, *, tags: Tags = None
    ) -> list[Any]:
        """As :meth:`set_many`."""
        return await self._await(self._set_many(data, timeout, version, tags))

    def add(
        self, key: Any, value: Any, timeout: Timeout = DEFAULT_TIMEOUT, version: Version = None, *, tags: Tags = None
    ) -> bool:
        """Stores a value if there is none. Returns whether there was none.

        Raises ``RedisError`` if Redis does not answer.
        """
        return self._wait(self._add(key, value, timeout, version, tags))

    async def aadd(
        self, key: Any, value: Any, timeout: Timeout = DEFAULT_TIMEOUT, version: Version = None, *, tags: Tags = None
    ) -> bool:
        """As :meth:`add`."""
        return await self._await(self._add(key, value, timeout, version, tags))

    def incr(self, key: Any, delta: int = 1, version: Version = None) -> int:
        """Adds to a whole number in one step, which keeps its timeout. ``decr`` is the same with ``-delta``.

        Raises ``RedisError`` if Redis does not answer.
        """
        return self._wait(self._incr(key, delta, version))

    async def aincr(self, key: Any, delta: int = 1, version: Version = None) -> int:
        """As :meth:`incr`."""
        return await self._await(self._incr(key, delta, version))

    def touch(self, key: Any, timeout: Timeout = DEFAULT_TIMEOUT, version: Version = None) -> bool:
        """Gives a value another timeout. Returns whether it was there.

        Raises ``RedisError`` if Redis does not answer.
        """
        return self._wait(self._touch(key, timeout, version))

    async def atouch(self, key: Any, timeout: Timeout = DEFAULT_TIMEOUT, version: Version = None) -> bool:
        """As :meth:`touch`."""
        return await self._await(self._touch(key, timeout, version))

    # Removing.

    def delete(self, key: Any, version: Version = None) -> bool:
        """Removes a value in every process. Returns whether there was one."""
        return self._wait(self._delete(self.make_and_validate_key(key, version)))

    async def adelete(self, key: Any, version: Version = None) -> bool:
        """As :meth:`delete`."""
        return await self._await(self._delete(self.make_and_validate_key(key, version)))

    def delete_many(self, keys: Iterable[Any], version: Version = None) -> None:
        """Removes values in every process, in one round trip."""
        self._wait(self._delete_many(self._made(keys, version)))

    async def adelete_many(self, keys: Iterable[Any], version: Version = None) -> None:
        """As :meth:`delete_many`."""
        await self._await(self._delete_many(self._made(keys, version)))

    def invalidate_tags(self, tags: Iterable[str]) -> None:
        """Removes all values with one of these tags, in every process."""
        self._wait((self.larder._invalidate_tags(_texts("tags", tags), False), self._confirm))

    async def ainvalidate_tags(self, tags: Iterable[str]) -> None:
        """As :meth:`invalidate_tags`."""
        await self._await((self.larder._invalidate_tags(_texts("tags", tags), False), self._confirm))

    def invalidate_on_commit(
        self, *, keys: Iterable[Any] = (), tags: Iterable[str] = (), version: Version = None, alias: str = "default"
    ) -> None:
        """Removes keys and tags once the open transaction of the database ``alias`` commits; at once if none is open.

        A removal before the commit is too early: another request misses, loads the row as it was before, and stores
        that after the removal. After a rollback nothing is removed.
        """
        made, tags = self._made(_several("keys", keys), version), _texts("tags", tags)

        def invalidate() -> None:
            reached = True
            if made:
                reached = wait(self.larder, self._view._delete_many(made))[1]
            if tags:
                reached = self.larder.invalidate_tags(tags) and reached
            self._confirm(reached)

        transaction.on_commit(invalidate, using=alias)

    def clear(self) -> None:
        """Removes everything of the namespace in every process: also what other aliases and other views have there."""
        self._wait((self.larder._clear(), self._confirm))

    async def aclear(self) -> None:
        """As :meth:`clear`."""
        await self._await((self.larder._clear(), self._confirm))

    def close(self, **kwargs: Any) -> None:
        """Does nothing. Django calls it after each request, and the process keeps its memory and its connections."""

    async def aclose(self, **kwargs: Any) -> None:
        """As :meth:`close`."""

    # The calls, which a method and its twin share.

    def _get_many(self, keys: Iterable[Any], version: Version) -> Pending:
        made = {key: self.make_and_validate_key(key, version) for key in keys}

        def by_key(found: dict[str, Any]) -> dict[Any, Any]:
            return {key: found[own] for key, own in made.items() if own in found}

        return self._view._read_many(made.values()), by_key

    def _set(self, key: Any, value: Any, timeout: Timeout, version: Version, tags: Tags) -> Pending:
        made, options = self.make_and_validate_key(key, version), self._write_options(timeout, tags)
        if options is None:
            return self._delete(made)
        return self._view._write(made, value, options), self._confirm

    def _set_many(self, data: Mapping[Any, Any], timeout: Timeout, version: Version, tags: Tags) -> Pending:
        made = {self.make_and_validate_key(key, version): value for key, value in data.items()}
        options = self._write_options(timeout, tags)
        if options is None:
            call, confirm = self._delete_many(list(made))
        else:
            call, confirm = self._view._write_many(made, options), self._confirm
        return call, lambda result: confirm(result) or []

    def _add(self, key: Any, value: Any, timeout: Timeout, version: Version, tags: Tags) -> Pending:
        made, options = self.make_and_validate_key(key, version), self._write_options(timeout, tags)
        if options is None:
            return self._view._read(made, _MISSED), lambda found: found is _MISSED
        return self._view._add(made, value, options), bool

    def _incr(self, key: Any, delta: int, version: Version) -> Pending:
        def checked(result: Any) -> int:
            if result is None:
                raise ValueError(f"Key '{key}' not found")
            if result is False:
                raise TypeError(f"the value of key {key!r} is no whole number, or the sum has more than 64 bits")
            return result

        return self._view._increment(self.make_and_validate_key(key, version), delta), checked

    def _touch(self, key: Any, timeout: Timeout, version: Version) -> Pending:
        made, options = self.make_and_validate_key(key, version), self._write_options(timeout, None)
        return self._delete(made) if options is None else (self._view._touch(made, options), bool)

    def _delete(self, made: str) -> Pending:
        def existed(removed: tuple[bool, bool]) -> bool:
            self._confirm(removed[1])
            return removed[0]

        return self._view._delete(made), existed

    def _delete_many(self, made: list[str]) -> Pending:
        return self._view._delete_many(made), lambda removed: self._confirm(removed[1])

    def _wait(self, pending: Pending) -> Any:
        call, answer = pending
        return answer(wait(self.larder, call))

    async def _await(self, pending: Pending) -> Any:
        call, answer = pending
        return answer(await start(self.larder, call))

    def _confirm(self, reached: bool) -> None:
        """Takes whether all nodes know of a mutation."""
        if reached:
            return
        if self._strict:
            raise RedisError("redis did not confirm: the mutation holds in this process and is queued for the others")
        self._shared.warn()

    # What a call is made of.

    @cached_property
    def _view(self) -> View:
        # Not before the first call: a process that only imports its settings may have no SECRET_KEY.
        return self._shared.view(self._view_name, self._codec)

    def _made(self, keys: Iterable[Any], version: Version) -> list[str]:
        return [self.make_and_validate_key(key, version) for key in keys]

    def _write_options(self, timeout: Timeout, tags: Tags) -> dict[str, Any] | None:
        """The options of a write. ``None`` if a value with this timeout is not stored."""
        if timeout is DEFAULT_TIMEOUT:
            timeout = self.default_timeout
        if timeout is None:
            timeout = _FOREVER
        elif not isinstance(timeout, (int, float)):
            raise TypeError(f"timeout is {timeout!r}; it must be a number of seconds, or None")
        if timeout <= 0:
            return None
        options: dict[str, Any] = {"ttl": min(max(timeout, _SHORTEST), _FOREVER)}
        if tags is not None:
            options["tags"] = _texts("tags", tags)
        return options

    def _keeps_apart(self) -> bool:
        """Whether a load may see rows that are not committed. Then no other caller gets its value either."""
        if self._store_in_atomic:
            return False
        return any(connection.in_atomic_block for connection in connections.all(initialized_only=True))

    async def _akeeps_apart(self) -> bool:
        if self._store_in_atomic:
            return False
        # The connections of a coroutine belong to the thread in which Django runs its queries.
        return await sync_to_async(self._keeps_apart, thread_sensitive=True)()


class _Shared:
    """What all backend objects of one configuration share: Django makes one for each thread and alias."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._views: dict[Any, View] = {}
        self._quiet_until = 0.0

    def view(self, name: str, codec: Codec) -> View:
        keys = tuple(_signing_keys()) if codec == "pickle" else None
        view = self._views.get((name, codec, keys))
        if view is None:
            # Two threads may both make one. Views of one name share their entries.
            view = self._views[name, codec, keys] = self.cache.view(name, codec=codec, keys=keys)
        return view

    def warn(self) -> None:
        """Logs that Redis did not confirm a mutation. Not for each one: there are as many as requests."""
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + _QUIET
            logging.getLogger("larder_cache").warning(
                "redis did not confirm a mutation of namespace %r, which is queued: %d are pending",
                self.cache.namespace,
                self.cache.coherence()["pending_invalidations"],
            )


#: For as long as the process: between two requests there may be no backend object.
_shared: dict[Cache, _Shared] = {}


def _shared_of(namespace: str, options: dict[str, Any]) -> _Shared:
    # No value has this TTL: each write has its own.
    cache = cache_of(namespace, {**options, "ttl": _FOREVER})
    return _shared.setdefault(cache, _Shared(cache))


def _signing_keys() -> Iterator[bytes]:
    """The keys that sign pickles: the first one writes, all read. They are derived, and so used for nothing else."""
    for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        yield hmac.digest(force_bytes(secret), b"larder_cache.django.LarderCache: signed values", "sha256")


def _check(own: dict[str, Any], options: dict[str, Any]) -> None:
    """Refuses entries of OPTIONS that larder would not see, or would not name as they are named in the settings."""
    for name in ("namespace", "view"):
        if not isinstance(own[name], str):
            raise OptionError(f"{name} is {own[name]!r}; it must be a text")
    for name in ("strict", "store_in_atomic"):
        if not isinstance(own[name], bool):
            raise OptionError(f"{name} is {own[name]!r}; it must be True or False")
    if own["codec"] not in ("pickle", "messagepack"):
        raise OptionError(f"codec is {own['codec']!r}; it must be 'pickle' or 'messagepack'")
    if "ttl" in options:
        raise OptionError(f"ttl is {options['ttl']!r}; it must not be in OPTIONS: TIMEOUT is the time to live")
    if own["codec"] == "pickle" and "negative_ttl" in options:
        raise OptionError(f"negative_ttl is {options['negative_ttl']!r}; it needs the codec 'messagepack'")


def _address(location: Any, options: dict[str, Any]) -> str:
    if not isinstance(location, str):
        raise OptionError(f"LOCATION is {location!r}; it must be one address of Redis, as a text")
    if options.get("redis") is not None:
        raise OptionError(f"redis is {options['redis']!r}; it must not be in OPTIONS if there is a LOCATION")
    return location


def _several(name: str, values: Iterable[Any]) -> list[Any]:
    # One text would be taken for its letters.
    if isinstance(values, (str, bytes)):
        raise OptionError(f"{name} is {values!r}; it must be a list")
    return list(values)


def _texts(name: str, values: Iterable[str]) -> list[str]:
    texts = _several(name, values)
    for text in texts:
        if not isinstance(text, str):
            raise OptionError(f"{name} has {text!r}; it must be a list of texts")
    return texts


def _loader(default: Any) -> Callable[[], Any]:
    return default if callable(default) else lambda: default


@contextlib.contextmanager
def _failures_of_others() -> Iterator[None]:
    """Raises what the load of another caller raised as if it were this caller's, who may expect ``DoesNotExist``.

    A copy: of one object each thread that raises it would extend the traceback.
    """
    try:
        yield
    except LoadFailed as failed:
        raised = _copy(failed.__cause__)
        if raised is None:
            raise
        raise raised from failed


def _copy(raised: BaseException | None) -> BaseException | None:
    """``None`` if the class cannot be made from the arguments that its exception has."""
    try:
        copied = copy.copy(raised)
    except Exception:
        return None
    return copied if type(copied) is type(raised) else None
