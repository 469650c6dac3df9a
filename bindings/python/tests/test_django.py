"""The backend for Django: Django's own tests of cache backends, and tests of what it promises beyond their contract.

Django's tests are no part of its package. LARDER_DJANGO_TESTS is the folder ``tests`` of its source distribution.
"""

import asyncio
import contextlib
import datetime
import inspect
import logging
import os
import subprocess
import sys
import textwrap
import threading
import time
import unittest
import warnings
from pathlib import Path

import django
import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.core import signals
from django.core.cache import cache, caches
from django.core.cache.backends.base import BaseCache
from django.core.exceptions import ImproperlyConfigured
from django.test import TransactionTestCase, override_settings
from django.test.utils import setup_databases, setup_test_environment, teardown_databases, teardown_test_environment

import larder_cache
from conftest import eventually, in_threads

DJANGO_TESTS = os.environ.get("LARDER_DJANGO_TESTS")
HAS_DJANGO_TESTS = DJANGO_TESTS is not None and Path(DJANGO_TESTS, "cache", "tests.py").is_file()
if HAS_DJANGO_TESTS:
    # Last: names of its folders are names of other packages, too.
    sys.path.append(DJANGO_TESTS)

BACKEND = "larder_cache.django.LarderCache"

settings.configure(
    SECRET_KEY="a secret of the tests",
    CACHES={"default": {"BACKEND": BACKEND}},
    DATABASES={name: {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"} for name in ("default", "other")},
    INSTALLED_APPS=["django.contrib.sessions", *(["cache"] if HAS_DJANGO_TESTS else [])],
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    ROOT_URLCONF=[],
    USE_TZ=False,
)
django.setup()

# They need the settings.
from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402
from django.core.exceptions import ObjectDoesNotExist  # noqa: E402
from django.db import connection, connections, transaction  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.template import engines  # noqa: E402
from django.test import RequestFactory  # noqa: E402
from django.views.decorators.cache import cache_page  # noqa: E402

import larder_cache.django  # noqa: E402
from larder_cache.django import LarderCache  # noqa: E402

#: The address of the server for the classes of tests, which get no fixtures.
server = {}


@pytest.fixture(scope="module", autouse=True)
def django_environment(redis_server):
    server["url"] = redis_server.url
    setup_test_environment()
    databases = setup_databases(verbosity=0, interactive=False)
    yield
    teardown_databases(databases, verbosity=0)
    teardown_test_environment()
    AwaitedCache.loop.close()


# Django's own tests.


def test_djangos_own_tests_are_there():
    assert HAS_DJANGO_TESTS, "LARDER_DJANGO_TESTS is not the folder 'tests' of the source distribution of Django"


#: Django's tests that are left out, and why.
LEFT_OUT = {
    "BaseCacheTests": {
        "test_cull": "memory is limited by memory_bytes and Redis by its maxmemory, not by MAX_ENTRIES",
        "test_zero_cull": "as test_cull",
    },
    "AwaitedTests": {
        "test_cache_write_for_model_instance_with_deferred": "to pickle a query set runs its query, in an event loop",
        "test_cache_read_for_model_instance_with_deferred": "the same",
    },
    # They are written for a cache that stores nothing. The others are about calls that store nothing.
    "AsyncDummyCacheTests": {
        "test_simple": "expects no value after aset",
        "test_aadd": "expects that each aadd is the first one",
        "test_aget_many": "expects no values after aset_many",
        "test_adelete": "expects no value after aset_many",
        "test_ahas_key": "expects no value after aset",
        "test_aincr": "expects no value after aset",
        "test_adecr": "expects no value after aset",
        "test_data_types": "stores a local function, which no pickle has",
        "test_expiration": "expects that each aadd is the first one",
        "test_unicode": "expects no value after aset",
        "test_aincr_version": "expects no value after aset",
        "test_adecr_version": "expects no value after aset",
        "test_aget_or_set": "expects no value after aget_or_set",
    },
}


def left_out(*tables):
    """Attributes of a class that has none of these tests of its base."""
    return {name: None for table in tables for name in LEFT_OUT[table]}


class AwaitedCache(LarderCache):
    """The backend with each call awaited, for tests that call and do not await."""

    loop = asyncio.new_event_loop()


def _awaited(name):
    def call(self, *arguments, **words):
        return self.loop.run_until_complete(getattr(LarderCache, "a" + name)(self, *arguments, **words))

    return call


TWINS = [name[1:] for name, value in inspect.getmembers(BaseCache, inspect.iscoroutinefunction)]
for _name in TWINS:
    setattr(AwaitedCache, _name, _awaited(_name))


if HAS_DJANGO_TESTS:
    from cache import tests as django_tests
    from cache import tests_async as django_async_tests

    class OfBackend:
        """Runs tests of Django with this backend."""

        backend = BACKEND
        with_redis = False

        @classmethod
        def setUpClass(cls):
            location = server["url"] if cls.with_redis else ""
            setting = django_tests.caches_setting_for_tests(BACKEND=cls.backend, LOCATION=location)
            for params in setting.values():
                params["OPTIONS"] = {"namespace": cls.__name__, **params.get("OPTIONS", {})}
            changed = override_settings(CACHES=setting)
            changed.enable()
            cls.addClassCleanup(changed.disable)
            super().setUpClass()

    class Common(OfBackend, django_tests.BaseCacheTests):
        available_apps = ["cache"]
        locals().update(left_out("BaseCacheTests"))

    class MemoryTests(Common, TransactionTestCase):
        pass

    class RedisTests(Common, TransactionTestCase):
        with_redis = True

    class AwaitedTests(Common, TransactionTestCase):
        with_redis = True
        backend = "test_django.AwaitedCache"
        locals().update(left_out("AwaitedTests"))

    class AsyncTests(OfBackend, django_async_tests.AsyncDummyCacheTests):
        # The decorator of the base has settings of its own, which begin later than those of this class.
        _overridden_settings = None
        with_redis = True
        locals().update(left_out("AsyncDummyCacheTests"))

        def tearDown(self):
            cache.clear()

        async def test_it_runs_with_this_backend(self):
            self.assertIs(type(caches["default"]), LarderCache)

    def test_left_out_tests_exist_and_the_others_are_many():
        base = {name for name in dir(django_tests.BaseCacheTests) if name.startswith("test_")}
        dummy = {name for name in dir(django_async_tests.AsyncDummyCacheTests) if name.startswith("test_")}
        assert set(LEFT_OUT["BaseCacheTests"]) | set(LEFT_OUT["AwaitedTests"]) <= base
        assert set(LEFT_OUT["AsyncDummyCacheTests"]) <= dummy
        for tests, at_least in [(MemoryTests, 50), (RedisTests, 50), (AwaitedTests, 48), (AsyncTests, 8)]:
            assert len(unittest.defaultTestLoader.getTestCaseNames(tests)) >= at_least


# Tests of this backend.


@pytest.fixture
def make(redis_server, namespace, monkeypatch):
    """Makes backends of one namespace. Those with other options are other nodes."""
    shared = {}
    monkeypatch.setattr(larder_cache.django, "_shared", shared)

    def make(location=redis_server.url, **params):
        options = {"namespace": namespace, **params.pop("OPTIONS", {}), **params.pop("options", {})}
        return LarderCache(location, {**params, "OPTIONS": options})

    yield make
    for one in shared.values():
        one.cache.close(0.5)


@pytest.fixture
def nodes(make):
    """Two nodes, each with memory of its own."""
    return make(), make(options={"memory_bytes": "8MiB"})


@pytest.fixture
def site(redis_server, namespace, make):
    """Sets CACHES."""
    with contextlib.ExitStack() as stack:

        def site(location=redis_server.url, **options):
            default = {"BACKEND": BACKEND, "LOCATION": location, "OPTIONS": {"namespace": namespace, **options}}
            stack.enter_context(override_settings(CACHES={"default": default}))

        yield site


OTHER_PROCESS = """
    import sys
    from django.conf import settings
    settings.configure(SECRET_KEY="a secret of the tests", CACHES={"default": {
        "BACKEND": "larder_cache.django.LarderCache", "LOCATION": sys.argv[1], "OPTIONS": {"namespace": sys.argv[2]},
    }})
    from django.core.cache import cache
    for line in sys.stdin:
        print(repr(eval(line)), flush=True)
"""


@pytest.fixture
def other_process(redis_server, namespace):
    """Evaluates expressions in another process, which has the same settings."""
    words = [sys.executable, "-c", textwrap.dedent(OTHER_PROCESS), redis_server.url, namespace]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def evaluate(expression):
            process.stdin.write(expression + "\n")
            process.stdin.flush()
            return eval(process.stdout.readline())

        yield evaluate
        process.stdin.close()


def test_two_processes_agree(site, other_process):
    site()
    cache.set("k", {"price": 1})
    assert other_process("cache.get('k')") == {"price": 1}
    changes = [
        ("cache.set('k', {'price': 2})", {"price": 2}),
        ("cache.incr_version('k')", None),
        ("cache.set('k', 3, tags=['fruit'])", 3),
        ("cache.invalidate_tags(['fruit'])", None),
        ("cache.set_many({'k': 4})", 4),
        ("cache.delete('k')", None),
        ("cache.get_or_set('k', lambda: 5)", 5),
        ("cache.incr('k')", 6),
        ("cache.touch('k', 0)", None),
        ("cache.add('k', 7)", 7),
        ("cache.clear()", None),
    ]
    for change, value in changes:
        other_process(change)
        eventually(f"{change} arrives", lambda: cache.get("k") == value)
        # And the other way: memory of the other process has what this one has.
        assert other_process("cache.get('k')") == value
    cache.set("k", 8)
    eventually("the other process hears of it", lambda: other_process("cache.get('k')") == 8)
    cache.delete("k")
    eventually("the other process hears of it", lambda: other_process("cache.get('k')") is None)


FORKED = """
    import os, sys
    from django.conf import settings
    settings.configure(SECRET_KEY="secret", CACHES={"default": {
        "BACKEND": "larder_cache.django.LarderCache", "LOCATION": sys.argv[1], "OPTIONS": {"namespace": sys.argv[2]},
    }})
    from django.core.cache import cache
    cache.set("k", [1])
    child = os.fork()
    if child == 0:
        found = cache.get("k")
        cache.set("k", [2])
        os._exit(0 if found == [1] and cache.get_or_set("l", lambda: 3) == 3 else 1)
    print(os.waitpid(child, 0)[1], cache.get("l"))
"""


def test_forked_worker_uses_the_cache_of_its_parent(redis_server, namespace):
    words = [sys.executable, "-c", textwrap.dedent(FORKED), redis_server.url, namespace]
    assert subprocess.run(words, capture_output=True, text=True, timeout=30).stdout == "0 3\n"


def test_threads_share_memory_and_backends_do_not(site):
    site(location="")
    cache.set("k", 1)
    backends = in_threads(2, lambda _: (cache.get("k"), caches["default"]))
    assert [value for value, _ in backends] == [1, 1]
    assert backends[0][1] is not backends[1][1]
    assert backends[0][1].larder is backends[1][1].larder


def test_configurations_are_told_apart_by_their_options(make):
    one = make(options={"grace": 60, "max_lag": "2s"})
    assert make(options={"max_lag": "3s", "grace": 60}).larder is not one.larder
    assert make(options={"max_lag": "2s", "grace": 60}).larder is one.larder
    assert make(options={"max_lag": "2s", "grace": 60}, TIMEOUT=1, KEY_PREFIX="p", VERSION=2).larder is one.larder


@pytest.mark.parametrize("location", ["memory", "redis"])
def test_get_or_set_of_many_threads_loads_once(site, redis_server, location):
    site(location=redis_server.url if location == "redis" else "")
    calls = []

    def load():
        calls.append(1)
        time.sleep(0.2)
        return {"value": 7}

    results = in_threads(16, lambda _: cache.get_or_set("k", load))
    assert results == [{"value": 7}] * 16
    assert len(calls) == 1
    # Each caller may change its own.
    assert len({id(result) for result in results}) == 16


def test_get_or_set_of_two_nodes_loads_once(nodes):
    calls = []

    def load():
        calls.append(1)
        time.sleep(0.2)
        return 7

    both = iter(nodes)
    assert in_threads(2, lambda _: next(both).get_or_set("k", load)) == [7, 7]
    assert len(calls) == 1


def test_awaited_get_or_set_loads_once_and_takes_coroutine_functions(make):
    backend, calls = make(), []

    async def load():
        calls.append(1)
        await asyncio.sleep(0.1)
        return 7

    async def run():
        return await asyncio.gather(*(backend.aget_or_set("k", load) for _ in range(8)))

    assert asyncio.run(run()) == [7] * 8
    assert len(calls) == 1
    assert asyncio.run(backend.aget_or_set("uncached", load, 0)) == 7
    assert backend.get("uncached") is None


def test_follower_raises_a_copy_of_what_the_loader_raised(make):
    backend = make()
    raised = []

    def load():
        time.sleep(0.3)
        raised.append(ObjectDoesNotExist("no such row"))
        raise raised[-1]

    results = in_threads(8, lambda _: backend.get_or_set("k", load))
    assert {(type(result), str(result)) for result in results} == {(ObjectDoesNotExist, "no such row")}
    assert len({id(result) for result in results}) == 8
    # A thread may have come when the load had ended.
    assert len(raised) < 8
    assert any(isinstance(result.__cause__, larder_cache.LoadFailed) for result in results)


def test_follower_of_an_exception_without_copy_raises_load_failed(make):
    class Peculiar(Exception):
        def __init__(self, one, two):
            super().__init__("text")

    backend = make()

    def load():
        time.sleep(0.3)
        raise Peculiar(1, 2)

    kinds = {type(result) for result in in_threads(8, lambda _: backend.get_or_set("k", load))}
    assert kinds == {Peculiar, larder_cache.LoadFailed}


def test_stale_value_is_served_while_the_loader_fails(make):
    backend = make(options={"grace": "1h", "retry_after": 0})
    backend.set("k", {"value": 1}, 0.05)
    time.sleep(0.1)
    assert backend.get("k") is None

    def broken():
        raise OSError("the database is away")

    async def awaited_broken():
        broken()

    assert backend.get_or_set("k", broken) == {"value": 1}
    assert asyncio.run(backend.aget_or_set("k", awaited_broken)) == {"value": 1}
    with pytest.raises(OSError, match="away"):
        backend.get_or_set("other", broken)


def test_rotated_secret_reads_what_the_fallback_signed(make):
    value = datetime.date(2020, 1, 2)
    make().set("k", value)
    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["a secret of the tests"]):
        rotated, elsewhere = make(), make(options={"memory_bytes": "8MiB"})
        assert rotated.get("k") == elsewhere.get("k") == value
        rotated.set("l", value)
    with override_settings(SECRET_KEY="new"):
        # As after a restart: memory has verified its values already.
        restarted = make(options={"memory_bytes": "4MiB"})
        assert restarted.get("k") is None
        assert restarted.get("l") == value
        assert restarted.get_or_set("k", lambda: "loaded") == "loaded"


def test_secret_is_read_at_the_first_call(make):
    with override_settings(SECRET_KEY=""):
        backend = make()
        with pytest.raises(ImproperlyConfigured, match="SECRET_KEY"):
            backend.get("k")
    backend.set("k", 1)
    assert backend.get("k") == 1


class Planted:
    """Leaves a trace where it is unpickled."""

    loaded = []

    def __reduce__(self):
        return leave_trace, (1,)


def leave_trace(number):
    Planted.loaded.append(number)


def test_pickle_with_another_signature_is_never_loaded(make, redis_server, namespace):
    backend = make()
    attacker = larder_cache.Cache(namespace, ttl=60, redis=redis_server.url)
    attacker.view("django", codec="pickle", keys=[b"not the key of the site"]).set(":1:k", Planted())
    Planted.loaded.clear()
    assert backend.get("k") is None
    assert backend.get_many(["k"]) == {}
    assert "k" not in backend
    assert backend.get_or_set("k", lambda: "loaded") == "loaded"
    assert Planted.loaded == []
    # A value of this site that was moved to another key.
    backend.set("moved", Planted())
    keys = redis_server.command("KEYS", f"{namespace}:*")
    (origin,) = [key for key in keys if key.endswith(b":1:moved")]
    redis_server.command("COPY", origin, origin.replace(b":1:moved", b":1:target"))
    assert backend.get("target") is None
    assert Planted.loaded == []
    # The trace is one: the site loads its own value.
    backend.get("moved")
    assert Planted.loaded == [1]
    attacker.close(0.5)


def test_get_or_set_in_a_transaction_does_not_store_if_told_so(make):
    backend = make(options={"store_in_atomic": False})
    for alias in ("default", "other"):
        with transaction.atomic(using=alias):
            assert backend.get_or_set("k", lambda: 1) == 1
            assert async_to_sync(backend.aget_or_set)("k", lambda: 2) == 2
            assert backend.get("k") is None
    assert backend.get_or_set("k", lambda: 3) == 3
    with transaction.atomic():
        assert backend.get_or_set("k", lambda: 4) == 3
    stores = make()
    with transaction.atomic():
        assert stores.get_or_set("l", lambda: 1) == 1
    assert stores.get("l") == 1


def test_uncommitted_value_reaches_no_other_thread(make):
    backend = make(options={"store_in_atomic": False})
    loading, results = threading.Event(), []

    def load():
        loading.set()
        time.sleep(0.3)
        return "uncommitted"

    def other():
        loading.wait(10)
        results.append(backend.get_or_set("k", lambda: "committed"))

    thread = threading.Thread(target=other)
    thread.start()
    with transaction.atomic():
        assert backend.get_or_set("k", load) == "uncommitted"
    thread.join(10)
    assert results == ["committed"]
    assert backend.get("k") == "committed"


def test_invalidate_on_commit_removes_after_the_commit(nodes):
    one, other = nodes

    def store():
        one.set_many({"a": 1, "b": 2})
        one.set("c", 3, tags=["fruit"])
        one.set("v", 4, version=2)
        eventually("the other node has them", lambda: len(other.get_many("abc")) == 3)
        assert other.get("v", version=2) == 4

    store()
    with transaction.atomic():
        one.invalidate_on_commit(keys=["a"], tags=["fruit"])
        one.invalidate_on_commit(keys=["v"], version=2)
        assert one.get_many("abc") == {"a": 1, "b": 2, "c": 3}
        # What another request loads before the commit is the old row, and goes with it.
        one.delete("a")
        assert other.get_or_set("a", lambda: "old") == "old"
    assert one.get_many("abc") == {"b": 2}
    assert one.get("v", version=2) is None
    eventually("the other node hears of it", lambda: other.get_many("abc") == {"b": 2})

    store()
    with contextlib.suppress(ZeroDivisionError), transaction.atomic():
        one.invalidate_on_commit(keys=["a"])
        raise ZeroDivisionError
    assert one.get("a") == 1

    with transaction.atomic(using="other"):
        one.invalidate_on_commit(keys=["a"], alias="other")
        one.invalidate_on_commit(keys=["b"])
        assert one.get_many("ab") == {"a": 1}
    assert one.get_many("ab") == {}

    for wrong in ({"keys": "ab"}, {"tags": "ab"}, {"tags": [1]}):
        (name,) = wrong
        with pytest.raises(larder_cache.OptionError, match=f"{name} (is|has)"):
            one.invalidate_on_commit(**wrong)


def test_tags_invalidate_in_every_node(nodes):
    one, other = nodes
    one.set("a", 1, tags=["fruit"])
    one.set_many({"b": 2}, tags=["fruit", "red"])
    one.add("c", 3, tags=["fruit"])
    one.get_or_set("d", lambda: 4, tags=["fruit"])
    asyncio.run(one.aget_or_set("e", 5, tags=["fruit"]))
    one.set("f", 6, tags=["leek"])
    assert len(other.get_many("abcdef")) == 6
    one.invalidate_tags(["fruit"])
    assert one.get_many("abcdef") == {"f": 6}
    eventually("the other node hears of it", lambda: other.get_many("abcdef") == {"f": 6})
    asyncio.run(one.ainvalidate_tags(["leek"]))
    assert one.get("f") is None
    with pytest.raises(larder_cache.OptionError, match="tags is 'fruit'"):
        one.set("a", 1, tags="fruit")
    with pytest.raises(larder_cache.OptionError, match="tags is 'fruit'"):
        one.invalidate_tags("fruit")


MUTATIONS = [
    lambda backend: backend.set("k", 2),
    lambda backend: backend.set("k", 2, 0),
    lambda backend: backend.set_many({"k": 2}),
    lambda backend: backend.set_many({"k": 2}, 0),
    lambda backend: backend.delete("k"),
    lambda backend: backend.delete_many(["k"]),
    lambda backend: backend.touch("k", 0),
    lambda backend: backend.invalidate_tags(["fruit"]),
    lambda backend: backend.invalidate_on_commit(keys=["k"]),
    lambda backend: backend.invalidate_on_commit(tags=["fruit"]),
    lambda backend: backend.clear(),
    lambda backend: asyncio.run(backend.aset("k", 2)),
    lambda backend: asyncio.run(backend.adelete("k")),
]


def test_strict_raises_what_redis_did_not_confirm(make, own_redis):
    backend = make(own_redis.url, options={"strict": True})
    backend.set("k", 1)
    own_redis.stop()
    for mutate in MUTATIONS:
        with pytest.raises(larder_cache.RedisError, match="did not confirm"):
            mutate(backend)
    assert backend.get("nothing") is None
    assert backend.get_or_set("l", lambda: 3) == 3


def test_without_redis_reads_miss_loads_run_and_mutations_are_queued(make, own_redis, caplog):
    one, other = make(own_redis.url), make(own_redis.url, options={"memory_bytes": "8MiB"})
    one.set("k", 1)
    assert other.get("k") == 1
    own_redis.pause()
    with caplog.at_level(logging.WARNING, "larder_cache"):
        for mutate in MUTATIONS:
            mutate(one)
        one.set("k", 2)
        assert one.get("k") == 2
        assert one.get("nothing") is None
        assert one.get_or_set("loaded", lambda: 3) == 3
        for conditional in (lambda: one.add("a", 1), lambda: one.incr("k"), lambda: one.touch("k")):
            with pytest.raises(larder_cache.RedisError):
                conditional()
    messages = [record.getMessage() for record in caplog.records if record.name == "larder_cache"]
    assert len([message for message in messages if "did not confirm a mutation" in message]) == 1
    own_redis.go_on()
    eventually("the invalidations are replayed", lambda: one.larder.drain(1) == 0)
    eventually("the other node hears of it", lambda: other.get("k") != 1)


def test_counters_of_two_nodes_add_up(nodes):
    nodes[0].set("k", 0, None)
    both = iter(nodes * 4)

    def count():
        backend = next(both)
        for _ in range(20):
            backend.incr("k")

        async def awaited():
            for _ in range(5):
                await backend.aincr("k")

        asyncio.run(awaited())

    assert in_threads(8, lambda _: count()) == [None] * 8
    assert nodes[0].incr("k", 0) == 200
    for value in ("text", 1.5, None, 2**63 - 1):
        nodes[0].set("k", value)
        with pytest.raises(TypeError, match="'k' is no whole number, or the sum has more than 64 bits"):
            nodes[0].incr("k")


def test_timeouts_are_those_of_django(make):
    backend = make(TIMEOUT=100)
    view = backend._view

    def ttl_of(timeout):
        backend.set("k", 1, timeout)
        return view.ttl(":1:k")

    assert 49 < ttl_of(50) <= 50
    assert 5 < ttl_of(5.5) <= 5.5
    assert ttl_of(None) > 100 * 365 * 86_400
    assert ttl_of(10**15) > 100 * 365 * 86_400
    assert ttl_of(0) is None
    assert ttl_of(-1) is None
    backend.set("k", 1)
    assert 99 < view.ttl(":1:k") <= 100
    backend.set("k", 1, 10)
    assert backend.touch("k", None) is True
    assert view.ttl(":1:k") > 100 * 365 * 86_400
    assert backend.add("k", 2, 0) is False
    assert backend.touch("k", -1) is True
    assert backend.touch("k", -1) is False
    assert backend.get("k") is None
    assert backend.get_or_set("k", lambda: 3, 0) == 3
    assert backend.get("k") is None
    backend.get_or_set("k", lambda: 3, 20)
    assert 19 < view.ttl(":1:k") <= 20
    for wrong in ("5m", [], datetime.timedelta(1)):
        with pytest.raises(TypeError, match="timeout is .*; it must be a number of seconds, or None"):
            backend.set("k", 1, wrong)
    forever = make(TIMEOUT=None)
    forever.set("k", 1)
    assert view.ttl(":1:k") > 100 * 365 * 86_400
    never = make(TIMEOUT=0)
    never.set("k", 1)
    assert never.get("k") is None


@pytest.mark.parametrize(
    ("location", "options", "message"),
    [
        ("nonsense", {}, "redis address .*nonsense"),
        (["redis://a", "redis://b"], {}, "LOCATION is"),
        ("redis://a", {"redis": "redis://b"}, "redis is 'redis://b'"),
        ("", {"memory_byte": 1}, "memory_byte.*did you mean memory_bytes"),
        ("", {"socket_timeout": 1}, "no option .*socket_timeout"),
        ("", {"memory_bytes": "much"}, 'memory_bytes is "much"'),
        ("", {"namespace": "a:b"}, "namespace is"),
        ("", {"namespace": 3}, "namespace is 3"),
        ("", {"view": None}, "view is None"),
        ("", {"codec": "json"}, "codec is 'json'"),
        ("", {"strict": "yes"}, "strict is 'yes'"),
        ("", {"store_in_atomic": 0}, "store_in_atomic is 0"),
        ("", {"ttl": "5m"}, "ttl is '5m'.*TIMEOUT"),
        ("", {"negative_ttl": 5}, "negative_ttl is 5"),
    ],
)
def test_wrong_setting_is_named(make, location, options, message):
    with pytest.raises(larder_cache.OptionError, match=message):
        make(location, options=options)


def test_view_of_messagepack_is_that_of_other_languages(make, make_cache):
    backend = make(options={"codec": "messagepack", "view": "product"}, KEY_FUNCTION=lambda key, prefix, version: key)
    backend.set("apple", {"price": 3})
    view = make_cache().view("product")
    assert view.get("apple") == {"price": 3}
    view.set("pear", [1, 2])
    assert backend.get("pear") == [1, 2]
    with pytest.raises(larder_cache.EncodeError, match="cannot be written"):
        backend.set("apple", datetime.date(2020, 1, 2))


def test_get_many_answers_all_keys_that_are_one_key_of_the_cache(make):
    backend = make()
    backend.set(1, "one")
    assert backend.get_many([1, "1", 2]) == {1: "one", "1": "one"}


def test_awaited_calls_use_no_thread(make, monkeypatch):
    # Nor do those that the base has, over calls of this class.
    own = {name for name in TWINS if "a" + name in vars(LarderCache)}
    assert set(TWINS) - own == {"has_key", "decr", "incr_version", "decr_version"}
    monkeypatch.setattr("django.core.cache.backends.base.sync_to_async", None)
    backend = make()

    async def run():
        await backend.aset("k", 1)
        assert await backend.ahas_key("k") is True
        assert await backend.adecr("k", 5) == -4
        assert await backend.aincr_version("k") == 2
        assert await backend.adecr_version("k", version=2) == 1
        assert await backend.atouch("k", 10) is True
        assert await backend.aadd("k", 1) is False
        assert await backend.aget_many(["k"]) == {"k": -4}
        await backend.aset_many({"l": 1})
        await backend.adelete_many(["k"])
        assert await backend.adelete("l") is True
        await backend.aclear()
        await backend.aclose()

    asyncio.run(run())


def test_end_of_a_request_keeps_memory(site):
    site(location="")
    cache.set("k", 1)
    # The test suite of Django disconnects what closes the databases.
    signals.request_finished.send(sender=None)
    assert cache.get("k") == 1
    assert in_threads(1, lambda _: cache.get("k")) == [1]


def test_sessions_are_kept(site):
    site()
    session = SessionStore()
    session["cart"] = [1, 2]
    session.save()
    again = SessionStore(session.session_key)
    assert again["cart"] == [1, 2]
    again["cart"].append(3)
    again.modified = True
    again.save()
    again.cycle_key()
    assert SessionStore(session.session_key).load() == {}
    assert SessionStore(again.session_key)["cart"] == [1, 2, 3]
    assert session.exists(again.session_key)
    again.flush()
    assert not session.exists(again.session_key)


def test_pages_and_template_fragments_are_kept(site):
    site()
    calls = []

    @cache_page(60)
    def page(request):
        calls.append(1)
        return HttpResponse(f"page {len(calls)}")

    responses = [page(RequestFactory().get("/page")) for _ in range(3)]
    assert [response.content for response in responses] == [b"page 1"] * 3
    assert len(calls) == 1
    template = engines["django"].from_string("{% load cache %}{% cache 60 part %}{{ text }}{% endcache %}")
    assert [template.render({"text": text}) for text in ("first", "second")] == ["first", "first"]


def test_keys_that_memcached_refuses_are_warned_of(make):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make().invalidate_on_commit(keys=["a b"])
    assert len(caught) == 1


def test_page_for_users_names_each_option():
    page = Path(__file__).parents[3] / "docs" / "django.md"
    rows = [line.split("|") for line in page.read_text().splitlines() if line.startswith("| `")]
    shown = {row[1].strip(" `"): row[2].strip() for row in rows}
    for name, default in larder_cache.django._OWN_OPTIONS.items():
        assert shown[name] == f"`{default!r}`".replace("'", '"')
