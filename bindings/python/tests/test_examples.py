"""The example over Django as a process of its own, alone and beside that over Express: one Redis, and one database."""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from conftest import eventually

BINDINGS = Path(__file__).parents[2]
DJANGO = BINDINGS / "python/examples/django_shop"
EXPRESS = BINDINGS / "node/examples/express"
APPLE = {"id": "apple", "name": "Apple", "price": 120}
LOADS = 'larder_tier_operations_total{operation="load",part="shop",tier="origin"}'
MISSES = 'larder_tier_lookups_total{outcome="miss",part="shop",tier="redis"}'
COHERENT = 'larder_coherent{part="shop"}'
PENDING = 'larder_pending_invalidations{part="shop"}'
#: The seconds within which a change is seen: `max_lag`, the query and the answer.
SEEN = 2


class App:
    """An example as a process, on a free port."""

    def __init__(self, words, redis, log, origin=""):
        options = {"PORT": "0", "REDIS_URL": redis.url, "ORIGIN_FILE": str(origin), "PYTHONUNBUFFERED": "1"}
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(words, env={**os.environ, **options}, stdout=file, stderr=file)
        eventually(f"{words} listens", self._address, seconds=30)
        self._port = int(self._address()[1])

    def _address(self):
        assert self._process.poll() is None, self._log.read_text()
        return re.search(r"http://localhost:(\d+)", self._log.read_text())

    def call(self, method, path, body=None):
        """One request: the status, the value of the body if it is JSON and its text otherwise, and the headers."""
        connection = http.client.HTTPConnection("localhost", self._port, timeout=20)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"} if body is not None else {})
            answer = connection.getresponse()
            text = answer.read().decode()
            is_json = answer.headers["Content-Type"].startswith("application/json")
            return answer.status, json.loads(text) if is_json else text, answer.headers
        finally:
            connection.close()

    def get(self, name="apple"):
        status, product, _ = self.call("GET", f"/products/{name}")
        assert status == 200, product
        return product

    def put(self, price, name="apple"):
        status, product, _ = self.call("PUT", f"/products/{name}", json.dumps({"price": price}))
        assert (status, product["price"]) == (200, price), product

    def figures(self):
        """The lines of the metrics that are no comments."""
        lines = [line for line in self.call("GET", "/metrics")[1].splitlines() if line and line[0] != "#"]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def remove(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@pytest.fixture
def start(tmp_path, own_redis):
    apps = []

    def start_app(words, **options):
        apps.append(App(words, own_redis, tmp_path / f"log-{len(apps)}", **options))
        return apps[-1]

    yield start_app
    for app in apps:
        app.remove()


@pytest.fixture
def start_django(start):
    return lambda **options: start([sys.executable, DJANGO / "app.py"], **options)


@pytest.fixture
def start_express(start, tmp_path):
    package = os.environ.get("LARDER_NODE")
    if not package or shutil.which("node") is None or not Path(package).is_dir():
        pytest.skip("LARDER_NODE names no folder with larder-cache for Node.js, so there is no Express")
    folder = tmp_path / "express"
    folder.mkdir()
    for name in ("server.js", "index.html"):
        shutil.copy(EXPRESS / name, folder)
    (folder / "node_modules").symlink_to(Path(package).parent)
    return lambda **options: start(["node", folder / "server.js"], **options)


def test_of_several_requests_one_loads(start_django):
    app, answers = start_django(), []
    requests = [threading.Thread(target=lambda: answers.append(app.call("GET", "/products/apple"))) for _ in range(2)]
    for request in requests:
        request.start()
    for request in requests:
        request.join(20)
    assert [(status, product) for status, product, _ in answers] == [(200, APPLE)] * 2
    assert sorted(headers["Cache-Status"] for _, _, headers in answers) == ["Django; fwd=miss", "Django; hit"]
    assert app.call("GET", "/products/apple")[2]["Cache-Status"] == "Django; hit"
    assert app.figures()[LOADS] == 1


def test_change_is_shown_by_the_next_answer(start_django):
    app = start_django()
    assert app.get() == APPLE
    for price in (1, 2, 3):
        app.put(price)
        assert app.get() == app.get() == {**APPLE, "price": price}
    before = app.figures()[MISSES]
    loading = threading.Thread(target=app.get, args=["plum"])
    loading.start()
    eventually("the old price is being loaded", lambda: app.figures()[MISSES] > before)
    app.put(7, "plum")
    loading.join(20)
    assert app.get("plum")["price"] == app.get("plum")["price"] == 7


def test_what_is_wrong_is_refused_with_a_reason(start_django):
    app = start_django()
    for price in ('"abc"', "1.5", "-1", "1000001", "true", "null"):
        status, answer, _ = app.call("PUT", "/products/apple", f'{{"price": {price}}}')
        assert status == 400
        assert answer["error"] == f"price is {price}; it must be a whole number of cents from 0 to 1000000"
    for body in ('{"price": ', "[]", ""):
        assert app.call("PUT", "/products/apple", body)[0] == 400
    for method, body in (("GET", None), ("PUT", '{"price": 1}')):
        status, answer, _ = app.call(method, "/products/nothing", body)
        assert (status, answer["error"]) == (404, 'there is no product "nothing"')
    for name in ("%00", "a%20b", "x" * 2000):
        assert app.call("GET", f"/products/{name}")[0] == 404
    assert app.call("DELETE", "/products/apple")[0] == 405
    assert app.get() == APPLE


def test_app_answers_without_redis(start_django, own_redis):
    app = start_django()
    app.get()
    own_redis.stop()
    assert app.get() == APPLE
    assert app.get("pear")["price"] == 150
    app.put(5)
    assert app.get()["price"] == 5
    eventually("the figures tell that Redis is away", lambda: app.figures()[COHERENT] == 0)
    assert app.figures()[PENDING] > 0
    own_redis.start()
    eventually("the invalidation is confirmed", lambda: app.figures()[PENDING] == 0)
    assert app.get()["price"] == 5


def test_both_apps_have_the_same_page(start_django):
    page = (EXPRESS / "index.html").read_bytes()
    assert page == (DJANGO / "index.html").read_bytes()
    assert start_django().call("GET", "/")[:2] == (200, page.decode())
    assert b"http:" not in page and b"https:" not in page, "it needs nothing from elsewhere"


def test_each_language_shows_what_the_other_has_changed(start_django, start_express, tmp_path):
    origin = tmp_path / "origin.json"
    django, express = start_django(origin=origin), start_express(origin=origin)
    for turn in range(8):
        changing, showing = (django, express) if turn % 2 else (express, django)
        # It has the old price in its memory.
        assert showing.get()["price"] != turn
        changing.put(turn)
        assert changing.get()["price"] == turn
        eventually("the change is shown", lambda: showing.get()["price"] == turn, seconds=SEEN)
    assert json.loads(origin.read_text())["apple"] == {"name": "Apple", "price": 7}


def test_one_language_serves_what_the_other_has_loaded(start_django, start_express, tmp_path):
    origin = tmp_path / "origin.json"
    django, express = start_django(origin=origin), start_express(origin=origin)
    for loading, serving, name in ((django, express, "apple"), (express, django, "pear")):
        assert loading.call("GET", f"/products/{name}")[2]["Cache-Status"].endswith("; fwd=miss")
        status, product, headers = serving.call("GET", f"/products/{name}")
        assert (status, headers["Cache-Status"].endswith("; hit")) == (200, True)
        assert product == loading.get(name)


def test_both_languages_have_the_same_figures(start_django, start_express):
    def families(app):
        """The figures of larder: their names with their labels, and the lines that have their types and texts."""
        names = [name for name in app.figures() if name.startswith("larder_")]
        lines = app.call("GET", "/metrics")[1].splitlines()
        labelled = {(name.partition("{")[0], *sorted(re.findall(r'\w+="\w+"', name))) for name in names}
        return labelled, {line for line in lines if re.match("# [A-Z]+ larder_", line)}

    django, express = start_django(), start_express()
    for app in (django, express):
        app.get()
    assert families(django) == families(express)
    assert len(families(django)[1]) == 20
