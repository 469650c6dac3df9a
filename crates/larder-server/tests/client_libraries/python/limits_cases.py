"""limits: its three strategies, which count requests with scripts."""

from limits import parse
from limits.storage import storage_from_string
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter

from suite import equal, eventually

NAME = "limits"

STRATEGIES = {
    "fixed window": FixedWindowRateLimiter,
    "moving window": MovingWindowRateLimiter,
    "sliding window counter": SlidingWindowCounterRateLimiter,
}


def run(suite):
    storage = storage_from_string(suite.url)
    equal(storage.check(), True)
    for name, strategy in STRATEGIES.items():
        suite.case(NAME, name, lambda: window(strategy(storage), suite.key()))
        suite.case(NAME, name + " passes", lambda: window_passes(strategy(storage), suite.key()))
        suite.case(NAME, name + " cleared", lambda: clear(strategy(storage), suite.key()))
    survivor = FixedWindowRateLimiter(storage)
    suite.survives(NAME, lambda: equal(survivor.hit(parse("1000/day"), "survivor"), True))


def window(limiter, key):
    """A request may cost more than one, and another user has a limit of its own."""
    limit = parse("3/day")
    equal(limiter.test(limit, key), True)
    equal([limiter.hit(limit, key, cost=cost) for cost in (2, 1, 1)], [True, True, False])
    equal((limiter.test(limit, key), limiter.get_window_stats(limit, key).remaining), (False, 0))
    equal((limiter.hit(limit, key, "other"), limiter.get_window_stats(limit, key, "other").remaining), (True, 2))


def window_passes(limiter, key):
    limit = parse("1/second")
    # The first window may end between two requests.
    eventually(lambda: equal([limiter.hit(limit, key), limiter.hit(limit, key)], [True, False]))
    eventually(lambda: equal(limiter.hit(limit, key), True))


def clear(limiter, key):
    limit = parse("1/day")
    equal([limiter.hit(limit, key), limiter.hit(limit, key)], [True, False])
    limiter.clear(limit, key)
    equal(limiter.hit(limit, key), True)
