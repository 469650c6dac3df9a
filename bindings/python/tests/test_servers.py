"""Servers that load the program and fork then: each worker is a node of its own."""

import contextlib
import http.client
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import larder_cache
from conftest import eventually

TESTS = Path(__file__).parent
#: That of the cache in `servers_app.py`, and time for the answer itself.
MAX_LAG, ANSWER = 0.2, 0.3


class Server:
    """gunicorn on a socket of its own, with two workers and a cache that was made before the fork."""

    def __init__(self, redis, namespace, *words):
        self._folder = tempfile.mkdtemp(prefix="larder-")
        self._socket = str(Path(self._folder) / "http.sock")
        self._log = Path(self._folder) / "log"
        environment = {**os.environ, "LARDER_TEST_REDIS": redis.url, "LARDER_TEST_NAMESPACE": namespace}
        words = ["-b", f"unix:{self._socket}", "--preload", "-w", "2", "--graceful-timeout", "10", *words]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gunicorn", *words, "servers_app:app"],
                cwd=TESTS,
                env=environment,
                stdout=log,
                stderr=log,
            )
        eventually("gunicorn answers", self._answers, seconds=20)

    def _answers(self):
        assert self._process.poll() is None, self.log()
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.call("get", "k")
        return None

    def log(self):
        return self._log.read_text()

    def call(self, *parts):
        """One request. Returns the number of the worker and the result as text."""
        connection = http.client.HTTPConnection("localhost", timeout=20)
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.settimeout(20)
            connection.sock.connect(self._socket)
            connection.request("GET", "/" + "/".join(parts), headers={"Connection": "close"})
            answer = connection.getresponse()
            text = answer.read().decode()
            assert answer.status == 200, text + self.log()
            worker, _, result = text.partition(" ")
            return int(worker), result
        finally:
            connection.close()

    def call_of(self, workers, *parts):
        """The same, again until a worker of these has answered."""
        end = time.monotonic() + 20
        while True:
            worker, result = self.call(*parts)
            if worker in workers:
                return result
            assert time.monotonic() < end, f"none of {workers} answers"

    def workers(self):
        """The numbers of both workers, each of which has the value in its memory then."""
        seen = set()

        def both():
            seen.add(self.call("get", "k")[0])
            return len(seen) == 2

        eventually("both workers answer", both)
        return seen

    def stop(self):
        """Stops it gracefully. Returns its exit status."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(30)

    def remove(self):
        if self._process.poll() is None:
            # The workers end with their parent, which a kill would leave behind.
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


@pytest.fixture(params=[["-k", "sync"], ["-k", "gevent"]], ids=["sync", "gevent"])
def serve(request, namespace):
    servers = []

    def start(redis):
        server = Server(redis, namespace, *request.param)
        servers.append(server)
        assert f"Using worker: {request.param[1]}" in server.log()
        return server

    yield start
    for server in servers:
        server.remove()


def test_worker_serves_what_another_one_has_changed(serve, redis_server):
    server = serve(redis_server)
    first, second = server.workers()
    for turn in range(10):
        changing, serving = (first, second) if turn % 2 else (second, first)
        # The other one has the old value in its memory.
        server.call_of({serving}, "get", "k")
        assert server.call_of({changing}, "set-in", str(changing), "k", f"value-{turn}") == "True"
        time.sleep(MAX_LAG + ANSWER)
        assert server.call_of({serving}, "get", "k") == f"value-{turn}"
    assert server.call_of({first}, "delete-in", str(first), "k") == "True"
    time.sleep(MAX_LAG + ANSWER)
    assert server.call_of({second}, "get", "k") == "None"
    assert server.stop() == 0
    assert_nothing_crashed(server)


def test_graceful_stop_ends_pending_requests(serve, redis_server):
    server = serve(redis_server)
    server.workers()
    answers = []
    # A sync worker has one request at a time: one for each of the two.
    pending = [threading.Thread(target=lambda key=key: answers.append(server.call("load", key)[1])) for key in "ab"]
    for request in pending:
        request.start()
    time.sleep(0.5)
    assert server.stop() == 0
    for request in pending:
        request.join(20)
    assert answers == ["loaded"] * 2
    assert_nothing_crashed(server)


def test_graceful_stop_with_queued_invalidations_ends_in_time(serve, own_redis):
    server = serve(own_redis)
    server.workers()
    own_redis.pause()
    # It is queued: nobody confirms it.
    assert server.call("set", "k", "queued")[1] == "False"
    began = time.monotonic()
    assert server.stop() == 0
    # A worker gives what is queued two seconds.
    assert time.monotonic() - began < 10
    assert_nothing_crashed(server)


def test_worker_that_stops_replays_what_is_queued(serve, own_redis, namespace):
    def stored():
        # Another node at each time: the first one loses its connections too.
        reader = larder_cache.Cache(namespace, ttl="5m", redis=own_redis.url)
        value = reader.view("value").get("k")
        reader.close(0.5)
        return value

    server = serve(own_redis)
    server.workers()
    assert stored() == "of the parent"
    # The workers lose their connections, and find no server.
    path = Path(own_redis.socket)
    own_redis.socket = str(path.rename(path.with_suffix(".moved")))
    for kind in ("normal", "pubsub"):
        own_redis.command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "no")
    assert server.call("set", "k", "queued")[1] == "False"
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    time.sleep(0.3)
    own_redis.socket = str(Path(own_redis.socket).rename(path))
    stopping.join(30)
    eventually("the value is gone", lambda: stored() is None, seconds=5)
    assert_nothing_crashed(server)


def assert_nothing_crashed(server):
    log = server.log()
    for sign in ("Traceback", "panicked", "SIGSEGV", "SIGABRT", "SIGKILL", "SIGTRAP", "WORKER TIMEOUT"):
        assert sign not in log, log


def spawned_child(url, namespace, to_parent, from_parent):
    view = larder_cache.Cache(namespace, ttl="5m", redis=url, max_lag=MAX_LAG).view("value")
    talk(view, to_parent, from_parent)


#: The view that a forked child inherits.
inherited = []


def forked_child(to_parent, from_parent):
    talk(inherited[0], to_parent, from_parent)


def talk(view, to_parent, from_parent):
    """Of a child: tells what it finds, changes it, and tells what it finds after a change by the parent."""
    to_parent.put(view.get("k"))
    to_parent.put(view.set("k", "of the child"))
    assert from_parent.get(timeout=20) == "changed"
    time.sleep(MAX_LAG + ANSWER)
    to_parent.put(view.get("k"))
    to_parent.put(view.fetch("loaded", lambda: "by the child"))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_of_multiprocessing_hears_its_parent(method, redis_server, namespace, make_cache):
    context = multiprocessing.get_context(method)
    view = make_cache(max_lag=MAX_LAG).view("value")
    view.set("k", "of the parent")
    assert view.get("k") == "of the parent"
    inherited[:] = [view]
    from_child, to_child = context.Queue(), context.Queue()
    target, words = (forked_child, ()) if method == "fork" else (spawned_child, (redis_server.url, namespace))
    process = context.Process(target=target, args=(*words, from_child, to_child))
    process.start()
    try:
        assert from_child.get(timeout=30) == "of the parent"
        assert from_child.get(timeout=20) is True
        time.sleep(MAX_LAG + ANSWER)
        assert view.get("k") == "of the child"
        view.set("k", "of the parent again")
        to_child.put("changed")
        assert from_child.get(timeout=20) == "of the parent again"
        assert from_child.get(timeout=20) == "by the child"
        process.join(20)
        assert process.exitcode == 0
        assert view.get("loaded") == "by the child"
    finally:
        if process.is_alive():
            process.kill()
        process.join()
        inherited.clear()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pool_of_processes_loads_once(method, redis_server, namespace, tmp_path):
    calls = tmp_path / "calls"
    with multiprocessing.get_context(method).Pool(4) as pool:
        work = [(redis_server.url, namespace, str(calls))] * 8
        assert pool.starmap_async(load_in_pool, work, chunksize=1).get(timeout=40) == ["loaded"] * 8
        pool.close()
        pool.join()
    assert calls.read_text() == "called\n"


def load_in_pool(url, namespace, calls):
    def load():
        with open(calls, "a") as file:
            file.write("called\n")
        time.sleep(0.5)
        return "loaded"

    return larder_cache.Cache(namespace, ttl="5m", redis=url).view("value").fetch("k", load)
