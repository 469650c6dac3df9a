"""python-redis-lock: processes that exclude each other, waiting, expiry and renewal."""

import subprocess
import sys
from threading import Thread

import redis_lock
from redis import Redis

from suite import equal, fails

NAME = "python-redis-lock"

# Reads and writes a counter in two steps.
COUNT = """
import sys, redis, redis_lock
client, key = redis.Redis(sys.argv[1], int(sys.argv[2])), sys.argv[3]
for _ in range(50):
    with redis_lock.Lock(client, key, expire=30):
        client.set(key, int(client.get(key) or 0) + 1)
"""


def run(suite):
    client = Redis(suite.host, suite.port)
    suite.case(NAME, "processes", lambda: processes(suite, client, suite.key()))
    suite.case(NAME, "waiting", lambda: waiting(client, suite.key()))
    suite.case(NAME, "expiry", lambda: expiry(client, suite.key()))
    suite.case(NAME, "renewal", lambda: renewal(client, suite.key()))
    suite.case(NAME, "reset", lambda: reset(client, suite.key()))
    key = suite.key()
    suite.survives(NAME, lambda: waiting(client, key))


def processes(suite, client, key):
    """None of the increments is lost."""
    command = [sys.executable, "-c", COUNT, suite.host, str(suite.port), key]
    counters = [subprocess.Popen(command) for _ in range(2)]
    equal([counter.wait(timeout=20) for counter in counters], [0, 0])
    equal(client.get(key), b"100")


def waiting(client, key):
    """The next owner waits for the signal of the one before."""
    first, second = redis_lock.Lock(client, key), redis_lock.Lock(client, key)
    equal((first.acquire(), second.acquire(blocking=False)), (True, False))
    acquired = []
    waiter = Thread(target=lambda: acquired.append(second.acquire(timeout=5)))
    waiter.start()
    first.release()
    waiter.join()
    equal((acquired, second.get_owner_id() == second.id), ([True], True))
    second.release()
    equal(first.locked(), False)


def expiry(client, key):
    lost, next_owner = (redis_lock.Lock(client, key, expire=1) for _ in range(2))
    equal(lost.acquire(), True)
    equal(next_owner.acquire(), True)
    fails(redis_lock.NotAcquired, lost.release)
    fails(redis_lock.NotAcquired, lost.extend)
    next_owner.extend(expire=60)
    equal(client.ttl("lock:" + key) > 50, True)
    next_owner.release()


def renewal(client, key):
    """Others wait for longer than the lock lasts, and do not get it."""
    with redis_lock.Lock(client, key, expire=3, auto_renewal=True):
        other = redis_lock.Lock(client, key, expire=3)
        equal([other.acquire(timeout=2) for _ in range(2)], [False, False])
    equal(other.acquire(), True)


def reset(client, key):
    """All locks of the server, which a script finds by a pattern."""
    first, second = redis_lock.Lock(client, key), redis_lock.Lock(client, key + ":2")
    equal((first.acquire(), second.acquire()), (True, True))
    first.reset()
    equal((first.locked(), second.locked()), (False, True))
    redis_lock.reset_all(client)
    equal(second.locked(), False)
