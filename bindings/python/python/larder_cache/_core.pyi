"""The types of the native part. The modules in Python are its only callers, but for the classes that they return."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

Time = float | str | timedelta

def exiting() -> None: ...
def key_bytes(key: Any) -> bytes:
    """The bytes of a key, as they follow the name of the view in Redis."""

def time_options() -> list[str]: ...

class Call:
    def wait(self) -> Any: ...

class Cache:
    @property
    def namespace(self) -> str:
        """The name that this cache has in Redis."""

    def __new__(cls, namespace: str, options: list[tuple[str, str]]) -> Any: ...
    def close(self, limit: Time | None = None) -> int:
        """Ends the cache of this process and its threads. Returns the number of invalidations that are lost."""

    def set_enabled(self, enabled: bool) -> None:
        """Turns the cache off or on. While it is off, every fetch loads, and writes only invalidate."""

    def coherence(self) -> dict[str, Any]:
        """The coherence with other nodes: ``mode``, ``memory_trusted``, ``proof_age`` and ``disconnected`` in seconds, and
        ``pending_invalidations``."""

    def stats(self) -> dict[str, Any]:
        """The counters of this process, of its memory and of its requests to Redis."""

    def _invalidate_tags(self, tags: list[str], soft: bool) -> Call: ...
    def _clear(self) -> Call: ...
    def _delete_matched(self, pattern: str) -> Call: ...
    def _drain(self, limit: Time) -> Call: ...
    def _drain_at_exit(self, limit: Time) -> int: ...

class View:
    def __new__(
        cls,
        cache: Cache,
        name: str,
        schema: tuple[str, int],
        shared: bool,
        keys: list[bytes] | None,
        options: dict[str, Any],
    ) -> Any: ...
    def hit(self, key: Any, default: Any = None) -> Any:
        """The value in the memory of this process, or ``default``. Never waits."""

    def _read(self, key: Any, default: Any) -> Call: ...
    def _read_many(self, keys: Iterable[Any]) -> Call: ...
    def _lease(self, key: Any, options: dict[str, Any] | None = None) -> Call: ...
    def _lease_many(self, keys: Iterable[Any], options: dict[str, Any] | None = None) -> Call: ...
    def _write(self, key: Any, value: Any, options: dict[str, Any] | None = None) -> Call: ...
    def _write_many(self, values: dict[Any, Any], options: dict[str, Any] | None = None) -> Call: ...
    def _add(self, key: Any, value: Any, options: dict[str, Any] | None = None) -> Call: ...
    def _delete(self, key: Any) -> Call: ...
    def _expire(self, key: Any) -> Call: ...
    def _delete_many(self, keys: Iterable[Any]) -> Call: ...
    def _take(self, key: Any, default: Any) -> Call: ...
    def _touch(self, key: Any, options: dict[str, Any] | None = None) -> Call: ...
    def _ttl(self, key: Any) -> Call: ...
    def _increment(
        self, key: Any, by: int, initial: int | None = None, options: dict[str, Any] | None = None
    ) -> Call: ...

class Load:
    """The load of one key: what a loader gets with ``with_load``."""

    @property
    def stale(self) -> Any:
        """The stale value, or ``None``."""

    def ttl(self, ttl: Time) -> None:
        """The TTL of the value."""

    def grace(self, grace: Time) -> None:
        """The grace period of the value."""

    def tag(self, tag: str) -> None:
        """Adds a tag to the value: its invalidation since the start of the load invalidates the value too."""

    def no_store(self) -> None:
        """Returns the value to its callers and stores it nowhere."""

    def _complete(self, value: Any) -> Call: ...
    def _keep(self) -> Call: ...
    def _fail(self, raised: BaseException) -> Call: ...
    def _abandon(self) -> None: ...

class BulkLoad:
    """The load of several keys."""

    @property
    def keys(self) -> list[Any]:
        """The keys to load, as they were passed."""

    def ttl(self, ttl: Time) -> None:
        """The TTL of each value."""

    def tag(self, tag: str) -> None:
        """Adds a tag to each value."""

    def no_store(self) -> None:
        """Returns the values to their callers and stores none."""

    def _complete(self, loaded: dict[Any, Any]) -> Call: ...
    def _fail(self, raised: BaseException) -> Call: ...
    def _abandon(self) -> None: ...

class Started: ...

class Queue:
    def __init__(self, cache: Cache) -> None: ...
    def fileno(self) -> int: ...
    def start(self, token: Any, call: Call) -> Started: ...
    def cancel(self, started: Started) -> None: ...
    def take(self) -> list[tuple[Any, Any, BaseException | None]]: ...
