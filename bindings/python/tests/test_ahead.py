"""Loads of values that are still fresh: the caller that finds one due makes it, and the others go on with the value."""

import asyncio
import threading

import pytest

import larder_cache
from conftest import eventually


def counting(view, **options):
    """A fetch of a number that grows with each load."""
    loads = []
    return loads, lambda: view.fetch("k", lambda: loads.append(1) or len(loads), **options)


@pytest.mark.parametrize("redis", [False, True])
def test_due_value_is_loaded_long_before_its_end(make_cache, redis):
    view = make_cache(**({} if redis else {"redis": None})).view("value", ttl="1h", refresh_ahead=0)
    loads, fetch = counting(view)
    assert [fetch(), fetch()] == [1, 2], "the caller gets what it has loaded"
    eventually("it is stored", lambda: view.hit("k") == 2)
    assert len(loads) == 2
    assert view.ttl("k") > 3000


def test_other_callers_get_the_value_meanwhile(memory):
    view = memory.view("value", refresh_ahead=0)
    assert view.fetch("k", lambda: 1) == 1
    began, go_on = threading.Event(), threading.Event()

    def load():
        began.set()
        assert go_on.wait(10)
        return 2

    leader = threading.Thread(target=view.fetch, args=("k", load))
    leader.start()
    assert began.wait(10)
    assert view.fetch("k", lambda: 3) == 1
    assert asyncio.run(view.afetch("k", lambda: 3)) == 1
    go_on.set()
    leader.join()
    eventually("it is stored", lambda: view.hit("k") == 2)


def test_coroutine_loads_ahead_too(memory):
    view = memory.view("value", ttl="1h", refresh_ahead=0)

    async def twice():
        async def load():
            await asyncio.sleep(0)
            return loads.append(1) or len(loads)

        loads = []
        return [await view.afetch("k", load), await view.afetch("k", load)]

    assert asyncio.run(twice()) == [1, 2]


def test_option_of_a_call_and_load_that_fails(memory):
    view = memory.view("value", ttl="1h")
    loads, fetch = counting(view, refresh_ahead=0)
    assert [fetch(), fetch()] == [1, 2]
    eventually("it is stored", lambda: view.hit("k") == 2)

    def fail():
        raise ValueError("broken")

    assert view.fetch("k", fail, refresh_ahead=0) == 2, "the value stays"
    eventually("it has failed", lambda: memory.stats()["load_failures"] == 1)
    # The next one begins after `retry_after`.
    assert fetch() == 2
    assert len(loads) == 2
    assert view.fetch("k", fail) == 2, "a call without the option begins none"


def test_interrupted_load_ahead_leaves_the_value(memory):
    view = memory.view("value", ttl="1h", refresh_ahead=0)
    assert view.fetch("k", lambda: 1) == 1

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        view.fetch("k", interrupt)
    assert view.hit("k") == 1


def test_loader_may_fetch_the_value_that_it_loads_ahead(memory):
    view = memory.view("value", ttl="1h", refresh_ahead=0)
    assert view.fetch("k", lambda: 1) == 1
    assert view.fetch("k", lambda: view.fetch("k", lambda: 9) + 1) == 2


def test_load_has_the_value_that_it_replaces(memory):
    view = memory.view("value", ttl="1h", refresh_ahead=0)
    assert view.fetch("k", lambda: 1) == 1
    assert view.fetch("k", lambda load: load.stale + 1, with_load=True) == 2


def test_values_of_the_option(memory):
    for right in (0.8, 1, "0.5", "by_cost", "by_cost:2", "never"):
        memory.view("value", refresh_ahead=right)
    view = memory.view("value")
    for wrong in (1.5, -1, "often", True):
        with pytest.raises(larder_cache.OptionError, match="refresh_ahead"):
            memory.view("value", refresh_ahead=wrong)
    # It would do nothing there.
    for call in (view.set, view.add):
        with pytest.raises(larder_cache.OptionError, match="refresh_ahead"):
            call("k", 1, refresh_ahead=0.8)
    with pytest.raises(larder_cache.OptionError, match="refresh_ahead"):
        view.touch("k", ttl="1m", refresh_ahead=0.8)


def test_value_that_is_slow_to_load_is_due_by_its_cost(memory):
    view = memory.view("value", ttl="1h", refresh_ahead="by_cost:1000000")
    loads = []

    def load():
        threading.Event().wait(0.05)
        return loads.append(1) or len(loads)

    eventually("it loads again", lambda: view.fetch("k", load) == 2)
