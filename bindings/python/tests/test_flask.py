"""The backend of Flask-Caching: its own tests, and what is promised beyond them."""

import datetime
import doctest
import logging
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from flask import Flask
from flask_caching import Cache

import larder_cache.flask
from conftest import eventually, in_threads
from larder_cache.flask import NEVER, LarderCache

KEYS = [b"k" * 16]

#: The files of Flask-Caching's tests that speak of what every backend does.
SUITE = [
    "test_cache.py",
    "test_memoize.py",
    "test_view.py",
    "test_templates.py",
    "test_signals.py",
    "test_subclassing.py",
    "test_hash_method.py",
    "test_py314_annotations.py",
]
#: The other files, and why they do not run.
LEFT_OUT_FILES = {
    "test_backend_cache.py": "its generic class runs below; its other classes are the tests of other backends",
    "test_basic_app.py": "how an application chooses SimpleCache and RedisCache by their names",
    "test_init.py": "the same for each backend that Flask-Caching has",
    "test_cachelib.py": "the backends of cachelib by their names",
    "test_serializer.py": "CACHE_SERIALIZER, which is for backends of cachelib: this one signs what it pickles",
}
#: The tests of 2.5.1 that pass, those that `flask_caching_conftest.py` leaves out, and those that need Python 3.14.
PASSED, LEFT_OUT, NEEDS_314 = 157, 2, 3
#: Runs the generic class of `test_backend_cache.py`.
GENERIC = """
import pytest
from test_backend_cache import GenericCacheTests


class TestLarderCache(GenericCacheTests):
    @pytest.fixture
    def make_cache(self, make_larder_cache):
        return make_larder_cache


del GenericCacheTests
"""


@pytest.fixture
def make_backend(redis_server, namespace):
    def make(**options):
        words = {"namespace": namespace, "keys": KEYS, "redis": redis_server.url, **options}
        return LarderCache(**words)

    return make


@pytest.fixture
def make_app(redis_server, namespace):
    """Makes an application with its Flask-Caching."""

    def make(**config):
        app = Flask("shop")
        app.config.update(
            SECRET_KEY="secret",
            CACHE_TYPE="larder_cache.flask.LarderCache",
            CACHE_KEY_PREFIX=namespace,
            CACHE_LARDER_REDIS=redis_server.url,
        )
        app.config.update(config)
        return app, Cache(app)

    return make


