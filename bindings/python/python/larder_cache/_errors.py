"""The exceptions of the package. A failure of Redis is never the reason why a fetch raises: the cache then loads."""


class LarderError(Exception):
    """The base of all exceptions of the package."""


class OptionError(LarderError, ValueError):
    """An option is unknown, or its value is none of the valid ones, which the message names."""


class KeyTypeError(LarderError, TypeError):
    """A key is of a type that no key has."""


class EncodeError(LarderError, TypeError):
    """A value cannot be written. It is stored nowhere."""


class LoadFailed(LarderError):
    """The loader of another caller raised. Its exception is the cause: ``error.__cause__``."""


class LoadTimeout(LarderError, TimeoutError):
    """The load exceeded its ``hard_timeout``, and there was no stale value."""


class RecursiveLoad(LarderError, RuntimeError):
    """A loader fetched its own key, or one whose loader waits for its own key: it would wait for itself."""


class RedisError(LarderError):
    """Redis did not confirm, refused, or was not asked. Of an invalidation this is no exception: it is queued."""


class Contended(RedisError):
    """Other nodes changed the key between a read and a write, again and again. Nothing was stored."""


class CacheClosed(LarderError):
    """The cache was closed."""
