"""What is read is equal to what was written, and of the same type, from every tier."""

import datetime
import decimal
import enum
import math
import pickle

import pytest

import larder_cache

VALUES = [
    None,
    True,
    False,
    0,
    -1,
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**64 - 1,
    -(2**63),
    0.0,
    -0.0,
    1.5,
    float("inf"),
    "",
    "äpfel",
    "\0",
    b"",
    b"\xff\x00",
    [],
    {},
    [1, [2, [3, {"four": [None]}]]],
    {"name": "apple", "price": 3, "tags": ["fruit"], "weight": 0.5, "": None},
    datetime.datetime(2026, 11, 27, 12, 30, 15, 123456, tzinfo=datetime.timezone.utc),
    datetime.datetime(1, 1, 1, tzinfo=datetime.timezone.utc),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc),
]


def same(left, right):
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return math.copysign(1, left) == math.copysign(1, right) and left == right
    return left == right


@pytest.mark.parametrize("codec", ["messagepack", "pickle"])
def test_value_is_equal_and_of_equal_type_from_loader_memory_and_redis(make_cache, codec):
    words = {"codec": codec} if codec == "messagepack" else {"codec": codec, "keys": [b"k" * 16]}
    writer, reader = (make_cache().view("value", **words) for _ in range(2))
    for number, value in enumerate(VALUES):
        loaded = writer.fetch(number, lambda: value)
        remembered = writer.fetch(number, lambda: pytest.fail("it is in memory"))
        from_redis = reader.fetch(number, lambda: pytest.fail("it is in redis"))
        for found in (loaded, remembered, from_redis, reader.hit(number)):
            assert same(found, value), (found, value)


def test_value_of_a_json_view_is_equal_from_every_tier_and_read_by_other_views(make_cache):
    writer, reader = (make_cache().view("value", codec="json") for _ in range(2))
    other = make_cache().view("value")
    values = [value for value in VALUES if not isinstance(value, (bytes, datetime.datetime)) and value != float("inf")]
    for number, value in enumerate(values):
        loaded = writer.fetch(number, lambda: value)
        for found in (loaded, writer.hit(number), reader.get(number), other.get(number)):
            assert same(found, value), (found, value)


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ({"a": [b"x"]}, "at $.a[0]: JSON has no bytes"),
        (math.inf, "at $: JSON has no numbers that are not finite"),
        ([datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)], "at $[0]: JSON has no points in time"),
    ],
)
def test_value_that_json_has_not_is_refused_where_it_is_written(cache, value, part):
    view = cache.view("value", codec="json")
    for write in (lambda: view.set("key", value), lambda: view.fetch("key", lambda: value)):
        with pytest.raises(larder_cache.EncodeError) as raised:
            write()
        assert part in str(raised.value)


def test_nan_stays_nan(cache):
    assert math.isnan(cache.view("value").fetch("nan", lambda: float("nan")))


def test_tuple_is_a_list_from_every_tier(cache):
    view = cache.view("value")
    assert view.fetch("t", lambda: (1, (2,))) == [1, [2]]
    assert view.hit("t") == [1, [2]]


def test_changed_object_changes_no_other_callers(cache):
    view = cache.view("value")
    value = {"names": ["apple"]}
    view.set("k", value)
    value["names"].append("changed by its writer")
    view.get("k")["names"].append("changed by a reader")
    assert view.get("k") == {"names": ["apple"]}
    assert view.get("k") is not view.get("k")


def test_shared_view_returns_one_object(cache):
    view = cache.view("value", shared=True)
    view.set("k", {"a": 1})
    assert view.get("k") is view.get("k")


def test_text_is_one_object_everywhere(cache):
    view = cache.view("value")
    view.set("k", "x" * 1000)
    assert view.get("k") is view.get("k")


class Colour(enum.IntEnum):
    RED = 1


class Named(dict):
    pass


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (decimal.Decimal(1), "a value of type Decimal"),
        ({"a": [1, {2, 3}]}, "at $.a[1]: a value of type set"),
        ({1: 2}, "a key of type int"),
        (2**64, "an integer outside of"),
        (Colour.RED, "a value of type Colour"),
        (Named(), "a value of type Named"),
        (datetime.datetime(2026, 1, 1), "without a time zone"),
        ("\ud800", "surrogates not allowed"),
    ],
)
def test_value_that_other_languages_do_not_read_is_refused_where_it_is_written(cache, value, part):
    view = cache.view("value")
    for write in (lambda: view.set("key", value), lambda: view.fetch("key", lambda: value)):
        with pytest.raises((larder_cache.EncodeError, UnicodeEncodeError)) as raised:
            write()
        assert part in str(raised.value)
    assert view.get("key") is None
    # The refused load holds up nobody.
    assert view.fetch("key", lambda: 1) == 1