@pytest.mark.timeout(200)
def test_suite_of_flask_caching(tmp_path, redis_server):
    folder = os.environ.get("LARDER_FLASK_CACHING_TESTS")
    assert folder, "LARDER_FLASK_CACHING_TESTS must name the folder tests of the source distribution of Flask-Caching"
    found = {file.name for file in Path(folder).glob("test_*.py")}
    # A file that is new is named here, or runs.
    assert found == {*SUITE, *LEFT_OUT_FILES}
    for name in found:
        (tmp_path / name).write_bytes((Path(folder) / name).read_bytes())
    (tmp_path / "conftest.py").write_bytes((Path(__file__).parent / "flask_caching_conftest.py").read_bytes())
    (tmp_path / "test_larder.py").write_text(GENERIC)
    environment = {**os.environ, "LARDER_TEST_REDIS": redis_server.url}
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", "--timeout", "60", *SUITE, "test_larder.py"]
    ended = subprocess.run([sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
    print(ended.stdout[-5000:])
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr
    # Those of annotations that Python has since 3.14 leave themselves out before.
    outcomes = re.search(r"(\d+) passed, (\d+) skipped", ended.stdout)
    expected = (PASSED, LEFT_OUT) if sys.version_info >= (3, 14) else (PASSED - NEEDS_314, LEFT_OUT + NEEDS_314)
    assert tuple(map(int, outcomes.groups())) == expected


def test_page_says_what_is_true(make_app, redis_server, namespace):
    page = (Path(__file__).parents[3] / "docs" / "flask.md").read_text()
    program = "\n".join(re.findall("```python\n(.*?)```", page, re.DOTALL))
    program = program.replace("redis://127.0.0.1:6379/0", redis_server.url).replace('"shop"', f'"{namespace}"')
    names = {"__name__": "app"}
    exec(program, names)
    assert doctest.testmod(larder_cache.flask).failed == 0
    client = names["app"].test_client()
    assert client.get("/price/apple").json == client.get("/price/apple").json == {"product": "apple", "price": 3}
    loads = []
    names["load_price"] = lambda product: loads.append(product) or {"product": product}
    for _ in range(2):
        assert client.get("/fresh-price/pear").json == {"product": "pear"}
    assert loads == ["pear"]
    assert client.post("/new-prices").status_code == 204
    client.get("/fresh-price/pear")
    assert loads == ["pear", "pear"]
    assert redis_server.command("EXISTS", f"{namespace}:flask:view//price/apple") == 1
    # Another node finds it.
    app, cache = make_app(SECRET_KEY="change this", CACHE_LARDER_MAX_LAG=0.5)
    with app.app_context():
        assert cache.get("view//price/apple") == {"product": "apple", "price": 3}


def test_application_caches_views_and_functions(make_app):
    app, cache = make_app()
    calls = []

    @app.route("/<name>")
    @cache.cached(timeout=60)
    def page(name):
        calls.append(name)
        return f"page of {name}"

    @cache.memoize()
    def price(name):
        calls.append(name)
        return {name: 3}

    client = app.test_client()
    assert client.get("/apple").text == client.get("/apple").text == "page of apple"
    with app.app_context():
        assert price("pear") == price("pear") == {"pear": 3}
        assert calls == ["apple", "pear"]
        cache.delete_memoized(price, "pear")
        assert price("pear") == {"pear": 3}
    assert calls == ["apple", "pear", "pear"]


def test_backends_with_the_same_options_share_one_cache(make_backend):
    assert make_backend().larder is make_backend().larder
    assert make_backend().larder is not make_backend(max_lag=0.2).larder


def test_change_reaches_other_processes(make_backend):
    # Other options make another cache, which is another node.
    here, there = make_backend(), make_backend(max_lag=0.5)
    here.set("k", 1)
    assert there.get("k") == 1
    here.set("k", 2)
    eventually("the other node hears of it", lambda: there.get("k") == 2)
    there.delete("k")
    eventually("the first node hears of it", lambda: here.get("k") is None)
    here.set("k", 3)
    there.clear()
    eventually("the first node hears of it", lambda: here.get("k") is None)


def test_timeouts_are_those_of_flask_caching(make_backend):
    backend = make_backend(default_timeout=100)
    ttl = backend.view.ttl
    for timeout, seconds in [(None, 100), (7, 7), (datetime.timedelta(seconds=6.5), 7), (6.5, 7), (0, NEVER)]:
        assert backend.set("k", 1, timeout) is True
        assert seconds - 5 < ttl("k") <= seconds
        assert backend.set_many({"l": 1, "m": 2}, timeout) == ["l", "m"]
        assert seconds - 5 < ttl("m") <= seconds
        backend.delete("n")
        assert backend.add("n", 1, timeout) is True
        assert seconds - 5 < ttl("n") <= seconds
    # Without an end by default.
    without = make_backend(default_timeout=0)
    without.set("k", 1)
    assert NEVER - 5 < without.view.ttl("k")


def test_negative_timeout_has_passed_already(make_backend):
    backend = make_backend()
    backend.set_many({"a": 1, "b": 2, "c": 3})
    assert backend.set("a", 9, -1) is True
    assert backend.set_many({"b": 9}, -1) == ["b"]
    assert backend.add("c", 9, -1) is False
    assert backend.add("d", 9, -1) is True
    assert backend.get_many("a", "b", "c", "d") == [None, None, 3, None]


@pytest.mark.parametrize("timeout", ["soon", True, float("inf"), [1]])
def test_wrong_timeout_is_named(make_backend, timeout):
    for call in (lambda: make_backend().set("k", 1, timeout), lambda: make_backend(default_timeout=timeout)):
        with pytest.raises(TypeError, match=re.escape(f"timeout is {timeout!r}")):
            call()


def test_value_may_be_none(make_backend):
    backend = make_backend()
    assert backend.has("k") is False
    backend.set("k", None)
    assert backend.get("k") is None
    assert backend.has("k") is True


def test_add_and_counters_are_one_step(make_backend):
    here, there = make_backend(), make_backend(max_lag=0.5)
    assert [here.add("k", 1), there.add("k", 2), there.get("k")] == [True, False, 1]
    assert [here.inc("n", 5), there.inc("n"), here.dec("n", 2), there.dec("m")] == [5, 6, 4, -1]
    assert 295 < here.view.ttl("n") <= 300
    here.set("text", "a")
    with pytest.raises(larder_cache.LarderError, match="'text' is no whole number"):
        here.inc("text")


def test_many_keys_are_deleted_whether_they_were_there_or_not(make_backend):
    backend = make_backend()
    backend.set("a", 1)
    assert backend.delete_many("a", "b") == ["a", "b"]
    assert backend.delete_many() == []
    assert backend.get("a") is None
    assert backend.delete("a") is False


def test_value_that_cannot_be_pickled_raises_what_pickle_raises(make_backend):
    with pytest.raises(TypeError, match="cannot pickle"):
        make_backend().set("k", threading.Lock())


def test_prefix_is_the_namespace(make_app, redis_server):
    app, cache = make_app(CACHE_KEY_PREFIX="of-one-app:")
    other, other_cache = make_app(CACHE_KEY_PREFIX="of-other-app")
    with app.app_context():
        cache.set("k", 1)
        assert cache.cache.larder.namespace == "of-one-app"
    with other.app_context():
        assert other_cache.get("k") is None
        other_cache.clear()
    with app.app_context():
        assert cache.get("k") == 1
    assert redis_server.command("EXISTS", "of-one-app:flask:k") == 1


def test_options_come_from_the_configuration(make_app):
    app, cache = make_app(
        CACHE_DEFAULT_TIMEOUT=50,
        CACHE_LARDER_NAMESPACE="other",
        CACHE_LARDER_VIEW="pages",
        CACHE_LARDER_MAX_LAG="500ms",
        CACHE_OPTIONS={"memory_bytes": "1MiB"},
    )
    with app.app_context():
        backend = cache.cache
        cache.set("k", 1)
        assert (backend.larder.namespace, backend.view.name) == ("other", "pages")
        assert backend.larder.stats()["memory"]["capacity"] == 1 << 20
        assert 45 < backend.view.ttl("k") <= 50


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"CACHE_LARDER_MAX_LAGG": 1}, "did you mean max_lag"),
        ({"CACHE_LARDER_MEMORY_BYTES": "lots"}, 'memory_bytes is "lots"'),
        ({"CACHE_OPTIONS": {"memory_bytes": "lots"}}, 'memory_bytes is "lots"'),
        ({"CACHE_LARDER_TTL": 7}, "ttl is 7; the time to live is CACHE_DEFAULT_TIMEOUT"),
        ({"CACHE_LARDER_REDIS": "nowhere"}, "nowhere"),
        ({"CACHE_KEY_PREFIX": "a:b"}, "CACHE_KEY_PREFIX is 'a:b'"),
        ({"CACHE_KEY_PREFIX": ""}, "CACHE_KEY_PREFIX is ''"),
        ({"CACHE_KEY_PREFIX": None}, "CACHE_KEY_PREFIX is None"),
        ({"CACHE_LARDER_NAMESPACE": "a:b"}, 'namespace is "a:b"'),
        ({"CACHE_LARDER_VIEW": "a:b"}, 'the name of a view is "a:b"'),
        ({"CACHE_ARGS": [1]}, r"CACHE_ARGS is \[1\]"),
        ({"CACHE_LARDER_KEYS": "a secret of 16 bytes or more"}, "keys is of type str; it must be a list of bytes"),
        ({"CACHE_LARDER_KEYS": [b"short"]}, "5 bytes; it must have at least 16"),
        ({"SECRET_KEY": None}, "SECRET_KEY is of type NoneType"),
        ({"SECRET_KEY": ""}, "SECRET_KEY is empty"),
        ({"SECRET_KEY": 7}, "SECRET_KEY is of type int"),
        ({"SECRET_KEY_FALLBACKS": ["old", None]}, r"SECRET_KEY_FALLBACKS\[1\] is of type NoneType"),
    ],
)
def test_wrong_option_is_named_with_its_value(make_app, config, message):
    with pytest.raises(larder_cache.OptionError, match=message):
        make_app(**config)


