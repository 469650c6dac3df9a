"""Callers that wait for the load of another one: threads, coroutines, greenlets; and how each of them may end."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import larder_cache
from conftest import eventually, in_threads


def test_one_of_many_threads_loads(cache):
    view, calls = cache.view("value"), []

    def load():
        calls.append(1)
        time.sleep(0.2)
        return 7

    assert in_threads(32, lambda _: view.fetch("k", load)) == [7] * 32
    assert len(calls) == 1


def test_one_of_many_coroutines_and_threads_loads(cache):
    view, calls = cache.view("value"), []

    async def load():
        calls.append(1)
        await asyncio.sleep(0.2)
        return 7

    async def many():
        return await asyncio.gather(*(view.afetch("k", load) for _ in range(50)))

    assert in_threads(4, lambda _: asyncio.run(many())) == [[7] * 50] * 4
    assert len(calls) == 1


def test_leader_gets_its_exception_and_followers_a_copy_with_its_cause(cache):
    view = cache.view("value")
    error = ValueError("broken")

    def load():
        time.sleep(0.3)
        raise error

    results = in_threads(5, lambda _: (time.sleep(0.01), view.fetch("k", load))[1])
    own = [result for result in results if result is error]
    copies = [result for result in results if isinstance(result, larder_cache.LoadFailed)]
    assert len(own) == 1 and len(copies) == 4
    assert all(copy.__cause__ is error for copy in copies)
    assert len({id(copy) for copy in copies}) == 4
    assert "broken" in str(copies[0])


def test_interrupted_leader_fails_nobody(cache):
    view, began = cache.view("value"), threading.Event()

    def interrupted():
        began.set()
        time.sleep(0.2)
        raise KeyboardInterrupt

    def lead():
        with pytest.raises(KeyboardInterrupt):
            view.fetch("k", interrupted)

    leader = threading.Thread(target=lead)
    leader.start()
    began.wait()
    assert view.fetch("k", lambda: "of the follower") == "of the follower"
    leader.join()


def test_cancelled_task_hands_the_load_over(cache):
    view = cache.view("value")

    async def run():
        began = asyncio.Event()

        async def never():
            began.set()
            await asyncio.sleep(3600)

        leader = asyncio.create_task(view.afetch("k", never))
        await began.wait()
        follower = asyncio.create_task(view.afetch("k", lambda: "of the follower"))
        await asyncio.sleep(0.05)
        leader.cancel()
        assert await asyncio.wait_for(follower, 5) == "of the follower"
        with pytest.raises(asyncio.CancelledError):
            await leader

    asyncio.run(run())


def test_follower_that_is_cancelled_leaves_the_load(cache):
    view = cache.view("value")

    async def run():
        go_on = asyncio.Event()

        async def load():
            await go_on.wait()
            return 1

        leader = asyncio.create_task(view.afetch("k", load))
        await asyncio.sleep(0.05)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(view.afetch("k", load), 0.1)
        go_on.set()
        assert await leader == 1

    asyncio.run(run())


def test_threads_whose_loaders_fetch_the_keys_of_each_other_do_not_wait_for_ever(cache):
    view, both = cache.view("value"), threading.Barrier(2)

    def first(key, other):
        return view.fetch(key, lambda: both.wait(10) and 0 or view.fetch(other, lambda: 1))

    def many(key, other):
        return view.fetch(key, lambda: both.wait(10) and 0 or view.fetch_many([other, "more"], dict.fromkeys))

    for first_caller, second_caller in ((first, first), (first, many), (many, many)):
        callers = [lambda: first_caller("a", "b"), lambda: second_caller("b", "a")]
        results = in_threads(2, lambda number: callers[number]())
        assert_circle(results)
        # One that came later may have loaded both.
        view.delete_many(["a", "b", "more"])
        assert view.fetch("a", lambda: view.fetch("b", lambda: 1)) == 1, "nothing is left of the circle"
        view.delete_many(["a", "b", "more"])


def assert_circle(results):
    """The one that closes the circle is told so. The other one that its load has failed, unless it comes later and loads itself."""
    [other] = (result for result in results if not isinstance(result, larder_cache.RecursiveLoad))
    if isinstance(other, larder_cache.LoadFailed):
        assert isinstance(other.__cause__, larder_cache.RecursiveLoad)
    else:
        assert not isinstance(other, Exception)


def test_tasks_whose_loaders_fetch_the_keys_of_each_other_do_not_wait_for_ever(cache):
    view = cache.view("value")

    async def run():
        began = asyncio.Event(), asyncio.Event()

        async def caller(key, other, own, others):
            async def load():
                own.set()
                await others.wait()
                return await view.afetch(other, lambda: 1)

            return await view.afetch(key, load)

        callers = caller("a", "b", *began), caller("b", "a", *reversed(began))
        return await asyncio.wait_for(asyncio.gather(*callers, return_exceptions=True), 10)

    assert_circle(asyncio.run(run()))


def test_loader_that_fetches_its_own_key_raises(cache):
    view = cache.view("value")
    with pytest.raises(larder_cache.RecursiveLoad, match="'k' of view 'value'"):
        view.fetch("k", lambda: view.fetch("k", lambda: 1))

    async def recursive():
        # In a task of its own too, which has the context of the loader.
        return await asyncio.create_task(view.afetch("k", lambda: 1))

    async def run():
        with pytest.raises(larder_cache.RecursiveLoad):
            await asyncio.wait_for(view.afetch("k", recursive), 5)

    asyncio.run(run())
    assert view.fetch("k", lambda: view.fetch("other", lambda: 1)) == 1
    with pytest.raises(larder_cache.RecursiveLoad):
        view.fetch_many(["a"], lambda keys: {"a": view.fetch("a", lambda: 1)})
    with pytest.raises(larder_cache.RecursiveLoad):
        view.fetch("a", lambda: view.fetch_many(["b", "a"], lambda keys: {}))

    async def several():
        with pytest.raises(larder_cache.RecursiveLoad):
            await asyncio.wait_for(view.afetch("a", lambda: view.afetch_many(["b", "a"], lambda keys: {})), 5)

    asyncio.run(several())


def test_task_that_a_loader_leaves_behind_may_fetch_its_key(cache):
    view = cache.view("value")

    async def run():
        ended = asyncio.Event()

        async def later():
            await ended.wait()
            return await view.afetch("k", lambda: 2, refresh=True)

        left_behind = []

        async def load():
            left_behind.append(asyncio.create_task(later()))
            return 1

        assert await view.afetch("k", load) == 1
        ended.set()
        assert await left_behind[0] == 2

    asyncio.run(run())


def test_loads_that_exceed_their_time_end_for_others(cache):
    view, began = cache.view("value"), threading.Event()

    def slow():
        began.set()
        time.sleep(2.5)
        return "late"

    leader = threading.Thread(target=lambda: view.fetch("k", slow, hard_timeout=1))
    leader.start()
    began.wait()
    with pytest.raises(larder_cache.LoadTimeout):
        view.fetch("k", lambda: 1, hard_timeout=1)
    leader.join()
    assert view.get("k") is None


def test_threads_with_values_whose_end_calls_the_cache_do_not_hang(make_cache):
    cache = make_cache(redis=None, memory_entries=8)
    view = cache.view("value", codec="pickle", keys=[b"k" * 16], shared=True)

    def work(number):
        for turn in range(200):
            view.fetch(f"{number}-{turn % 16}", lambda: Ending())
        return True

    Ending.view = view
    try:
        assert in_threads(32, work) == [True] * 32
    finally:
        Ending.view = None
        gc.collect()


class Ending:
    view = None

    def __del__(self):
        if self.view is not None:
            self.view.hit("k")
            self.view.delete("k")


def run_program(text, *arguments, timeout=60, **words):
    words = {"capture_output": True, "text": True, **words}
    return subprocess.run([sys.executable, "-c", textwrap.dedent(text), *arguments], timeout=timeout, **words)


def test_signal_ends_a_blocked_fetch(own_redis):
    own_redis.pause()
    program = """
        import sys, larder_cache
        view = larder_cache.Cache("n", ttl=60, redis=sys.argv[1], redis_timeout="1m").view("v")
        print("ready", flush=True)
        view.get("k")
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), own_redis.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, stderr = process.communicate(timeout=30)
    # The fetch ends within 200 ms; the interpreter then gives pending work up to two seconds, of which there is none.
    assert time.monotonic() - began < 5
    assert b"KeyboardInterrupt" in stderr


