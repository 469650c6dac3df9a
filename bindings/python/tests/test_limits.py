"""Many forks under load, and many writes: neither hangs, and memory stays within its bound."""

import gc
import os
import resource
import threading

import larder_cache

FORKS = 1_000
WRITES = 1_000_000


def test_thousand_forks_under_load(make_cache):
    cache = make_cache()
    view = cache.view("value")
    view.set("k", {"n": 0})
    ended = threading.Event()

    def load(number):
        count = 0
        while not ended.is_set():
            count += 1
            view.set((number, count % 50), {"n": count})
            view.fetch((number, "loaded", count), lambda: count)

    threads = [threading.Thread(target=load, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(FORKS):
            child = os.fork()
            if child == 0:
                # Some of them only inherit the cache, some start their own.
                right = number % 20 != 0 or view.fetch("k", lambda: None) == {"n": 0}
                os._exit(0 if right else 1)
            _, status = os.waitpid(child, 0)
            assert status == 0, number
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert view.get("k") == {"n": 0}
    assert cache.coherence()["mode"] == "full"


def test_memory_stays_within_its_bound_through_a_million_writes(namespace):
    cache = larder_cache.Cache(namespace, ttl="5m", memory_bytes="4MiB")
    view = cache.view("value", shared=True)

    def megabytes():
        gc.collect()
        with open("/proc/self/statm") as figures:
            return int(figures.read().split()[1]) * resource.getpagesize() / 2**20

    first = None
    for start in range(0, WRITES, 10_000):
        view.set_many({number % 50_000: {"n": number, "text": "x" * 100} for number in range(start, start + 10_000)})
        for number in range(start, start + 10_000, 10):
            view.hit(number % 50_000)
        if start == 200_000:
            first = megabytes()
    assert megabytes() - first < 40
    assert cache.stats()["memory"]["bytes"] <= 4 << 20
    cache.close()
