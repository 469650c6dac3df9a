"""The values and keys that every language must agree on, in ``bindings/interop``."""

import datetime
import json
import math
from pathlib import Path

import pytest

import larder_cache
from test_languages import Peer
from test_values import same

FOLDER = Path(__file__).parents[2] / "interop"
VALUES = json.loads((FOLDER / "values.json").read_text())
KEYS = json.loads((FOLDER / "keys.json").read_text())
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def object_of(value):
    ((kind, value),) = value.items()
    if kind == "list":
        return [object_of(element) for element in value]
    if kind == "map":
        return {key: object_of(element) for key, element in value}
    if kind == "time":
        return EPOCH + datetime.timedelta(seconds=value[0], microseconds=value[1] // 1000)
    return {"integer": int, "float": float, "bytes": bytes.fromhex}.get(kind, lambda value: value)(value)


@pytest.fixture
def peer(redis_server, namespace):
    peer = Peer(redis_server.url, namespace)
    yield peer
    peer.end()


def test_values_are_written_and_read_as_every_language_does(peer, make_cache):
    written, read = (make_cache().view("golden") for _ in range(2))
    for number, row in enumerate(VALUES):
        value = object_of(row["value"])
        assert written.set(f"of-python-{number}", value) is True
        assert peer("payload", f"of-python-{number}") == row["messagepack"], row["name"]
        assert peer("put", f"of-rust-{number}", row["messagepack"]) == "ok"
        found = read.get(f"of-rust-{number}", "it is missing")
        is_nan = isinstance(value, float) and math.isnan(value)
        assert (math.isnan(found) if is_nan else same(found, value)), row["name"]


def test_keys_have_the_bytes_of_every_language():
    for row in KEYS:
        key = tuple_of(row["key"])
        assert larder_cache.key_bytes(key).hex() == row["bytes"], row


def tuple_of(key):
    return tuple(map(tuple_of, key)) if isinstance(key, list) else key


@pytest.mark.parametrize(
    "messagepack",
    [
        "c1",  # unused by MessagePack
        "c70501ffffffffff",  # an extension of another program
        "81c0c0",  # a map whose key is no text
        "a2c328",  # text that is not UTF-8
        "dd7fffffff",  # a list that is longer than its bytes
        "c0c0",  # two values
        "c70cff000000007fffffffffffffff",  # a year that Python does not have
    ],
)
def test_bytes_outside_of_the_profile_are_a_miss(peer, make_cache, messagepack, caplog):
    assert peer("put", "k", messagepack) == "ok"
    view = make_cache().view("golden")
    assert view.get("k", "a miss") == "a miss"
    assert view.fetch("k", lambda: 1) == 1
    assert view.get("k") == 1
