"""A cache: a namespace with its tiers."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Literal, TypeVar

from . import _core
from ._errors import OptionError
from ._view import Schema, View
from ._waiting import start, wait

F = TypeVar("F", bound=Callable[..., Any])

_open: weakref.WeakSet[Cache] = weakref.WeakSet()


class Cache(_core.Cache):
    """A namespace with its tiers: the memory of this process, and Redis if ``redis`` has its address.

    Options are those of larder, by their names: ``ttl``, ``grace``, ``redis``, ``memory_bytes``, ``max_lag`` and so on. A
    number of seconds or a ``timedelta`` is a time, and so is text with a unit, such as ``"250ms"`` or ``"5m"``.

    No thread is started and no connection opened before the first call that needs it. After a fork the child has an empty
    memory and connections of its own.

    >>> cache = Cache("shop", ttl="5m", memory_bytes="16MiB")
    >>> Cache("shop", tll="5m")
    Traceback (most recent call last):
    larder_cache._errors.OptionError: there is no option "tll"; did you mean ttl?
    """

    def __new__(cls, namespace: str, **options: Any) -> Cache:
        pairs = [(name, _text(name, value)) for name, value in options.items() if value is not None]
        cache = super().__new__(cls, namespace, pairs)
        _open.add(cache)
        return cache

    def view(
        self,
        name: str,
        *,
        schema: Schema | None = None,
        codec: Literal["messagepack", "json", "pickle"] = "messagepack",
        keys: Iterable[bytes] | None = None,
        shared: bool = False,
        **options: Any,
    ) -> View:
        """Values of one kind. Views of the same name and schema share their entries, in every program and language.

        ``schema`` is a name and a number, such as ``("product", 3)``: raise the number when the shape of the values changes,
        and older values are misses. Its default is the name of the view with the number 1.

        ``codec`` is ``"messagepack"``, which other languages read; ``"json"``, which they read too, and other programs as text in
        Redis; or ``"pickle"``, which needs ``keys``: secrets of at least 16 bytes. The first one signs what is written; all of them
        are accepted.

        ``shared`` makes all hits return one object, which no caller may change. Otherwise only objects that cannot be changed
        are shared, and the others are decoded at each hit.

        ``options`` are ``ttl``, ``negative_ttl`` (of ``None``), ``grace``, ``retry_after``, ``soft_timeout``, ``hard_timeout``,
        ``jitter``, ``tags``, and ``refresh_ahead``: a number such as ``0.8``, the part of the TTL after which a fetch loads a
        value again that is still fresh, or ``"by_cost"``, by a chance that is the greater the longer its last load took.
        """
        if codec not in ("messagepack", "json", "pickle"):
            raise OptionError(f"codec is {codec!r}; it must be 'messagepack', 'json' or 'pickle'")
        if (codec == "pickle") != (keys is not None):
            raise OptionError("codec 'pickle' needs keys, with which its values are signed, and no other codec has keys")
        return View(self, name, _schema(name, schema), shared, (codec, _secrets(keys)), options)

    def cached(self, **options: Any) -> Callable[[F], F]:
        """Caches a function by its arguments, in a view named after it. See :meth:`View.cached`.

        >>> cache = Cache("shop", ttl="5m")
        >>> @cache.cached(tags=["prices"])
        ... def price(product, currency="EUR"):
        ...     return 3
        >>> price("apple")
        3
        """

        def decorate(function: F) -> F:
            name = f"{function.__module__}.{function.__qualname__}"
            return self.view(name, schema=("cached", 1)).cached(**options)(function)

        return decorate

    def invalidate_tags(self, tags: Iterable[str], *, soft: bool = False) -> bool:
        """Invalidates all entries with one of these tags, on every node.

        Soft, they stay for their grace period, as stale values. Returns whether all nodes know: otherwise the invalidation
        holds in this process, and is queued and replayed until Redis confirms it.
        """
        return wait(self, self._invalidate_tags(_list(tags), soft))

    async def ainvalidate_tags(self, tags: Iterable[str], *, soft: bool = False) -> bool:
        """As :meth:`invalidate_tags`."""
        return await start(self, self._invalidate_tags(_list(tags), soft))

    def clear(self) -> bool:
        """Invalidates all entries of the namespace, on every node. Returns as :meth:`invalidate_tags` does."""
        return wait(self, self._clear())

    async def aclear(self) -> bool:
        """As :meth:`clear`."""
        return await start(self, self._clear())

    def delete_matched(self, pattern: str) -> int:
        """Deletes the keys whose ``view:key`` matches a pattern of Redis. Returns how many there were.

        It walks over all keys of the Redis: an invalidation of a tag takes one round trip.
        """
        return wait(self, self._delete_matched(pattern))[0]

    async def adelete_matched(self, pattern: str) -> int:
        """As :meth:`delete_matched`."""
        return (await start(self, self._delete_matched(pattern)))[0]

    def drain(self, limit: Any = 2.0) -> int:
        """Waits until Redis has confirmed every invalidation of this process. Returns how many are pending still."""
        return wait(self, self._drain(limit))

    async def adrain(self, limit: Any = 2.0) -> int:
        """As :meth:`drain`."""
        return await start(self, self._drain(limit))


def _list(tags: Iterable[str]) -> list[str]:
    if isinstance(tags, str):
        raise OptionError(f"tags is {tags!r}; it must be a list of texts")
    return list(tags)


def _schema(view: str, schema: Any) -> Schema:
    match schema:
        case None:
            return view, 1
        case (str(name), int(number)) if 0 <= number < 2**32 and number is not True and number is not False:
            return name, number
    raise OptionError(f"schema is {schema!r}; it must be a name and a number from 0 to 2^32 - 1, as in ('product', 3)")


def _secrets(keys: Iterable[bytes] | None) -> list[bytes] | None:
    """The keys of a view. The message has none of them."""
    if keys is None:
        return None
    secrets = [] if isinstance(keys, (str, bytes)) else list(keys)
    if isinstance(keys, (str, bytes)) or not all(isinstance(key, bytes) for key in secrets):
        raise OptionError(f"keys is of type {type(keys).__name__}; it must be a list of bytes")
    return secrets


def _text(name: str, value: Any) -> str:
    """An option as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return f"{value.total_seconds()}s"
    if isinstance(value, (int, float)) and name in _TIMES:
        return f"{value}s"
    return str(value)


#: The options whose number is one of seconds.
_TIMES = frozenset(_core.time_options())


@atexit.register
def _drain_all() -> None:
    """Gives the invalidations that Redis has not confirmed two seconds. They end with the process."""
    _core.exiting()
    for cache in list(_open):
        cache._drain_at_exit(2.0)
