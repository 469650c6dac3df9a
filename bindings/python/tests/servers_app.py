"""The program of the servers in `test_servers.py`. Its cache is made, and used, before the server forks."""

import os
import time

import larder_cache

cache = larder_cache.Cache(
    os.environ["LARDER_TEST_NAMESPACE"], ttl="5m", redis=os.environ["LARDER_TEST_REDIS"], max_lag=0.2
)
view = cache.view("value")
# The threads and connections of the parent exist at the fork.
view.set("k", "of the parent")
view.get("k")


def app(environ, start_response):
    """Answers with the number of the process and the result of the call that the path names."""
    _, call, *arguments = environ["PATH_INFO"].split("/")
    result = CALLS[call](*arguments)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {result}".encode()]


def _load():
    time.sleep(1)
    return "loaded"


CALLS = {
    "get": view.get,
    "set": view.set,
    "delete": view.delete,
    # Of the worker that is meant only: the others answer that they have done nothing.
    "set-in": lambda worker, key, value: view.set(key, value) if int(worker) == os.getpid() else "nothing",
    "delete-in": lambda worker, key: view.delete(key) if int(worker) == os.getpid() else "nothing",
    "load": lambda key: view.fetch(key, _load),
}
