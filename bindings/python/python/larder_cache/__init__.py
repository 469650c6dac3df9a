"""A cache for web services that stays coherent: memory in each process, Redis behind it.

What one process deletes, overwrites or tags away, no other one serves later than ``max_lag`` afterwards, in Python as in Rust.
Of many callers of a key that is not there, one loads.

    >>> import larder_cache
    >>> cache = larder_cache.Cache("shop", ttl="5m")
    >>> prices = cache.view("price")
    >>> prices.fetch("apple", lambda: 3)
    3
    >>> prices.hit("apple")
    3
"""

from ._cache import Cache
from ._core import BulkLoad, Load, key_bytes
from ._errors import (
    CacheClosed,
    Contended,
    EncodeError,
    KeyTypeError,
    LarderError,
    LoadFailed,
    LoadTimeout,
    OptionError,
    RecursiveLoad,
    RedisError,
)
from ._view import KEEP, REMOVE, View

__all__ = [
    "KEEP",
    "REMOVE",
    "BulkLoad",
    "Cache",
    "CacheClosed",
    "Contended",
    "EncodeError",
    "KeyTypeError",
    "LarderError",
    "Load",
    "LoadFailed",
    "LoadTimeout",
    "OptionError",
    "RecursiveLoad",
    "RedisError",
    "View",
    "key_bytes",
]
