"""The calls that a test in Rust makes of a node in Python, written once for threads and for asyncio: each is a coroutine.

Without asyncio none of their awaits suspends.
"""

import asyncio
import threading
from functools import partial
from urllib.parse import quote, unquote

import larder_cache

quoted = partial(quote, safe="")


class Abandoned(BaseException):
    """The caller of a load has left: the next one loads."""


class LoaderError(Exception):
    """What a loader raises because the test says so."""


def value_of(word):
    match word[:1]:
        case "n":
            return None
        case "t":
            return unquote(word[1:])
        case "v":
            version, write = word[1:].split(".")
            return {"version": int(version), "write": int(write)}
    raise ValueError(word)


#: Stands for nothing, which `None` does not.
NOTHING = object()


def word_of(value):
    if value is NOTHING:
        return "-"
    if value is None:
        return "n"
    if isinstance(value, str):
        return "t" + quoted(value)
    return f"v{value['version']}.{value['write']}"


def yes(is_so):
    return "yes" if is_so else "no"


class Node:
    """The calls of a cache. How they wait is left to a subclass."""

    optional = ""

    def __init__(self, reader, writer, cache=None):
        self.reader, self.writer = reader, writer
        self.lock = threading.Lock()
        #: The loaders that wait for the test, by the number of their call.
        self.loading = {}
        self.cache = cache
        self.view = self.numbers = None

    def say(self, *words):
        with self.lock:
            self.writer.write(" ".join(words) + "\n")
            self.writer.flush()

    def receive(self, line):
        verb, number, *words = line.rstrip("\n").split(" ")
        texts = [unquote(word) for word in words if "=" not in word]
        options = {}
        for name, _, text in (word.partition("=") for word in words if "=" in word):
            if name == "tag":
                options.setdefault("tags", []).append(unquote(text))
            else:
                options[name] = True if text == "yes" else unquote(text)
        if verb in ("loaded", "updated", "raise", "cancel"):
            # The words: a text in a value is encoded still.
            self.wake(number, (verb, [word for word in words if "=" not in word], options))
        else:
            self.start(number, self.obey(verb, number, texts, words, options))

    async def obey(self, verb, number, texts, words, options):
        try:
            match verb:
                case "write" | "add":
                    answer = await getattr(self, verb)(texts[0], value_of(words[1]), options)
                case "write_many":
                    values = {key: value_of(word) for key, word in zip(texts[::2], words[1::2])}
                    answer = [yes(await self.do(self.view, "set_many", values))]
                case "fetch" | "fetch_many" | "update":
                    answer = await getattr(self, verb)(number, texts, options)
                case _:
                    answer = await getattr(self, verb)(*texts, **options)
        except LoaderError as error:
            return self.say("failed", number, "loader", quoted(str(error)))
        except larder_cache.LoadFailed as error:
            return self.say("failed", number, "loader", quoted(str(error.__cause__)))
        except larder_cache.LoadTimeout:
            return self.say("failed", number, "timeout", "")
        except (Abandoned, asyncio.CancelledError):
            return self.say("failed", number, "other", "cancelled")
        except Exception as error:
            return self.say("failed", number, "other", quoted(repr(error)))
        finally:
            self.loading.pop(number, None)
        self.say("done", number, *answer)

    async def open(self, url, namespace, **options):
        if self.cache is not None:
            self.cache.close(0)
        self.cache = larder_cache.Cache(namespace, redis=None if url == "-" else url, **options)
        self.view, self.numbers = self.cache.view("v", schema=("v", 1)), self.cache.view("n")
        return []

    async def hit(self, key):
        return [word_of(self.view.hit(key, NOTHING))]

    async def read(self, key):
        return [word_of(await self.do(self.view, "get", key, NOTHING))]

    async def read_many(self, *keys):
        found = await self.do(self.view, "get_many", keys)
        return [word_of(found.get(key, NOTHING)) for key in keys]

    async def exist(self, key):
        return [yes(await self.do(self.view, "ttl", key) is not None)]

    async def fetch(self, number, keys, options):
        loader = self.loader(number, keys)
        return [word_of(await self.do(self.view, "fetch", keys[0], loader, with_load=True, **options))]

    async def fetch_many(self, number, keys, options):
        loader = self.loader(number)
        found = await self.do(self.view, "fetch_many", keys, loader, with_load=True, **options)
        return [word_of(found.get(key, NOTHING)) for key in keys]

    async def update(self, number, keys, options):
        function = self.function(number)
        return [word_of(await self.do(self.view, "update", keys[0], function, default=NOTHING, **options))]

    async def write(self, key, value, options):
        return [yes(await self.do(self.view, "set", key, value, **options))]

    async def add(self, key, value, options):
        return [yes(await self.do(self.view, "add", key, value, **options))]

    async def delete(self, key):
        existed = await self.do(self.view, "delete", key)
        return [yes(existed), yes(self.owes_nothing())]

    async def delete_many(self, *keys):
        return [str(await self.do(self.view, "delete_many", keys))]

    async def take(self, key):
        return [word_of(await self.do(self.view, "take", key, NOTHING))]

    async def expire(self, key):
        return [yes(await self.do(self.view, "expire", key))]

    async def touch(self, key, **options):
        return [yes(await self.do(self.view, "touch", key, **options))]

    async def increment(self, key, by):
        return [str(await self.do(self.numbers, "incr", key, int(by), initial=int(by)))]

    async def tags(self, *tags, soft=False):
        return [yes(await self.do(self.cache, "invalidate_tags", tags, soft=soft))]

    async def clear(self):
        return [yes(await self.do(self.cache, "clear"))]

    async def delete_matched(self, pattern):
        await self.do(self.cache, "delete_matched", pattern)
        return [yes(self.owes_nothing())]

    async def state(self):
        state = self.cache.coherence()
        mode, pending = quoted(state["mode"]), state["pending_invalidations"]
        return [mode, yes(state["memory_trusted"]), str(pending)]

    def begin(self, number, keys, arguments, answer):
        """Tells the test that a loader has begun, and returns its load. That of many keys is called with its keys too."""
        *wanted, load = arguments
        self.loading[number] = answer
        self.say("loading", number, *map(quoted, wanted[0] if wanted else keys))
        return load

    def ask(self, number, value, answer):
        """Tells the test what the function of an update has got."""
        self.loading[number] = answer
        self.say("updating", number, word_of(value))

    def owes_nothing(self):
        """Whether all nodes know all that this one has removed: `delete` returns only whether there was a value."""
        return self.cache.coherence()["pending_invalidations"] == 0


def updated(answer):
    """What the function of an update returns or raises, by the answer of the test."""
    verb, words, options = answer
    if verb == "cancel":
        raise Abandoned
    if verb == "raise":
        raise LoaderError(unquote(words[0]))
    if options.get("keep"):
        return larder_cache.KEEP
    return larder_cache.REMOVE if words[0] == "-" else value_of(words[0])


def loaded(answer, load):
    """What a loader returns or raises, by the answer of the test."""
    verb, words, options = answer
    if verb == "cancel":
        raise Abandoned
    if verb == "raise":
        raise LoaderError(unquote(words[0]))
    if options.get("keep"):
        return larder_cache.KEEP
    if "ttl" in options:
        load.ttl(options["ttl"])
    for tag in options.get("tags", ()):
        load.tag(tag)
    if options.get("no_store"):
        load.no_store()
    if isinstance(load, larder_cache.BulkLoad):
        return {unquote(key): value_of(word) for key, word in zip(words[::2], words[1::2])}
    return value_of(words[0])