def test_endless_list_is_refused(cache):
    endless = []
    endless.append(endless)
    with pytest.raises(larder_cache.EncodeError, match="128 lists and maps"):
        cache.view("value").set("key", endless)


def test_too_long_value_is_refused_before_it_is_stored(make_cache):
    view = make_cache(max_value_bytes="1KiB").view("value")
    with pytest.raises(larder_cache.EncodeError, match="1024 bytes"):
        view.set("key", "x" * 2000)
    assert view.get("key") is None


def test_private_view_keeps_objects_of_python(make_cache):
    words = {"codec": "pickle", "keys": [b"k" * 16]}
    writer, reader = (make_cache().view("value", **words) for _ in range(2))
    for number, value in enumerate([decimal.Decimal("1.5"), {1, 2}, (1, 2), Colour.RED, 2**80, Named(a=1)]):
        writer.set(number, value)
        assert same(reader.get(number), value)


def test_value_that_no_key_has_signed_is_never_unpickled(make_cache, redis_server, namespace):
    new, old, other = (b"n" * 16, b"o" * 16, b"x" * 16)
    written = make_cache().view("value", codec="pickle", keys=[old])
    written.set("k", {1, 2})
    rotated = make_cache().view("value", codec="pickle", keys=[new, old])
    assert rotated.get("k") == {1, 2}
    stranger = make_cache().view("value", codec="pickle", keys=[other])
    assert stranger.get("k") is None
    assert stranger.fetch("k", lambda: {3}) == {3}


def test_value_moved_to_another_key_is_loaded_anew(make_cache, redis_server, namespace):
    words = {"codec": "pickle", "keys": [b"k" * 16]}
    view = make_cache().view("value", **words)
    view.set("alice", {"admin"})
    moved = redis_server.command("GET", f"{namespace}:value:alice")
    assert moved
    redis_server.command("SET", f"{namespace}:value:bob", moved)
    victim = make_cache().view("value", **words)
    assert victim.get("bob") is None
    assert victim.fetch("bob", lambda: {"user"}) == {"user"}
    assert victim.get("bob") == {"user"}


class Removed:
    pass


def test_class_that_does_not_exist_any_more_is_a_miss(make_cache, monkeypatch, caplog):
    words = {"codec": "pickle", "keys": [b"k" * 16]}
    make_cache().view("value", **words).set("k", Removed())
    reader = make_cache().view("value", **words)
    monkeypatch.delitem(globals(), "Removed")
    assert reader.get("k", "default") == "default"
    assert reader.fetch("k", lambda: "new") == "new"
    assert reader.get("k") == "new"
    assert "cannot be read" in caplog.text


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ({"codec": "pickle"}, "needs keys"),
        ({"codec": "yaml"}, "'messagepack', 'json' or 'pickle'"),
        ({"keys": [b"k" * 16]}, "no other codec has keys"),
        ({"codec": "pickle", "keys": [b"short"]}, "at least 16"),
        ({"codec": "pickle", "keys": []}, "there is no key"),
        ({"codec": "pickle", "keys": [b"k" * 16], "negative_ttl": 1}, "negative_ttl"),
        ({"codec": "pickle", "keys": b"k" * 16}, "a list of bytes"),
        ({"codec": "pickle", "keys": ["k" * 16]}, "a list of bytes"),
        ({"schema": "product"}, "schema is 'product'; it must be a name and a number"),
        ({"schema": ("product", -1)}, "from 0 to 2"),
        ({"schema": ("product", True)}, "from 0 to 2"),
        ({"ttl": -1}, "ttl is -1"),
        ({"ttl": "5 parsecs"}, "5 parsecs"),
        ({"tll": 1}, 'no option "tll"'),
        ({"tags": "fruit"}, "tags is 'fruit'; it must be a list of texts"),
        ({"tags": 7}, "tags is 7; it must be"),
        ({"tags": ["fruit", 3]}, "it must be a list of texts"),
    ],
)
def test_wrong_option_of_a_view_names_it(memory, words, part):
    with pytest.raises(larder_cache.OptionError, match=part.replace("(", r"\(")):
        memory.view("value", **words)


def test_older_schema_is_a_miss(make_cache):
    make_cache().view("value", schema=("product", 1)).set("k", 1)
    assert make_cache().view("value", schema=("product", 2)).get("k") is None
    assert make_cache().view("value", schema=("product", 1)).get("k") == 1
