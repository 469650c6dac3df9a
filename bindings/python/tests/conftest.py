"""A real redis-server for the tests that need one, on a socket of its own."""

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

import larder_cache


class RedisServer:
    """A redis-server without a port, and without files that outlive it."""

    def __init__(self):
        self._folder = tempfile.mkdtemp(prefix="larder-")
        self.socket = str(Path(self._folder) / "redis.sock")
        self.url = f"redis+unix://{self.socket}"
        self.start()

    def start(self):
        words = ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "", "--dir", self._folder]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 10
        while True:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
                client.connect(self.socket)
                return
            assert time.monotonic() < end, "redis-server does not start"
            time.sleep(0.01)

    def pause(self):
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self._process.send_signal(signal.SIGCONT)

    def stop(self):
        self._process.send_signal(signal.SIGCONT)
        self._process.kill()
        self._process.wait()

    def remove(self):
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def command(self, *words):
        """One command, whose reply is read as a line. For what the package does not do itself."""
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(self.socket)
            parts = [part if isinstance(part, bytes) else str(part).encode() for part in words]
            request = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
            client.sendall(request)
            reply = client.makefile("rb")
            return self._reply(reply)

    def _reply(self, reply):
        line = reply.readline().rstrip()
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            return None if rest == b"-1" else reply.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self._reply(reply) for _ in range(int(rest))]
        return rest if kind != b":" else int(rest)


@pytest.fixture(scope="session")
def redis_server():
    server = RedisServer()
    yield server
    server.remove()


@pytest.fixture
def own_redis():
    """A server that the test may stop."""
    server = RedisServer()
    yield server
    server.remove()


@pytest.fixture
def namespace(request):
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)


@pytest.fixture
def make_cache(redis_server, namespace):
    """Makes caches of one namespace, which are nodes of it."""
    caches = []

    def make(**options):
        cache = larder_cache.Cache(namespace, **{"ttl": "5m", "redis": redis_server.url, **options})
        caches.append(cache)
        return cache

    yield make
    for cache in caches:
        cache.close(0.5)


@pytest.fixture
def cache(make_cache):
    return make_cache()


@pytest.fixture
def memory(namespace):
    """A cache without Redis."""
    cache = larder_cache.Cache(namespace, ttl="5m")
    yield cache
    cache.close(0.5)


def eventually(what, check, seconds=10):
    """Waits until a check is true."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, f"{what} does not happen"
        time.sleep(0.01)


def in_threads(count, work):
    """Does `work(number)` in as many threads. Returns what each returns or raises."""
    results = [None] * count

    def run(number):
        try:
            results[number] = work(number)
        except Exception as raised:
            results[number] = raised

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return results
