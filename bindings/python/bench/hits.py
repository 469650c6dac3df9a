"""What a hit costs, beside other caches of Python in the same run.

    pip install larder_cache-*.whl -r bindings/python/bench/requirements.txt
    python bindings/python/bench/hits.py

Each round runs every row once, in another order; a row is the median of its rounds. Ratios are medians of the ratios of each
round. Times are nanoseconds of processor time of the calling thread for one call, the loop included.
"""

import functools
import random
import statistics
import time

import cachebox
import cachetools
from django.conf import settings

import larder_cache

KEYS = [f"product:{number}" for number in range(1_000)]
VALUE = {"name": "apple", "price": 3, "tags": ["fruit", "red"], "description": "a" * 160, "weight": 0.5}
TEXT = "a" * 254
ROUNDS = 15
CALLS = 20_000


def rows():
    """Each row: its name, and a call that hits."""
    cache = larder_cache.Cache("bench", ttl="10m", memory_bytes="64MiB")
    shared = cache.view("shared", shared=True)
    copied = cache.view("copied")
    text = cache.view("text")
    boxed = cachebox.TTLCache(len(KEYS) * 2, 600)
    tools = cachetools.TTLCache(len(KEYS) * 2, 600)
    table = {}
    for key in KEYS:
        for view in (shared, copied):
            view.set(key, VALUE)
        text.set(key, TEXT)
        boxed[key] = tools[key] = table[key] = VALUE

    @functools.lru_cache(maxsize=len(KEYS) * 2)
    def function(key):
        return VALUE

    yield "dict.get", table.get
    yield "functools.lru_cache", function
    yield "cachebox TTLCache.get", boxed.get
    yield "cachetools TTLCache.get", tools.get
    yield "larder hit, object shared", shared.hit
    yield "larder get, object shared", shared.get
    yield "larder fetch, object shared", lambda key, view=shared, load=dict: view.fetch(key, load)
    yield "larder get, text", text.get
    yield "larder get, object copied", copied.get
    yield from django_rows()


def django_rows():
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

    for name, cache in (("LocMemCache", caches["default"]), ("larder's backend", caches["larder"])):
        for key in KEYS:
            cache.set(key, VALUE)
            cache.set("text:" + key, TEXT)
        yield f"Django {name}, copied", cache.get
        yield f"Django {name}, text", lambda key, cache=cache: cache.get("text:" + key)


#: The row that is divided, by which, and the goal.
RATIOS = [
    ("larder hit, object shared", "cachebox TTLCache.get", 2.0),
    ("larder hit, object shared", "cachetools TTLCache.get", 0.12),
    ("larder fetch, object shared", "cachetools TTLCache.get", None),
    ("Django larder's backend, copied", "Django LocMemCache, copied", 0.35),
    ("Django larder's backend, text", "Django LocMemCache, text", 0.1),
]


def measure(call):
    keys = random.choices(KEYS, k=CALLS)
    assert call(keys[0]) in (VALUE, TEXT)
    began = time.thread_time_ns()
    for key in keys:
        call(key)
    return (time.thread_time_ns() - began) / CALLS


def main():
    calls = list(rows())
    rounds = []
    for _ in range(ROUNDS):
        random.shuffle(calls)
        rounds.append({name: measure(call) for name, call in calls})
    print(f"{'a hit':<36}{'ns':>8}{'from':>8}{'to':>8}")
    for name in sorted(rounds[0], key=lambda name: statistics.median(times[name] for times in rounds)):
        times = [round[name] for round in rounds]
        print(f"{name:<36}{statistics.median(times):>8.0f}{min(times):>8.0f}{max(times):>8.0f}")
    print(f"\n{'ratio':<66}{'median':>8}{'goal':>8}")
    for above, below, goal in RATIOS:
        ratio = statistics.median(times[above] / times[below] for times in rounds)
        print(f"{above + ' ÷ ' + below:<66}{ratio:>8.3f}{'–' if goal is None else goal:>8}")


if __name__ == "__main__":
    main()
