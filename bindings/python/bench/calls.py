"""The calls that `larder-bench run languages` measures in Python, of larder and of its peers.

A line on stdin names a workload, a subject and a number of calls. The answer is the nanoseconds of one call, or why there are none.
"""

import itertools
import random
import sys
import time
from functools import lru_cache, partial

KEYS = [f"product:{number}" for number in range(1_000)]
VALUE = {"name": "apple", "price": 3, "tags": ["fruit", "red"], "description": "a" * 160, "weight": 0.5}
TEXT = "a" * 254
TTL = 600
#: Room for all keys.
ENTRIES = 2 * len(KEYS)


def filled(write, value):
    for key in KEYS:
        write(key, value)


def of_dict():
    table = dict.fromkeys(KEYS, VALUE)
    return table.get


def of_lru_cache():
    @lru_cache(maxsize=ENTRIES)
    def function(key):
        return VALUE

    return function


def of_cachebox():
    from cachebox import TTLCache

    cache = TTLCache(ENTRIES, TTL)
    filled(cache.__setitem__, VALUE)
    return cache.get


def of_cachetools():
    from cachetools import TTLCache

    cache = TTLCache(ENTRIES, TTL)
    filled(cache.__setitem__, VALUE)
    return cache.get


def of_larder(name, value, **options):
    """A view that has all keys."""
    import larder_cache

    view = larder_cache.Cache("bench", ttl=TTL, memory_bytes="64MiB").view(name, **options)
    filled(view.set, value)
    return view


def of_fetch():
    fetch = of_larder("shared", VALUE, shared=True).fetch
    return lambda key: fetch(key, dict)


def of_django(backend, value):
    from django.conf import settings

    if not settings.configured:
        settings.configure(
            SECRET_KEY="a key of the benchmark that signs nothing else",
            CACHES={
                "default": {
                    "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
                    "OPTIONS": {"MAX_ENTRIES": 4 * len(KEYS)},
                },
                "larder": {"BACKEND": "larder_cache.django.LarderCache", "OPTIONS": {"namespace": "bench-django"}},
            },
        )
    from django.core.cache import caches

    cache = caches[backend]
    # Both values are in one cache.
    version = 1 if value is VALUE else 2
    for key in KEYS:
        cache.set(key, value, version=version)
    return partial(cache.get, version=version)


CALLS = {
    ("python-shared", "larder"): lambda: of_larder("shared", VALUE, shared=True).hit,
    ("python-shared", "larder fetch"): of_fetch,
    ("python-shared", "cachebox"): of_cachebox,
    ("python-shared", "cachetools"): of_cachetools,
    ("python-shared", "lru_cache"): of_lru_cache,
    ("python-shared", "dict"): of_dict,
    ("python-copied", "larder"): lambda: of_larder("copied", VALUE).get,
    ("python-django", "larder"): lambda: of_django("larder", VALUE),
    ("python-django", "LocMemCache"): lambda: of_django("default", VALUE),
    ("python-django-text", "larder"): lambda: of_django("larder", TEXT),
    ("python-django-text", "LocMemCache"): lambda: of_django("default", TEXT),
}


def hits(call, count):
    """The processor time of a hit."""
    keys = random.choices(KEYS, k=count)
    if call(keys[0]) not in (VALUE, TEXT):
        raise LookupError("it is no hit")
    began = time.thread_time_ns()
    for key in keys:
        call(key)
    return (time.thread_time_ns() - began) / count


#: Keys that nobody has fetched.
new_keys = itertools.count()


def cold_fetches(count):
    """The time of a fetch that no tier answers, with a loader that takes none."""
    import larder_cache

    cache = larder_cache.Cache("bench-python", ttl=TTL, redis=sys.argv[1])
    view = cache.view("cold")
    view.fetch("connects", dict)
    keys = list(itertools.islice(new_keys, count))
    began = time.perf_counter_ns()
    for key in keys:
        view.fetch(key, lambda: VALUE)
    elapsed = (time.perf_counter_ns() - began) / count
    cache.close()
    return elapsed


calls = {}


def made(workload, subject, count):
    """A call, which has been made before it is measured."""
    if (workload, subject) not in calls:
        call = calls[workload, subject] = CALLS[workload, subject]()
        hits(call, count)
    return calls[workload, subject]


def main():
    for line in sys.stdin:
        workload, subject, count = line.rstrip("\n").split("\t")
        try:
            if workload == "python-cold":
                answer = cold_fetches(int(count))
            else:
                answer = hits(made(workload, subject, int(count)), int(count))
        except Exception as error:
            answer = f"failed: {error!r}"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
