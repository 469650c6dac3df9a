"""redis-py: pipelines, which are transactions by default, WATCH, messages, the client-side cache, and Lock."""

from threading import Thread

import redis
from redis.cache import CacheConfig

from suite import equal, eventually, fails

NAME = "redis-py"


def run(suite):
    for protocol in (2, 3):
        client = redis.Redis(suite.host, suite.port, protocol=protocol)
        cases = [
            ("values", values),
            ("pipeline", pipeline),
            ("WATCH", watch),
            ("publish and subscribe", messages),
            ("sorted sets", sorted_sets),
            ("script", script),
            ("Lock", lock),
            ("hashes", lambda client, key: equal(client.hset(key, "field", "value"), 1)),
            ("lists", lambda client, key: equal(client.rpush(key, "item"), 1)),
            ("sets", lambda client, key: equal(client.sadd(key, "member"), 1)),
        ]
        for name, case in cases:
            suite.case(NAME, name, lambda: case(client, suite.key()), protocol)
        suite.survives(NAME, lambda client=client: equal(client.set("python:survivor", 1), True), protocol)
    cached = redis.Redis(suite.host, suite.port, protocol=3, cache_config=CacheConfig())
    suite.case(NAME, "client-side cache", lambda: client_side_cache(cached, client, suite.key()), 3)
    suite.survives(NAME, survivor_with_cache(cached, client, suite.key()), 3, "restart with cache")


def values(client, key):
    equal(client.set(key, "1", ex=60), True)
    equal(client.set(key, "2", nx=True), None)
    equal(client.get(key), b"1")
    equal(client.incr(key, 41), 42)
    equal(client.mget(key, key + ":missing"), [b"42", None])
    equal(client.ttl(key) in (59, 60), True)
    equal(list(client.scan_iter(key)), [key.encode()])
    equal(client.getdel(key), b"42")
    equal(client.exists(key), 0)


def pipeline(client, key):
    replies = client.pipeline().set(key, 1).incr(key).get(key).execute()
    equal(replies, [True, 2, b"2"])
    failing = client.pipeline().set(key, "text").incr(key)
    fails(redis.ResponseError, failing.execute)
    equal(client.get(key), b"text")
    equal(client.pipeline(transaction=False).delete(key).exists(key).execute(), [1, 0])


def watch(client, key):
    """Two threads count with optimistic locks; none of the increments is lost."""

    def increment(pipe):
        before = int(pipe.get(key) or 0)
        pipe.multi()
        pipe.set(key, before + 1)

    def count():
        for _ in range(50):
            client.transaction(increment, key)

    threads = [Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(client.get(key), b"100")


def messages(client, key):
    with client.pubsub() as subscriber:
        subscriber.subscribe(key)
        subscriber.psubscribe(key + ":*")
        kinds = [subscriber.get_message(timeout=5)["type"] for _ in range(2)]
        equal(kinds, ["subscribe", "psubscribe"])
        equal(client.publish(key, "first"), 1)
        equal(client.publish(key + ":a", "second"), 1)
        received = [subscriber.get_message(timeout=5) for _ in range(2)]
        equal([(message["type"], message["data"]) for message in received], [("message", b"first"), ("pmessage", b"second")])
        subscriber.unsubscribe()
        equal(subscriber.get_message(timeout=5)["type"], "unsubscribe")
    equal(client.publish(key, "nobody"), 0)


def sorted_sets(client, key):
    equal(client.zadd(key, {"a": 1, "b": 2.5}), 2)
    equal(client.zincrby(key, 2, "a"), 3.0)
    ranks = client.zrange(key, 0, -1, withscores=True)
    equal([tuple(pair) for pair in ranks], [(b"b", 2.5), (b"a", 3.0)])


def script(client, key):
    add = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    equal(add(keys=[key], args=[5]), 5)
    equal(add(keys=[key], args=[5]), 10)


def lock(client, key):
    first, second = (client.lock(key, timeout=10) for _ in range(2))
    equal(first.acquire(), True)
    equal(second.acquire(blocking=False), False)
    equal(first.extend(10), True)
    first.release()
    equal(client.exists(key), 0)
    with second:
        equal(second.owned(), True)


def client_side_cache(cached, writer, key):
    equal(writer.set(key, "old"), True)
    equal(cached.get(key), b"old")
    equal(cached.get_cache().size, 1)
    # Somebody else's write invalidates the cached value.
    equal(writer.set(key, "new"), True)
    eventually(lambda: equal(cached.get(key), b"new"))


def survivor_with_cache(cached, writer, key):
    """What was cached before the restart is not used after it."""
    written = []

    def use():
        written.append(len(written))
        writer.set(key, written[-1])
        eventually(lambda: equal(cached.get(key), str(written[-1]).encode()), seconds=1)

    return use