def test_stopped_redis_holds_up_a_call_for_two_timeouts(own_redis, namespace):
    cache = larder_cache.Cache(namespace, ttl=60, redis=own_redis.url, redis_timeout=0.3)
    view = cache.view("value")
    view.set("k", 1)
    own_redis.pause()
    for call in (lambda: view.get("other"), lambda: view.fetch("third", lambda: 3), lambda: view.set("k", 2)):
        began = time.monotonic()
        call()
        assert time.monotonic() - began < 2 * 0.3 + 2
    cache.close(0.1)


def test_process_has_three_connections_and_two_threads(own_redis, namespace):
    threads = len(os.listdir("/proc/self/task"))
    cache = larder_cache.Cache(namespace, ttl=60, redis=own_redis.url)
    view = cache.view("value")
    assert len(os.listdir("/proc/self/task")) == threads
    for number in range(100):
        view.set(number, number)
        view.get(number)
    # Its own connection is one of the list.
    clients = own_redis.command("CLIENT", "LIST").decode().strip().splitlines()
    assert len(clients) == 3 + 1, clients
    names = [Path(f"/proc/self/task/{task}/comm").read_text() for task in os.listdir("/proc/self/task")]
    assert len([name for name in names if name.startswith("larder-")]) >= 2
    assert len(names) == threads + 2
    cache.close(1)


