"""The backend of dogpile.cache: its own generic tests, and what is promised beyond them."""

import doctest
import logging
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from dogpile.cache import make_region
from dogpile.cache.api import NO_VALUE
from dogpile.testing import fixtures

import larder_cache.dogpile
from conftest import eventually
from larder_cache.dogpile import LarderBackend

KEYS = ["k" * 16]


class _Suite(fixtures._GenericBackendTestSuite):
    """The generic tests of dogpile.cache, each with an empty namespace."""

    backend = "larder_cache"
    more = {}

    @pytest.fixture(autouse=True)
    def _configure(self, redis_server, namespace):
        arguments = {"namespace": f"{type(self).__name__}-{namespace}", "ttl": "1h", "redis": redis_server.url}
        self.config_args = {"arguments": {**arguments, **self.more}}
        yield
        self._region_inst = self._backend_inst = None

    @classmethod
    def setup_class(cls):
        # The fixture has what the class of dogpile.cache would try out here, without a server.
        pass

    def test_argument_dictionary_unmodified(self):
        # That of dogpile.cache adds arguments that no backend knows. Here they are errors: a misspelt one is found.
        arguments = dict(self.config_args["arguments"])
        make_region().configure(self.backend, arguments=arguments)
        assert arguments == self.config_args["arguments"]


class TestMessagePack(_Suite):
    pass


class TestThreadLock(_Suite):
    """With the lock of dogpile.cache, which has no timeout: then its tests accept no second creator."""

    more = {"keys": KEYS, "distributed_lock": False}


class TestSerializer(fixtures._GenericSerializerTestSuite, _Suite):
    pass


class TestPickled(_Suite, fixtures._GenericMutexTestSuite):
    more = {"keys": KEYS}


@pytest.fixture
def make_backend(redis_server, namespace):
    def make(**arguments):
        usual = {"namespace": namespace, "ttl": "1h", "redis": redis_server.url, "keys": KEYS}
        return LarderBackend({**usual, **arguments})

    return make


@pytest.fixture
def make_region_of(redis_server, namespace):
    def make(expiration_time=60, **arguments):
        usual = {"namespace": namespace, "ttl": "1h", "redis": redis_server.url, "keys": KEYS}
        return make_region().configure(
            "larder_cache", expiration_time=expiration_time, arguments={**usual, **arguments}
        )

    return make


def test_page_says_what_is_true(redis_server, namespace, capsys):
    page = (Path(__file__).parents[3] / "docs" / "dogpile.md").read_text()
    program = "\n".join(re.findall("```python\n(.*?)```", page, re.DOTALL))
    exec(program.replace("redis://127.0.0.1:6379/0", redis_server.url).replace('"shop"', f'"{namespace}"'), {})
    assert capsys.readouterr().out == "asking the database\n3 3\n4\n"
    assert doctest.testmod(larder_cache.dogpile).failed == 0


def test_backends_with_the_same_options_share_one_cache(make_backend):
    assert make_backend().larder is make_backend().larder
    assert make_backend().larder is not make_backend(max_lag=0.2).larder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "namespace is None"),
        ({"namespace": 7, "ttl": 1}, "namespace is 7"),
        ({"namespace": "a:b", "ttl": 1}, 'namespace is "a:b"'),
        ({"namespace": "a"}, "needs a time to live"),
        ({"namespace": "a", "ttl": 1, "max_lagg": 1}, "did you mean max_lag"),
        ({"namespace": "a", "ttl": 1, "memory_bytes": "lots"}, 'memory_bytes is "lots"'),
        ({"namespace": "a", "ttl": 1, "keys": 7}, "keys is of type int"),
        ({"namespace": "a", "ttl": 1, "keys": ["short"]}, "5 bytes; it must have at least 16"),
        ({"namespace": "a", "ttl": 1, "lock_timeout": 0}, "lock_timeout is 0"),
        ({"namespace": "a", "ttl": 1, "lock_timeout": "soon"}, "lock_timeout is 'soon'"),
        ({"namespace": "a", "ttl": 1, "distributed_lock": "maybe"}, "distributed_lock is 'maybe'"),
        ({"namespace": "a", "ttl": 1, "view": "b:c"}, "the name of a view"),
    ],
)
def test_wrong_argument_is_named_with_its_value(arguments, message):
    with pytest.raises(larder_cache.OptionError, match=message):
        make_region().configure("larder_cache", arguments=arguments)


