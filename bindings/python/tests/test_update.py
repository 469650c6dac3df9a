"""Updates by a function, which runs in its caller: of concurrent ones in all processes none is lost."""

import asyncio
import subprocess
import sys
import textwrap

import pytest

import larder_cache
from conftest import in_threads
from larder_cache import KEEP, REMOVE


def add_one(count):
    return count + 1


def test_updates_of_threads_and_coroutines_on_two_nodes_add_up(make_cache):
    views = [make_cache().view("value") for _ in range(2)]

    def count(number):
        for _ in range(20):
            views[number % 2].update("k", add_one, default=0)

    async def count_in_tasks():
        async def slow(count):
            await asyncio.sleep(0)
            return count + 1

        await asyncio.gather(*(views[0].aupdate("k", slow, default=0) for _ in range(20)))

    assert in_threads(4, count) == [None] * 4
    asyncio.run(count_in_tasks())
    assert [view.get("k") for view in views] == [100] * 2


def test_updates_of_two_processes_add_up(make_cache, redis_server, namespace):
    program = textwrap.dedent("""
        import sys
        import larder_cache
        view = larder_cache.Cache(sys.argv[1], ttl="5m", redis=sys.argv[2]).view("value")
        for _ in range(50):
            view.update("k", lambda count: count + 1, default=0)
    """)
    words = [sys.executable, "-c", program, namespace, redis_server.url]
    processes = [subprocess.Popen(words) for _ in range(2)]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert make_cache().view("value").get("k") == 100


def test_function_is_called_again_if_another_writer_comes_first(make_cache):
    view, other = (make_cache().view("value") for _ in range(2))
    got = []

    def put(found):
        got.append(found)
        if len(got) == 1:
            other.set("k", {"n": 1})
        return {"n": 2, "of": found}

    assert view.update("k", put) == {"n": 2, "of": {"n": 1}}
    assert got == [None, {"n": 1}]


def test_value_is_kept_or_removed(memory):
    view = memory.view("value")
    assert view.update("k", lambda found: KEEP if found == "nothing" else 1, default="nothing") == "nothing"
    assert view.get("k") is None
    view.set("k", 1)
    assert view.update("k", lambda _: KEEP) == 1
    assert view.update("k", lambda _: REMOVE, default="gone") == "gone"
    assert view.get("k") is None
    view.set("k", None)
    assert view.update("k", lambda found: [found], default="nothing") == [None], "it is there"


def test_value_keeps_its_time_unless_the_update_has_one(memory):
    view = memory.view("value")
    view.set("k", 1, ttl="1h")
    assert view.update("k", add_one) == 2 and view.ttl("k") > 3000
    assert view.update("k", add_one, ttl=60) == 3 and view.ttl("k") <= 60


def test_function_that_raises_changes_nothing_and_holds_nobody_up(memory):
    view = memory.view("value")
    view.set("k", 1)
    for error in (ValueError("no"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            view.update("k", lambda _, error=error: (_ for _ in ()).throw(error))
    with pytest.raises(larder_cache.EncodeError):
        view.update("k", lambda _: {1})
    assert view.update("k", add_one) == 2


def test_pickled_values_are_updated_too(make_cache):
    view = make_cache().view("value", codec="pickle", keys=[b"sixteen bytes or more"])
    assert view.update("k", lambda found: found | {1}, default=set()) == {1}
    assert view.update("k", lambda found: found | {2}) == {1, 2}
