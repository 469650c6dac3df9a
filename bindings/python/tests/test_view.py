"""Each call of a view, blocking and awaited, with Redis and without."""

import asyncio
import datetime
import inspect
import os
import threading

import pytest

import larder_cache
from conftest import eventually
from larder_cache import KEEP, View


@pytest.fixture(params=["memory", "redis"])
def view(request, make_cache):
    words = {} if request.param == "redis" else {"redis": None}
    return make_cache(**words).view("value")


def call(view, is_async, name, *arguments, **words):
    if not is_async:
        return getattr(view, name)(*arguments, **words)
    return asyncio.run(getattr(view, "a" + name)(*arguments, **words))


both = pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "awaited"])


@both
def test_each_call_does_what_it_says(view, is_async):
    def do(name, *arguments, **words):
        return call(view, is_async, name, *arguments, **words)

    assert do("get", "k") is None
    assert do("get", "k", 7) == 7
    assert do("set", "k", 1) is True
    assert do("get", "k", 7) == 1
    assert do("add", "k", 2) is False
    assert do("add", "l", 2, ttl=60) is True
    assert 59 < do("ttl", "l") <= 60
    assert do("touch", "l", ttl=100) is True
    assert 99 < do("ttl", "l") <= 100
    assert do("touch", "nothing", ttl=100) is False
    assert do("ttl", "nothing") is None
    assert do("incr", "k") == 2
    assert do("incr", "k", -5) == -3
    assert do("incr", "n") is None
    assert do("incr", "n", initial=10) == 10
    assert do("incr", "n", initial=10) == 11
    assert do("set_many", {"a": 1, "b": [2], 3: None}) is True
    assert do("get_many", ["a", "b", 3, "nothing", "a"]) == {"a": 1, "b": [2], 3: None}
    assert do("take", "a") == 1
    assert do("take", "a", "gone") == "gone"
    assert do("delete", "b") is True
    assert do("delete", "b") is False
    assert do("delete_many", ["b", 3, "k"]) == 2
    assert do("fetch", "k", lambda: 5) == 5
    assert do("fetch", "k", lambda: 6) == 5
    assert do("fetch", "k", lambda: 6, refresh=True) == 6
    assert do("fetch_many", ["k", "m"], lambda keys: {key: key.upper() for key in keys}) == {"k": 6, "m": "M"}
    assert do("fetch_many", ["x", "y"], lambda keys: {"y": 1}) == {"y": 1}


def test_each_waiting_call_has_an_awaited_twin():
    blocking = {name for name in dir(View) if not name.startswith("_")} - {"hit", "cached"}
    twins = {name for name in blocking if inspect.iscoroutinefunction(getattr(View, name))}
    assert twins == {"a" + name for name in blocking - twins}
    cache = {name for name in dir(larder_cache.Cache) if name.startswith("a") and name[1:] in dir(larder_cache.Cache)}
    assert cache == {"aclear", "ainvalidate_tags", "adelete_matched", "adrain"}


@both
def test_tags_and_patterns_invalidate(make_cache, is_async):
    cache, other = make_cache(), make_cache()
    view, seen = cache.view("value"), other.view("value")

    def do(name, *arguments, **words):
        return call(cache, is_async, name, *arguments, **words)

    view.set("a", 1, tags=["fruit"])
    view.fetch("b", lambda: 2, tags=["fruit"])
    view.fetch("c", lambda load: load.tag("fruit") or 3, with_load=True)
    view.set("d", 4)
    assert seen.get_many("abcd") == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert do("invalidate_tags", ["fruit"]) is True
    assert view.get_many("abcd") == {"d": 4}
    eventually("the other node hears of it", lambda: seen.get_many("abcd") == {"d": 4})
    # The bytes that the tag has invalidated are there until they expire.
    assert do("delete_matched", "value:*") == 4
    view.set("d", 4)
    assert do("clear") is True
    assert view.get("d") is None
    assert do("drain") == 0


def test_keys_are_those_of_rust(memory):
    for key, written in [
        ("apple", b"apple"),
        (b"\xff", b"\xff"),
        (17, b"17"),
        (-(2**70), str(-(2**70)).encode()),
        (True, b"true"),
        (("a", 1), b"a:1"),
        (("a:b", "c\\d"), b"a\\:b:c\\\\d"),
        ((("a", "b"), "c"), b"a\\:b:c"),
    ]:
        assert larder_cache.key_bytes(key) == written