def test_region_is_configured_from_text(redis_server, namespace):
    config = {
        "cache.backend": "larder_cache",
        "cache.expiration_time": "60",
        "cache.arguments.namespace": namespace,
        "cache.arguments.ttl": "1h",
        "cache.arguments.redis": redis_server.url,
        "cache.arguments.keys": "a secret of 16 bytes or more",
        "cache.arguments.lock_timeout": "5",
        "cache.arguments.distributed_lock": "true",
    }
    region = make_region().configure_from_config(config, "cache.")
    assert region.get_or_create("k", lambda: {1, 2}) == {1, 2}
    assert region.backend.lock_timeout == 5.0


def test_values_without_keys_are_those_of_other_languages(make_region_of, namespace, redis_server):
    region = make_region_of(keys=None)
    region.set("k", {"price": [1, 2.5, None]})
    assert region.get("k") == {"price": [1, 2.5, None]}
    with pytest.raises(larder_cache.EncodeError):
        region.set("k", object())
    # Another program reads the pair of metadata and value.
    other = larder_cache.Cache(namespace, ttl="1h", redis=redis_server.url)
    metadata, value = other.view("dogpile", schema=("dogpile", 1)).get("k")
    assert value == {"price": [1, 2.5, None]} and abs(metadata["ct"] - time.time()) < 60
    other.close(0.5)


def test_value_signed_with_another_key_is_a_miss(make_region_of):
    make_region_of(keys=["a" * 16], memory_bytes="1MiB").set("k", 1)
    assert make_region_of(keys=["b" * 16], memory_bytes="2MiB").get("k") is NO_VALUE
    assert make_region_of(keys=["b" * 16, "a" * 16], memory_bytes="3MiB").get("k") == 1


def test_value_of_a_region_with_another_serializer_is_a_miss(make_region_of, make_backend):
    make_region_of().set("k", 1)
    assert make_backend().get_serialized("k") is NO_VALUE
    make_backend().set_serialized("k", b"bytes")
    assert make_region_of().get("k") is NO_VALUE


def test_none_is_a_value(make_region_of):
    region = make_region_of()
    region.set("k", None)
    assert region.get("k") is None
    assert region.get("other") is NO_VALUE


def test_deletion_reaches_other_processes(make_region_of):
    # Other options make another cache, which is another node.
    here, there = make_region_of(), make_region_of(max_lag=0.5)
    here.set("k", 1)
    assert there.get("k") == 1
    here.delete("k")
    eventually("the other node hears of it", lambda: there.get("k") is NO_VALUE)


def test_mutex_excludes_other_processes(make_backend):
    here, there = make_backend().get_mutex("k"), make_backend(max_lag=0.5).get_mutex("k")
    assert here.acquire() is True
    assert there.acquire(False) is False
    assert there.locked() is True
    threading.Timer(0.3, here.release).start()
    began = time.monotonic()
    assert there.acquire() is True
    assert 0.2 < time.monotonic() - began < 5
    assert here.acquire(False) is False
    there.release()
    assert here.acquire(False) is True
    here.release()
    with pytest.raises(RuntimeError, match="'k' is not held"):
        here.release()


def test_mutex_of_a_dead_process_ends_with_its_timeout(make_backend):
    dead = make_backend(lock_timeout=0.5).get_mutex("k")
    alive = make_backend(lock_timeout=0.5, max_lag=0.5).get_mutex("k")
    dead.acquire()
    began = time.monotonic()
    assert alive.acquire() is True
    assert 0.2 < time.monotonic() - began < 5
    # It is no longer the one of the first: its release leaves it to the second.
    dead.release()
    assert dead.acquire(False) is False
    alive.release()


def test_lock_lasts_as_long_as_it_says_whatever_the_values_do(make_backend):
    backend = make_backend(lock_timeout=20, grace="1h", jitter=0.5)
    for number in range(20):
        backend.get_mutex(f"k{number}").acquire()
        assert 19 < backend._locks.ttl(f"k{number}") <= 20


