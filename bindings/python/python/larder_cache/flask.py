"""A backend of Flask-Caching, by the name ``larder_cache.flask.LarderCache``.

>>> from flask import Flask
>>> from flask_caching import Cache
>>> app = Flask("shop")
>>> app.config.update(SECRET_KEY="…", CACHE_TYPE="larder_cache.flask.LarderCache", CACHE_KEY_PREFIX="shop")
>>> cache = Cache(app)
>>> with app.app_context():
...     cache.set("apple", 3), cache.get("apple")
(True, 3)
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from flask_caching.backends.base import BaseCache

from ._cache import Cache
from ._errors import OptionError, RedisError
from ._registry import cache_of
from ._view import View
from ._waiting import wait

__all__ = ["LarderCache"]

Timeout = int | timedelta | None

#: Larder has no value without an end. A hundred years are never.
NEVER = 100 * 365 * 24 * 3600
#: Says for what the keys are: those of other uses of SECRET_KEY sign nothing here.
SALT = b"larder_cache.flask: signatures of pickled values, 1"
OPTION_PREFIX = "CACHE_LARDER_"

_MISSED = object()
_log = logging.getLogger(__name__)


class LarderCache(BaseCache):
    """Values of a Flask application: in the memory of each process, and in Redis if ``redis`` has its address.

    ``keys`` are the secrets that sign the pickled values: the first one signs, all are accepted. ``view`` is the name
    of the view, and ``options`` are those of :class:`larder_cache.Cache`. All backends of a process with the same
    namespace and options share one cache, which is their attribute ``larder``; ``view`` has its values.
    """

    larder: Cache
    view: View

    def __init__(
        self,
        namespace: str,
        keys: Sequence[bytes],
        default_timeout: int | timedelta = 300,
        ignore_delete_many_errors: bool = False,
        view: str = "flask",
        **options: Any,
    ) -> None:
        super().__init__(_seconds("default_timeout", default_timeout))
        # For the framework only: what this deletes is never left over.
        self.ignore_delete_many_errors = ignore_delete_many_errors
        if "ttl" in options:
            raise OptionError(f"ttl is {options['ttl']!r}; the time to live is CACHE_DEFAULT_TIMEOUT")
        if not isinstance(keys, (list, tuple)) or not all(isinstance(key, bytes) for key in keys):
            # The message has no secret in it.
            raise OptionError(f"keys is of type {type(keys).__name__}; it must be a list of bytes")
        ttl = self.default_timeout if self.default_timeout > 0 else NEVER
        self.larder = cache_of(namespace, {"ttl": ttl, **options})
        self.view = self.larder.view(view, schema=("flask-caching", 1), codec="pickle", keys=keys)

    @classmethod
    def factory(cls, app: Any, config: Mapping[str, Any], args: list[Any], kwargs: Mapping[str, Any]) -> LarderCache:
        """Makes the backend of an application, from its configuration. Flask-Caching calls this."""
        if args:
            raise OptionError(f"CACHE_ARGS is {args!r}; this backend has options by name only: use CACHE_OPTIONS")
        options = {
            name.removeprefix(OPTION_PREFIX).lower(): value
            for name, value in config.items()
            if name.startswith(OPTION_PREFIX)
        }
        options.update(kwargs)
        if options.get("namespace") is None:
            options["namespace"] = _namespace(config)
        if options.get("keys") is None:
            options["keys"] = _keys(config)
        return cls(**options)

    def get(self, key: str) -> Any:
        """The value, or ``None``. Without Redis only memory has values."""
        return self.view.get(key)

    def get_many(self, *keys: str) -> list[Any]:
        """The values in the order of the keys, ``None`` where there is none. One round trip."""
        found = self.view.get_many(keys)
        return [found.get(key) for key in keys]

    def has(self, key: str) -> bool:
        """Whether there is a value, which may be ``None``."""
        return self.view.get(key, _MISSED) is not _MISSED

    def set(self, key: str, value: Any, timeout: Timeout = None) -> bool:
        """Stores a value. Returns whether all processes know; otherwise only this one has it, and it is queued."""
        ttl = self._ttl(timeout)
        if ttl is None:
            self.delete(key)
            return True
        return self._confirmed(self.view.set(key, value, ttl=ttl), "set", key)

    def set_many(self, mapping: Mapping[str, Any], timeout: Timeout = None) -> list[str]:
        """Stores values in one round trip. Returns the keys that all processes know."""
        ttl = self._ttl(timeout)
        if ttl is None:
            return self.delete_many(*mapping)
        return list(mapping) if self._confirmed(self.view.set_many(mapping, ttl=ttl), "set", *mapping) else []

    def add(self, key: str, value: Any, timeout: Timeout = None) -> bool:
        """Stores a value if there is none: of several processes one does. Returns whether this one did.

        Without Redis it stores nothing.
        """
        ttl = self._ttl(timeout)
        if ttl is None:
            return not self.has(key)
        try:
            return self.view.add(key, value, ttl=ttl)
        except RedisError as error:
            _log.warning("%r is not added: %s", key, error)
            return False

    def inc(self, key: str, delta: int = 1) -> int | None:
        """Adds to a whole number in one step. It keeps its time to live. Without Redis ``None``."""
        try:
            return self.view.incr(key, delta, initial=delta, ttl=self._ttl(None))
        except RedisError as error:
            _log.warning("%r is not changed: %s", key, error)
            return None

    def dec(self, key: str, delta: int = 1) -> int | None:
        """As :meth:`inc`, with subtraction."""
        return self.inc(key, -delta)

    def delete(self, key: str) -> bool:
        """Removes a value from all processes. Returns whether there was one. Without Redis it is queued."""
        existed, is_everywhere = wait(self.larder, self.view._delete(key))
        self._confirmed(is_everywhere, "delete", key)
        return existed

    def delete_many(self, *keys: str) -> list[str]:
        """Removes values in one round trip. Returns all keys: none of them has a value here any more."""
        if keys:
            _, is_everywhere = wait(self.larder, self.view._delete_many(keys))
            self._confirmed(is_everywhere, "delete", *keys)
        return list(keys)

    def clear(self) -> bool:
        """Removes all values of the namespace, from all processes. Returns whether all of them know."""
        return self._confirmed(self.larder.clear(), "clear")

    def _ttl(self, timeout: Timeout) -> int | None:
        """The seconds of a timeout, or ``None`` for one that has passed already, as a negative one has."""
        seconds = self.default_timeout if timeout is None else _seconds("timeout", timeout)
        if seconds < 0:
            return None
        return seconds or NEVER

    def _confirmed(self, is_everywhere: bool, what: str, *keys: str) -> bool:
        if not is_everywhere:
            _log.warning("%s of %s is queued: Redis has not confirmed it", what, ", ".join(map(repr, keys)) or "all")
        return is_everywhere


def _seconds(name: str, timeout: int | float | timedelta) -> int:
    """A timeout in whole seconds, rounded up: a short one is not 0, which means never."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not math.isfinite(seconds):
        raise TypeError(f"{name} is {timeout!r}; it must be a whole number of seconds, or a timedelta")
    return math.ceil(seconds)