def test_program_that_ends_while_calls_are_under_way_does_not_crash(redis_server):
    program = """
        import asyncio, sys, threading, larder_cache
        cache = larder_cache.Cache("ends", ttl=60, redis=sys.argv[1])
        view = cache.view("v")
        view.set("k", 1)
        for number in range(4):
            threading.Thread(target=lambda: view.fetch("slow", lambda: threading.Event().wait(0.02) or 1), daemon=True).start()
        async def main():
            for number in range(50):
                asyncio.ensure_future(view.aset(f"k{number}", number))
        asyncio.run(main())
    """
    for _ in range(20):
        ended = run_program(program, redis_server.url)
        assert ended.returncode == 0, ended.stderr
        assert ended.stderr == ""


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="the fork of a program with threads is an error")
def test_forked_children_are_nodes_of_their_own(make_cache):
    parent = make_cache(max_lag=0.2)
    view = parent.view("value")
    view.set("k", "old")
    assert view.get("k") == "old"
    to_child, from_child = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(from_child[1], repr((view.hit("k"), view.get("k"))).encode().ljust(40))
            os.read(to_child[0], 1)
            end = time.monotonic() + 5
            while view.get("k") != "new" and time.monotonic() < end:
                time.sleep(0.01)
            os.write(from_child[1], repr((view.get("k"), view.delete("k"))).encode().ljust(40))
            asyncio.run(view.aset("of the child", 1))
        finally:
            os._exit(0)
    assert os.read(from_child[0], 40).decode().strip() == "(None, 'old')"
    view.set("k", "new")
    os.write(to_child[1], b"!")
    assert os.read(from_child[0], 40).decode().strip() == "('new', True)"
    assert os.waitpid(child, 0)[1] == 0
    eventually("the parent hears its child", lambda: view.get("k") is None)
    assert view.get("of the child") == 1


def test_two_workers_that_were_forked_hear_each_other(redis_server, namespace):
    """A server that loads the program before it forks: each worker is another node."""
    program = """
        import multiprocessing, sys, time, larder_cache
        cache = larder_cache.Cache(sys.argv[2], ttl=60, redis=sys.argv[1], max_lag=0.2)
        view = cache.view("v")
        view.set("k", 0)
        view.get("k")

        def worker(number, turns, seen):
            for turn in range(1, 41):
                turns.wait()
                if turn % 2 == number:
                    assert view.set("k", turn) is True
                turns.wait()
                time.sleep(0.25)
                seen.append((turn, view.get("k")))

        if __name__ == "__main__":
            fork = multiprocessing.get_context("fork")
            manager = fork.Manager()
            seen, turns = manager.list(), fork.Barrier(2)
            workers = [fork.Process(target=worker, args=(number, turns, seen)) for number in range(2)]
            for process in workers:
                process.start()
            for process in workers:
                process.join(60)
                assert process.exitcode == 0
            assert len(seen) == 80 and all(turn == value for turn, value in seen), list(seen)
    """
    ended = run_program(program, redis_server.url, namespace)
    assert ended.returncode == 0, ended.stderr


def test_greenlets_of_one_thread_wait_for_each_other(redis_server, namespace):
    program = """
        from gevent import monkey; monkey.patch_all()
        import gevent, sys, time, larder_cache
        cache = larder_cache.Cache(sys.argv[2], ttl=60, redis=sys.argv[1])
        view, calls = cache.view("v"), []

        def load():
            calls.append(1)
            time.sleep(0.2)
            return 7

        jobs = [gevent.spawn(view.fetch, "k", load) for _ in range(20)]
        gevent.joinall(jobs, timeout=20, raise_error=True)
        assert [job.value for job in jobs] == [7] * 20 and len(calls) == 1
        # A greenlet that is killed while it leads hands the load over.
        leader = gevent.spawn(view.fetch, "other", lambda: time.sleep(3600))
        time.sleep(0.1)
        follower = gevent.spawn(view.fetch, "other", lambda: "of the follower")
        time.sleep(0.1)
        leader.kill()
        assert follower.get(timeout=10) == "of the follower"
        with gevent.Timeout(0.2, False):
            view.fetch("third", lambda: time.sleep(3600))
        assert view.fetch("third", lambda: 3) == 3
        print("done")
    """
    ended = run_program(program, redis_server.url, namespace)
    assert ended.stdout == "done\n", ended.stderr


def test_many_writes_leave_no_objects_behind(make_cache):
    view = make_cache(redis=None, memory_entries=100).view("value")
    resident = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096  # noqa: E731
    value = {"name": "apple" * 20, "prices": list(range(20))}

    def write(count):
        for number in range(count):
            view.set(number % 1000, value)
            view.get(number % 1000)

    write(5_000)
    gc.collect()
    before, objects = resident(), len(gc.get_objects())
    write(50_000)
    gc.collect()
    assert len(gc.get_objects()) - objects < 1_000
    assert resident() - before < 30 << 20