@pytest.mark.parametrize("key", [None, 1.5, [], (), ("a", None), {}, object()])
def test_key_of_a_wrong_type_names_it(view, key):
    calls = [
        lambda: view.get(key),
        lambda: view.hit(key),
        lambda: view.set(key, 1),
        lambda: view.fetch(key, lambda: pytest.fail("it was called")),
        lambda: view.delete(key),
        lambda: view.get_many([key]),
        lambda: view.set_many({(): 1}),
    ]
    for wrong in calls:
        with pytest.raises(larder_cache.KeyTypeError, match="it must be str, bytes, int, bool, or a tuple"):
            wrong()


def test_times_are_seconds_deltas_or_text(memory):
    view = memory.view("value")
    for ttl in (90, 90.0, "90s", "1.5m", datetime.timedelta(minutes=1.5)):
        view.set("k", 1, ttl=ttl)
        assert 89 < view.ttl("k") <= 90
    for ttl in (-1, float("nan"), float("inf"), True, "soon", [], datetime.timedelta(days=-1)):
        with pytest.raises(larder_cache.OptionError, match="ttl is"):
            view.set("k", 1, ttl=ttl)


def test_options_of_a_cache_are_those_of_larder():
    with pytest.raises(larder_cache.OptionError, match="did you mean max_lag"):
        larder_cache.Cache("shop", ttl=1, max_lagg=1)
    with pytest.raises(larder_cache.OptionError, match="needs a time to live"):
        larder_cache.Cache("shop")
    with pytest.raises(larder_cache.OptionError, match="namespace"):
        larder_cache.Cache("a:b", ttl=1)
    with pytest.raises(larder_cache.OptionError, match="must be a name without"):
        larder_cache.Cache("a", ttl=1).view("b:c")
    with pytest.raises(larder_cache.OptionError, match="the name of a schema"):
        larder_cache.Cache("a", ttl=1).view("b", schema=("b c", 1))
    cache = larder_cache.Cache("a", ttl=1)
    cache.view("b")
    for other in ({"schema": ("b", 2)}, {"codec": "pickle", "keys": [b"k" * 32]}):
        with pytest.raises(larder_cache.OptionError, match="of this cache has schema b/1 and codec 3"):
            cache.view("b", **other)
    assert cache.view("b", ttl=2).name == "b"
    assert larder_cache.Cache("shop", ttl=datetime.timedelta(minutes=5), grace=0.5, sentinel_fence=False).namespace == "shop"


def test_counter_that_is_none_is_refused(view):
    view.set("k", "text")
    with pytest.raises(larder_cache.LarderError, match="no whole number"):
        view.incr("k")
    view.set("k", 2**63 - 1)
    with pytest.raises(larder_cache.LarderError, match="more than 64 bits"):
        view.incr("k")
    assert view.get("k") == 2**63 - 1


def test_counter_in_a_cache_of_tiny_values_is_refused_or_counts(make_cache):
    view = make_cache(max_value_bytes=1).view("value")
    assert view.incr("small", initial=5) == 5
    with pytest.raises(larder_cache.EncodeError, match="1"):
        view.incr("large", initial=2**40)


def test_private_counter_counts(make_cache):
    view = make_cache().view("value", codec="pickle", keys=[b"k" * 16])
    view.set("k", 1)
    assert view.incr("k", 2) == 3
    assert view.get("k") == 3


def test_negative_ttl_is_that_of_none(make_cache):
    view = make_cache().view("value", ttl=100, negative_ttl=10)
    view.fetch("a", lambda: None)
    view.fetch("b", lambda: 0)
    assert view.ttl("a") <= 10 < view.ttl("b")
    assert view.fetch("a", lambda: pytest.fail("the absence is remembered")) is None


def test_stale_value_is_served_while_the_loader_fails(make_cache):
    view = make_cache().view("value", ttl=0.05, grace=60, retry_after=0)
    view.set("k", 1)
    seen = []

    def broken(load):
        seen.append(load.stale)
        raise ValueError("broken")

    import time

    time.sleep(0.1)
    assert view.fetch("k", broken, with_load=True) == 1
    assert seen == [1]
    assert view.fetch("k", lambda: KEEP) == 1
    with pytest.raises(ValueError, match="broken"):
        view.fetch("other", broken, with_load=True)
    with pytest.raises(larder_cache.LarderError, match="NotModified without a stale value"):
        view.fetch("other", lambda: KEEP)