def test_secret_key_signs_and_its_fallbacks_are_accepted(make_app, namespace, redis_server):
    def found(**config):
        app, cache = make_app(**config)
        with app.app_context():
            return cache.get("k"), cache.has("k")

    app, cache = make_app(SECRET_KEY="old")
    with app.app_context():
        cache.set("k", {"price": 3})
    assert found(SECRET_KEY="new", CACHE_LARDER_MEMORY_BYTES="1MiB") == (None, False)
    assert found(SECRET_KEY=b"old", CACHE_LARDER_MEMORY_BYTES="2MiB") == ({"price": 3}, True)
    rotated = {"SECRET_KEY": "new", "SECRET_KEY_FALLBACKS": ["older", "old"], "CACHE_LARDER_MEMORY_BYTES": "3MiB"}
    assert found(**rotated) == ({"price": 3}, True)
    # The secret itself is no key: what another use of it has signed is not read here.
    key = b"a secret of 16 bytes"
    stranger = larder_cache.Cache(namespace, ttl="5m", redis=redis_server.url)
    stranger.view("flask", schema=("flask-caching", 1), codec="pickle", keys=[key]).set("k", "forged")
    assert found(SECRET_KEY=key, CACHE_LARDER_MEMORY_BYTES="4MiB") == (None, False)
    stranger.close(0.5)