def _namespace(config: Mapping[str, Any]) -> str:
    """The prefix of the keys, which is what the namespace is in Redis: ``shop`` and ``shop:`` are the same."""
    prefix = config.get("CACHE_KEY_PREFIX")
    namespace = prefix.removesuffix(":") if isinstance(prefix, str) else ""
    if not namespace or ":" in namespace:
        raise OptionError(
            f"CACHE_KEY_PREFIX is {prefix!r}; it must be a name without ':', or CACHE_LARDER_NAMESPACE must be set"
        )
    return namespace


def _keys(config: Mapping[str, Any]) -> list[bytes]:
    """The keys that sign: one for each secret of the application, the present one first."""
    keys = [_key("SECRET_KEY", config.get("SECRET_KEY"))]
    for number, secret in enumerate(config.get("SECRET_KEY_FALLBACKS") or ()):
        keys.append(_key(f"SECRET_KEY_FALLBACKS[{number}]", secret))
    return keys


def _key(name: str, secret: Any) -> bytes:
    # The message has no secret in it.
    if not isinstance(secret, (str, bytes)) or not secret:
        shown = "empty" if isinstance(secret, (str, bytes)) else f"of type {type(secret).__name__}"
        raise OptionError(
            f"{name} is {shown}; it must be a text or bytes, since a key derived from it signs the pickled values"
        )
    secret = secret.encode() if isinstance(secret, str) else secret
    return hmac.new(secret, SALT, hashlib.sha256).digest()