def test_value_that_is_not_to_be_stored_is_returned(view):
    def load(load):
        load.no_store()
        return 1

    assert view.fetch("k", load, with_load=True) == 1
    assert view.get("k") is None


def test_cached_function_is_keyed_by_its_arguments(make_cache):
    cache = make_cache()
    calls = []

    @cache.cached(ttl=60)
    def price(product, currency="EUR", *more, **words):
        calls.append((product, currency, more, words))
        return len(calls)

    first = price("apple")
    assert price("apple", "EUR") == price(product="apple", currency="EUR") == first
    different = [
        (("apple", "USD"), {}),
        (("apple", None), {}),
        (("apple", "-"), {}),
        ((1,), {}),
        (("1",), {}),
        ((True,), {}),
        ((b"1",), {}),
        (((1, 2),), {}),
        ((("1", "2"),), {}),
        (("1:2",), {}),
        (("apple", "EUR", 1), {}),
        (("apple", "EUR"), {"a": 1}),
        (("apple", "EUR"), {"a": "1"}),
    ]
    results = [price(*arguments, **words) for arguments, words in different]
    assert len(set(results)) == len(different)
    assert [price(*arguments, **words) for arguments, words in different] == results
    assert price.delete("apple") is True
    assert price("apple") not in results
    with pytest.raises(larder_cache.KeyTypeError):
        price(1.5)


def test_cached_coroutine_function_and_tags_of_the_arguments(make_cache):
    cache = make_cache()
    view, calls = cache.view("price"), []

    @view.cached(key=lambda product: product["id"], tags=lambda product: [f"product-{product['id']}"])
    async def price(product):
        calls.append(product)
        return len(calls)

    async def run():
        assert await price({"id": 1}) == await price({"id": 1}) == 1
        assert await price({"id": 2}) == 2
        await cache.ainvalidate_tags(["product-1"])
        assert await price({"id": 1}) == 3
        assert await price({"id": 2}) == 2
        assert await price.adelete({"id": 2}) is True

    asyncio.run(run())
    assert view.get(1) == 3


def test_statistics_and_coherence_are_told(cache):
    view = cache.view("value")
    view.fetch("k", lambda: 1)
    view.fetch("k", lambda: 1)
    stats, coherence = cache.stats(), cache.coherence()
    assert stats["loads"] == 1 and stats["memory"]["hits"] == 1 and stats["redis"]["misses"] == 1
    assert coherence["mode"] == "full" and coherence["memory_trusted"] is True and coherence["problem"] is None


def test_cache_that_is_off_loads_each_time(memory):
    view = memory.view("value")
    memory.set_enabled(False)
    values = iter(range(10))
    assert [view.fetch("k", lambda: next(values)) for _ in range(3)] == [0, 1, 2]
    memory.set_enabled(True)
    assert view.fetch("k", lambda: 7) == view.fetch("k", lambda: 8) == 7


def test_closed_cache_says_so(make_cache):
    cache = make_cache()
    view = cache.view("value")
    view.set("k", 1)
    assert cache.close() == 0
    assert_closed(cache, view)


def test_cache_that_is_closed_before_its_first_call_does_not_start(make_cache):
    cache = make_cache()
    view = cache.view("value")
    threads = threading.active_count(), len(os.listdir("/proc/self/task"))
    assert cache.close() == 0
    assert_closed(cache, view)
    assert (threading.active_count(), len(os.listdir("/proc/self/task"))) == threads


def assert_closed(cache, view):
    """Each call says so, and starts nothing."""
    calls = {
        "hit": lambda: view.hit("k"),
        "get": lambda: view.get("k"),
        "fetch": lambda: view.fetch("k", lambda: 1),
        "afetch": lambda: asyncio.run(view.afetch("k", lambda: 1)),
        "fetch_many": lambda: view.fetch_many(["k"], dict.fromkeys),
        "set": lambda: view.set("k", 1),
        "incr": lambda: view.incr("k", initial=1),
        "delete": lambda: view.delete("k"),
        "view": lambda: cache.view("other"),
        "tags": lambda: cache.invalidate_tags(["t"]),
        "clear": cache.clear,
        "drain": cache.drain,
        "stats": cache.stats,
        "coherence": cache.coherence,
        "set_enabled": lambda: cache.set_enabled(False),
    }
    for name, call in calls.items():
        try:
            call()
        except larder_cache.CacheClosed:
            continue
        pytest.fail(f"{name} does not raise CacheClosed")
    assert cache.close() == 0