def test_mutex_of_a_cache_that_is_off_is_one_of_its_threads(make_backend):
    backend = make_backend()
    backend.larder.set_enabled(False)
    mutex = backend.get_mutex("k")
    began = time.monotonic()
    assert mutex.acquire() is True
    assert time.monotonic() - began < 5
    assert backend.get_mutex("k").acquire(False) is False
    mutex.release()
    backend.larder.set_enabled(True)


def test_one_process_of_many_creates(redis_server, namespace, tmp_path):
    program = """
        import sys, time
        import larder_cache.dogpile
        from dogpile.cache import make_region
        arguments = {"namespace": sys.argv[2], "ttl": "1h", "redis": sys.argv[1]}
        region = make_region().configure("larder_cache", expiration_time=60, arguments=arguments)
        print("ready", flush=True)
        sys.stdin.readline()

        def create():
            with open(sys.argv[3], "a") as calls:
                calls.write("called\\n")
            time.sleep(1)
            return 7

        print(region.get_or_create("k", create))
    """
    calls = tmp_path / "calls"
    words = [sys.executable, "-c", textwrap.dedent(program), redis_server.url, namespace, str(calls)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(words, **pipes) for _ in range(4)]
    try:
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [process.communicate(timeout=30)[0] for process in processes] == ["7\n"] * 4
        assert calls.read_text() == "called\n"
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_expired_value_is_returned_while_another_process_creates(make_region_of):
    here, there = make_region_of(expiration_time=0.2), make_region_of(expiration_time=0.2, max_lag=0.5)
    here.set("k", "old")
    time.sleep(0.3)
    began, go_on = threading.Event(), threading.Event()

    def create():
        began.set()
        go_on.wait(10)
        return "new"

    creator = threading.Thread(target=here.get_or_create, args=("k", create))
    creator.start()
    began.wait()
    assert there.get_or_create("k", lambda: pytest.fail("two create")) == "old"
    go_on.set()
    creator.join()
    eventually("the new value is there", lambda: there.get("k", ignore_expiration=True) == "new")


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="the fork of a program with threads is an error")
def test_child_of_a_fork_waits_for_no_thread_of_its_parent(make_region_of):
    region = make_region_of(distributed_lock=True, lock_timeout=1)
    began, go_on = threading.Event(), threading.Event()

    def create():
        began.set()
        go_on.wait(20)
        return "of the parent"

    thread = threading.Thread(target=region.get_or_create, args=("k", create))
    thread.start()
    began.wait()
    child = os.fork()
    if child == 0:
        # The entry of the parent ends after a second. The lock of its thread is never released here.
        mutex = region.backend.get_mutex("k")
        os._exit(0 if mutex.acquire() and not mutex.acquire(False) else 1)
    statuses = []
    try:
        eventually("the child ends", lambda: statuses.append(os.waitpid(child, os.WNOHANG)) or statuses[-1][0] == child)
        assert statuses[-1][1] == 0
    finally:
        if statuses[-1][0] != child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        go_on.set()
        thread.join()


def test_without_redis_each_process_creates_and_nothing_raises(own_redis, namespace, caplog):
    arguments = {"namespace": namespace, "ttl": "1h", "redis": own_redis.url, "keys": KEYS, "max_lag": 0.2}
    region = make_region().configure("larder_cache", expiration_time=60, arguments=arguments)
    region.set("deleted", 1)
    own_redis.stop()
    with caplog.at_level(logging.WARNING, "larder_cache.dogpile"):
        assert region.get_or_create("k", lambda: 7) == 7
        region.delete("deleted")
        region.delete_multi(["deleted", "other"])
        assert region.get("deleted") is NO_VALUE
        assert region.get_multi(["deleted", "nothing"]) == [NO_VALUE, NO_VALUE]
        region.set_multi({"a": 1})
    assert "the lock of 'k' is one of this process only" in caplog.text
    assert "delete of 'deleted' is queued" in caplog.text
    own_redis.start()
    assert region.backend.larder.drain(10) == 0
