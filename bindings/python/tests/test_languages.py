"""A node in Rust and nodes in Python over one Redis: they read each other's values, and serve nothing that the other invalidated."""

import os
import subprocess
import threading

import pytest

from conftest import eventually

APPLE = {"name": "apple", "price": 3, "tags": ["fruit"], "weight": None}


class Peer:
    """The program in Rust."""

    def __init__(self, url, namespace):
        program = os.environ.get("LARDER_PEER")
        assert program, "LARDER_PEER names no program: `cargo xtask test --stage python` sets it"
        self._process = subprocess.Popen(
            [program, url, namespace], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __call__(self, *words):
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        return self._process.stdout.readline().rstrip("\n")

    def end(self):
        self._process.stdin.close()
        assert self._process.wait(10) == 0


@pytest.fixture
def peer(redis_server, namespace):
    peer = Peer(redis_server.url, namespace)
    yield peer
    peer.end()


@pytest.fixture
def products(make_cache):
    return make_cache().view("product", schema=("product", 1))


def test_each_language_reads_what_the_other_has_written(peer, products):
    assert peer("write", "apple", "apple", 3) == "ok"
    assert products.get("apple") == APPLE
    assert products.set("pear", {**APPLE, "name": "pear", "price": 2**63 - 1, "weight": 0.5}) is True
    assert peer("read", "pear") == f"pear {2**63 - 1}"
    # In another order, and as a view of Python alone would have it.
    assert products.fetch("plum", lambda: {"price": 5, "weight": 1.0, "tags": (), "name": "plum"})["tags"] == []
    assert peer("read", "plum") == "plum 5"


def test_what_the_other_language_has_no_type_for_is_a_miss(peer, products, make_cache):
    products.set("apple", {"name": "apple"})
    assert peer("read", "apple") == "-"
    assert peer("fetch", "apple", "apple", 3, 0) == "loaded apple 3"
    # This node has a valid value of its own, and another one reads that of the loader.
    assert products.get("apple") == {"name": "apple"}
    assert make_cache().view("product", schema=("product", 1)).get("apple") == APPLE
    assert make_cache().view("product", schema=("product", 2)).get("apple") is None


def test_neither_language_serves_what_the_other_has_invalidated(peer, products):
    for turn in range(20):
        assert peer("write", "apple", "apple", turn) == "ok"
        eventually("the value of Rust is seen", lambda: (products.get("apple") or APPLE)["price"] == turn)
        products.set("apple", {**APPLE, "price": turn + 1000})
        eventually("the value of Python is seen", lambda: peer("read", "apple") == f"apple {turn + 1000}")
    assert peer("delete", "apple") == "ok"
    eventually("the deletion is seen", lambda: products.get("apple") is None)


def test_tags_are_those_of_both_languages(peer, products):
    assert peer("fetch", "apple", "apple", 3, 0) == "loaded apple 3"
    assert products.get("apple") == APPLE
    assert products.cache.invalidate_tags(["rust"]) is True
    eventually("the tag is seen in Rust", lambda: peer("read", "apple") == "-")
    products.fetch("pear", lambda: {**APPLE, "name": "pear"}, tags=["python"])
    assert peer("read", "pear") == "pear 3"
    assert peer("tag", "python") == "ok"
    eventually("the tag is seen in Python", lambda: products.get("pear") is None)


def test_one_caller_of_both_languages_loads(peer, products, redis_server, namespace):
    loads = []

    def load():
        loads.append(1)
        return APPLE

    for turn in range(5):
        key = f"apple-{turn}"
        answers = []
        in_rust = threading.Thread(target=lambda: answers.append(peer("fetch", key, "apple", 3, 300)))
        in_rust.start()
        eventually("Rust has the lease", lambda: redis_server.command("EXISTS", f"{namespace}:product:{key}") == 1)
        assert products.fetch(key, load) == APPLE
        in_rust.join()
        assert answers == ["loaded apple 3"]
    assert loads == []