def test_value_that_was_moved_to_another_key_is_a_miss(make_backend, namespace, redis_server):
    backend = make_backend()
    backend.set("of-a-guest", 1)
    redis_server.command("RENAME", f"{namespace}:flask:of-a-guest", f"{namespace}:flask:of-an-admin")
    assert backend.has("of-an-admin") is False
    assert backend.get("of-an-admin") is None
    assert backend.get_many("of-an-admin") == [None]


def test_without_redis_reads_miss_and_changes_are_queued(own_redis, namespace, caplog):
    backend = LarderCache(namespace, KEYS, redis=own_redis.url, max_lag=0.2)
    other = LarderCache(namespace, KEYS, redis=own_redis.url, max_lag=0.3)
    backend.set_many({"a": 1, "b": 2, "c": 3, "e": 5})
    assert backend.get("e") == 5
    assert other.get_many("a", "b", "c") == [1, 2, 3]
    own_redis.pause()
    with caplog.at_level(logging.WARNING, "larder_cache.flask"):
        assert backend.get("nothing") is None
        assert backend.get_many("nothing", "nowhere") == [None, None]
        assert backend.set("a", 9) is False
        assert backend.set_many({"x": 1}) == []
        backend.delete("b")
        assert backend.delete_many("c") == ["c"]
        assert backend.add("d", 1) is False
        assert backend.inc("n") is None
        assert backend.has("b") is False
        assert backend.get("e") == 5
        assert backend.clear() is False
        assert backend.get("e") is None
    assert "delete of 'b' is queued" in caplog.text and "'d' is not added" in caplog.text
    own_redis.go_on()
    assert backend.larder.drain(10) == 0
    eventually("the other node hears of it", lambda: other.get_many("a", "b", "c") == [None, None, None])


def test_one_of_many_callers_loads_through_the_view(make_app):
    app, cache = make_app()
    with app.app_context():
        backend = cache.cache
    calls = []

    def load():
        calls.append(1)
        time.sleep(0.2)
        return 7

    assert in_threads(8, lambda _: backend.view.fetch("k", load, tags=["prices"])) == [7] * 8
    assert len(calls) == 1
    assert backend.get("k") == 7
    backend.larder.invalidate_tags(["prices"])
    assert backend.get("k") is None
