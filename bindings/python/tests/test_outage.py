"""Redis is away, hangs, or comes back: a fetch loads, and an invalidation is queued."""

import time

import larder_cache
from conftest import eventually


def test_fetch_loads_and_invalidations_are_queued_while_redis_is_away(own_redis, namespace):
    cache = larder_cache.Cache(namespace, ttl=60, redis=own_redis.url, redis_timeout="100ms")
    other = larder_cache.Cache(namespace, ttl=60, redis=own_redis.url, redis_timeout="100ms")
    view, seen = cache.view("value"), other.view("value")
    view.set("k", 1)
    assert seen.get("k") == 1
    own_redis.pause()
    assert view.set("k", 2) is False
    assert view.fetch("loaded", lambda: 3) == 3
    assert view.delete("nothing") is False
    assert cache.coherence()["pending_invalidations"] > 0
    own_redis.go_on()
    eventually("the invalidations are replayed", lambda: cache.drain(1) == 0)
    eventually("the other node hears of it", lambda: seen.get("k") != 1)
    assert cache.close(1) == other.close(1) == 0


def test_nothing_waits_longer_than_its_timeouts(namespace, caplog):
    cache = larder_cache.Cache(namespace, ttl=60, redis="redis://127.0.0.1:1", redis_timeout="100ms")
    view = cache.view("value")
    began = time.monotonic()
    assert view.get("k") is None
    assert view.fetch("k", lambda: 1) == 1
    assert view.set("k", 2) is False
    assert time.monotonic() - began < 5
    assert cache.coherence()["problem"].startswith("Connection refused")
    assert [record.levelname for record in caplog.records if "request to redis failed" in record.message][:1] == ["WARNING"]
    assert {record.name for record in caplog.records} == {"larder_cache"}
    cache.close(0.1)
