"""A view: values of one kind in a cache."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar, cast, overload

from . import _core
from ._core import BulkLoad, Call, Load, Update, Waiting, key_bytes
from ._errors import LarderError, RecursiveLoad
from ._waiting import start, wait

Schema = tuple[str, int]
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

#: A cache by its identity, the name of a view, and a key.
Loading = bytes


class _Leading:
    """A loader that runs. Tasks and threads that it starts have its context, also after its end."""

    def __init__(self, keys: tuple[Loading, ...]) -> None:
        self.keys = frozenset(keys)


#: The loaders around the present caller, the outermost first.
_leading: ContextVar[tuple[_Leading, ...]] = ContextVar("larder_leading", default=())

_MISSED = object()
#: Values that cannot be read are loaded anew; this stands for one.
_UNREADABLE = NotImplemented


class View(_core.View):
    """Values of one kind. Made by :meth:`Cache.view`.

    Each call that may wait has a twin with an ``a`` before its name, to be awaited.
    """

    cache: Any
    name: str

    def __new__(cls, cache: Any, name: str, *arguments: Any) -> View:
        view = super().__new__(cls, cache, name, *arguments)
        view.cache, view.name = cache, name
        return view

    # Reading.

    def get(self, key: Any, default: Any = None) -> Any:
        """The value, or ``default``."""
        found = self.hit(key, _MISSED)
        return wait(self.cache, self._read(key, default)) if found is _MISSED else found

    async def aget(self, key: Any, default: Any = None) -> Any:
        """As :meth:`get`."""
        found = self.hit(key, _MISSED)
        return await start(self.cache, self._read(key, default)) if found is _MISSED else found

    def get_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """The values that are there, by their keys. One round trip for those that memory does not have."""
        return wait(self.cache, self._read_many(keys))

    async def aget_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """As :meth:`get_many`."""
        return await start(self.cache, self._read_many(keys))

    def ttl(self, key: Any) -> float | None:
        """The seconds for which a value is fresh. ``None`` if there is none."""
        return wait(self.cache, self._ttl(key))

    async def attl(self, key: Any) -> float | None:
        """As :meth:`ttl`."""
        return await start(self.cache, self._ttl(key))

    # Loading.

    def fetch(self, key: Any, loader: Callable[..., T], /, *, with_load: bool = False, **options: Any) -> T:
        """The value, which ``loader`` makes if there is none, or if ``refresh`` is true. Of many callers one loads.

        It runs in this thread. With ``with_load`` it gets a :class:`Load`, which has the stale value and options of the new one.

        With ``refresh_ahead``, here or in the view, the first caller that finds the value due loads it while it is fresh, and
        gets what it has loaded; the others go on with the value. If that load fails, the caller gets the value too.

        >>> import larder_cache
        >>> view = larder_cache.Cache("shop", ttl="5m").view("price")
        >>> view.fetch("apple", lambda: 3)
        3
        >>> view.fetch("apple", lambda: 4)
        3
        """
        found = self._found(key, options)
        if found is not _MISSED and not isinstance(found, Call):
            return found
        own = self._own(key)
        with _waiting(own):
            leased = wait(self.cache, found if isinstance(found, Call) else self._lease(key, options))
            if leased is _UNREADABLE:
                leased = wait(self.cache, self._lease(key, {**options, "refresh": True}))
        if not isinstance(leased, Load):
            return leased
        try:
            with _lead(own):
                value = loader(leased) if with_load else loader()
        except Exception as raised:
            return wait(self.cache, leased._fail(raised))
        except BaseException:
            # An interruption fails nobody: the next caller leads.
            leased._abandon()
            raise
        return wait(self.cache, leased._keep() if value is KEEP else leased._complete(value))

    @overload
    async def afetch(
        self, key: Any, loader: Callable[..., Awaitable[T]], /, *, with_load: bool = False, **options: Any
    ) -> T: ...
    @overload
    async def afetch(
        self, key: Any, loader: Callable[..., T], /, *, with_load: bool = False, **options: Any
    ) -> T: ...
    async def afetch(
        self, key: Any, loader: Callable[..., Any], /, *, with_load: bool = False, **options: Any
    ) -> Any:
        """The value, which ``loader`` makes if there is none: a coroutine function, or a function.

        It runs in the task that awaits this. When that is cancelled, the next caller loads.
        """
        found = self._found(key, options)
        if found is not _MISSED and not isinstance(found, Call):
            return found
        own = self._own(key)
        with _waiting(own):
            leased = await start(self.cache, found if isinstance(found, Call) else self._lease(key, options))
            if leased is _UNREADABLE:
                leased = await start(self.cache, self._lease(key, {**options, "refresh": True}))
        if not isinstance(leased, Load):
            return leased
        try:
            with _lead(own):
                value = loader(leased) if with_load else loader()
                if inspect.isawaitable(value):
                    value = await value
        except Exception as raised:
            return await start(self.cache, leased._fail(raised))
        except BaseException:
            leased._abandon()
            raise
        return await start(self.cache, leased._keep() if value is KEEP else leased._complete(value))

    def fetch_many(
        self,
        keys: Iterable[Any],
        loader: Callable[..., Mapping[Any, Any]],
        /,
        *,
        with_load: bool = False,
        **options: Any,
    ) -> dict[Any, Any]:
        """The values by their keys. ``loader`` gets the keys that are nowhere and returns their values by key.

        It may be called again for keys that another caller was about to load and did not.
        """
        keys = list(keys)
        with _waiting(*(self._own(key) for key in keys)):
            leased = wait(self.cache, self._lease_many(keys, options))
            while isinstance(leased, BulkLoad):
                wanted = leased.keys
                try:
                    with _lead(*map(self._own, wanted)):
                        values = loader(wanted, leased) if with_load else loader(wanted)
                    values = dict(values)
                except Exception as raised:
                    return wait(self.cache, leased._fail(raised))
                except BaseException:
                    leased._abandon()
                    raise
                leased = wait(self.cache, leased._complete(values))
        return leased

    async def afetch_many(
        self, keys: Iterable[Any], loader: Callable[..., Any], /, *, with_load: bool = False, **options: Any
    ) -> dict[Any, Any]:
        """As :meth:`fetch_many`, with a coroutine function or a function."""
        keys = list(keys)
        with _waiting(*(self._own(key) for key in keys)):
            leased = await start(self.cache, self._lease_many(keys, options))
            while isinstance(leased, BulkLoad):
                wanted = leased.keys
                try:
                    with _lead(*map(self._own, wanted)):
                        values = loader(wanted, leased) if with_load else loader(wanted)
                        if inspect.isawaitable(values):
                            values = await values
                    values = dict(values)
                except Exception as raised:
                    return await start(self.cache, leased._fail(raised))
                except BaseException:
                    leased._abandon()
                    raise
                leased = await start(self.cache, leased._complete(values))
        return leased

    # Writing. Each returns whether all nodes know: if not, it holds here, is queued, and is replayed as a deletion.

    def set(self, key: Any, value: Any, **options: Any) -> bool:
        """Stores a value in both tiers, and invalidates the one that other nodes have."""
        return wait(self.cache, self._write(key, value, options))

    async def aset(self, key: Any, value: Any, **options: Any) -> bool:
        """As :meth:`set`."""
        return await start(self.cache, self._write(key, value, options))

    def set_many(self, values: Mapping[Any, Any], **options: Any) -> bool:
        """Stores values by their keys."""
        return wait(self.cache, self._write_many(dict(values), options))

    async def aset_many(self, values: Mapping[Any, Any], **options: Any) -> bool:
        """As :meth:`set_many`."""
        return await start(self.cache, self._write_many(dict(values), options))

    def add(self, key: Any, value: Any, **options: Any) -> bool:
        """Stores a value if there is none. Returns whether it did."""
        return wait(self.cache, self._add(key, value, options))

    async def aadd(self, key: Any, value: Any, **options: Any) -> bool:
        """As :meth:`add`."""
        return await start(self.cache, self._add(key, value, options))

    def incr(self, key: Any, by: int = 1, *, initial: int | None = None, **options: Any) -> int | None:
        """Adds to a whole number in one step and returns the sum, which keeps the time to live.

        Without a value it stores ``initial``, or returns ``None`` if that is ``None``.
        """
        return _sum(key, wait(self.cache, self._increment(key, by, initial, options)))

    async def aincr(self, key: Any, by: int = 1, *, initial: int | None = None, **options: Any) -> int | None:
        """As :meth:`incr`."""
        return _sum(key, await start(self.cache, self._increment(key, by, initial, options)))

    def update(self, key: Any, function: Callable[[Any], Any], /, *, default: Any = None, **options: Any) -> Any:
        """Replaces or removes a value by what a function makes of it, in one step. Returns the value that is there then.

        The function gets the value, or ``default`` if there is none, and returns another one, ``KEEP`` or ``REMOVE``. It runs in
        this thread, and is called again if another writer comes first: it must be short, have no effects of its own, and not
        update that key. A value keeps the times and tags of the one that it replaces, or has those of ``options``, if there are any.

        >>> import larder_cache
        >>> stock = larder_cache.Cache("shop", ttl="5m").view("stock")
        >>> stock.update("apple", lambda count: count + 7, default=0)
        7
        >>> stock.update("apple", lambda count: count - 1 if count else larder_cache.KEEP)
        6
        """
        step = wait(self.cache, self._update(key, default, options))
        while isinstance(step, Update):
            try:
                step = wait(self.cache, _decided(step, function(step.value)))
            except BaseException:
                step._abandon()
                raise
        return step

    async def aupdate(
        self, key: Any, function: Callable[[Any], Any], /, *, default: Any = None, **options: Any
    ) -> Any:
        """As :meth:`update`, with a coroutine function or a function."""
        step = await start(self.cache, self._update(key, default, options))
        while isinstance(step, Update):
            try:
                made = function(step.value)
                if inspect.isawaitable(made):
                    made = await made
                step = await start(self.cache, _decided(step, made))
            except BaseException:
                step._abandon()
                raise
        return step

    def touch(self, key: Any, **options: Any) -> bool:
        """Gives a value another time to live, or another grace period. Returns whether it was there."""
        return wait(self.cache, self._touch(key, options))

    async def atouch(self, key: Any, **options: Any) -> bool:
        """As :meth:`touch`."""
        return await start(self.cache, self._touch(key, options))

    # Removing.

    def delete(self, key: Any) -> bool:
        """Removes a value on every node. Returns whether there was one."""
        return wait(self.cache, self._delete(key))[0]

    async def adelete(self, key: Any) -> bool:
        """As :meth:`delete`."""
        return (await start(self.cache, self._delete(key)))[0]

    def delete_many(self, keys: Iterable[Any]) -> int:
        """Removes values on every node. Returns how many there were."""
        return wait(self.cache, self._delete_many(keys))[0]

    async def adelete_many(self, keys: Iterable[Any]) -> int:
        """As :meth:`delete_many`."""
        return (await start(self.cache, self._delete_many(keys)))[0]

    def expire(self, key: Any) -> bool:
        """Makes a value stale on every node: it stays for its grace period. Returns whether there was one."""
        return wait(self.cache, self._expire(key))[0]

    async def aexpire(self, key: Any) -> bool:
        """As :meth:`expire`."""
        return (await start(self.cache, self._expire(key)))[0]

    def take(self, key: Any, default: Any = None) -> Any:
        """Removes a value and returns it: of several callers one gets it."""
        return wait(self.cache, self._take(key, default))

    async def atake(self, key: Any, default: Any = None) -> Any:
        """As :meth:`take`."""
        return await start(self.cache, self._take(key, default))

    # Functions.

    def cached(
        self, *, key: Callable[..., Any] | None = None, tags: Any = None, **options: Any
    ) -> Callable[[F], F]:
        """Caches a function, also a coroutine function, by its arguments.

        ``key`` makes a key of the arguments; without it they must be text, bytes, whole numbers, booleans or ``None``. ``tags``
        are a list, or a function that makes one of the arguments. The function that this returns has ``key(*arguments)``,
        ``delete(*arguments)`` or ``adelete``, and ``view``.
        """

        def decorate(function: F) -> F:
            key_of = key or functools.partial(_key_of, inspect.signature(function))

            def options_of(arguments: tuple[Any, ...], words: dict[str, Any]) -> dict[str, Any]:
                if tags is None:
                    return options
                return {**options, "tags": tags(*arguments, **words) if callable(tags) else tags}

            cached: Any
            if inspect.iscoroutinefunction(function):

                @functools.wraps(function)
                async def awaited(*arguments: Any, **words: Any) -> Any:
                    load = functools.partial(function, *arguments, **words)
                    return await self.afetch(key_of(*arguments, **words), load, **options_of(arguments, words))

                cached = awaited
            else:

                @functools.wraps(function)
                def blocking(*arguments: Any, **words: Any) -> Any:
                    load = functools.partial(function, *arguments, **words)
                    return self.fetch(key_of(*arguments, **words), load, **options_of(arguments, words))

                cached = blocking
            cached.key = key_of
            cached.delete = lambda *arguments, **words: self.delete(key_of(*arguments, **words))
            cached.adelete = lambda *arguments, **words: self.adelete(key_of(*arguments, **words))
            cached.view = self
            return cast(F, cached)

        return decorate

    def _found(self, key: Any, options: dict[str, Any]) -> Any:
        """The value in memory, ``_MISSED``, or the call that leads its load if it is due."""
        if options.get("refresh"):
            return _MISSED
        if self._loads_ahead or "refresh_ahead" in options:
            return self._hit_ahead(key, _MISSED, options)
        return self.hit(key, _MISSED)

    def _own(self, key: Any) -> Loading:
        """The key as the loads of this caller know it. Raises if it is being loaded."""
        own = b"%d\0%s\0%s" % (id(self.cache), self.name.encode(), key_bytes(key))
        if any(own in leading.keys for leading in _leading.get()):
            raise RecursiveLoad(f"the loader of key {key!r} of view {self.name!r} fetches that key: it would wait for itself")
        return own


class _Keep:
    def __repr__(self) -> str:
        return "larder_cache.KEEP"


#: What a loader returns that has found the stale value, ``load.stale``, unchanged: it is fresh again. From the function of an update:
#: the value stays as it is.
KEEP = _Keep()


class _Remove:
    def __repr__(self) -> str:
        return "larder_cache.REMOVE"


#: What the function of an update returns to remove the value.
REMOVE = _Remove()


def _decided(step: Update, made: Any) -> Call:
    if made is KEEP:
        return step._keep()
    return step._remove() if made is REMOVE else step._put(made)


@contextlib.contextmanager
def _lead(*keys: Loading) -> Iterator[None]:
    leading = _Leading(keys)
    token = _leading.set((*_leading.get(), leading))
    try:
        yield
    finally:
        _leading.reset(token)
        leading.keys = frozenset()


@contextlib.contextmanager
def _waiting(*wanted: Loading) -> Iterator[None]:
    """A wait for these loads. Raises if one of them waits for a load of this caller."""
    held = [key for leading in _leading.get() for key in leading.keys]
    if not held:
        yield
        return
    waiting = Waiting(held, list(wanted))
    try:
        yield
    finally:
        waiting.end()


def _sum(key: Any, result: Any) -> int | None:
    if result is False:
        raise LarderError(f"the value of key {key!r} is no whole number, or the sum has more than 64 bits")
    return result


def _key_of(signature: inspect.Signature, *arguments: Any, **words: Any) -> tuple[str, ...]:
    """A key of the arguments of a call. Arguments of different types never make the same key."""
    bound = signature.bind(*arguments, **words)
    bound.apply_defaults()
    parts: list[str] = []
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            parts.append(f"*{len(value)}")
            parts.extend(map(_part_of, value))
        elif kind is inspect.Parameter.VAR_KEYWORD:
            for word in sorted(value):
                parts.append(f"{word}={_part_of(value[word])}")
        else:
            parts.append(_part_of(value))
    return tuple(parts) or ("",)


def _part_of(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return "'" + value
    if isinstance(value, bytes):
        return "b'" + value.hex()
    if isinstance(value, tuple):
        return "(" + key_bytes(("", *map(_part_of, value))).decode()
    return key_bytes(value).decode()
