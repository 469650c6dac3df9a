"""kombu: queues, priorities, exchanges that send to all, and messages that nobody has acknowledged."""

import socket

from kombu import Connection, Consumer, Exchange, Producer, Queue
from redis import Redis
from redis.exceptions import OutOfMemoryError

from suite import equal, eventually, fails

NAME = "kombu"


def run(suite):
    cases = {
        "SimpleQueue": simple,
        "priority": priority,
        "topic": topic,
        "fanout": fanout,
        "unacked": unacked,
        "full server": full,
    }
    for name, case in cases.items():
        suite.case(NAME, name, lambda: case(suite.url, suite.key()))
    key = suite.key()
    suite.survives(NAME, lambda: simple(suite.url, key))


def simple(url, key):
    with Connection(url) as connection, connection.SimpleQueue(key) as queue:
        queue.put({"n": 1}, compression="zlib")
        queue.put({"n": 2})
        for number in (1, 2):
            message = queue.get(timeout=5)
            equal(message.payload, {"n": number})
            message.ack()
        equal(Redis.from_url(url).exists(key, "unacked"), 0)


def receive(connection, queue, count):
    """The payloads of the next messages, which are acknowledged."""
    received = []

    def take(payload, message):
        received.append(payload)
        message.ack()

    with Consumer(connection, [queue], callbacks=[take]):
        while len(received) < count:
            connection.drain_events(timeout=5)
    return received


def priority(url, key):
    """Zero comes first. Each priority is a list of its own."""
    queue = Queue(key, Exchange(key), routing_key=key)
    with Connection(url) as connection:
        producer = Producer(connection)
        for level in (9, 3, 0, 6, 3):
            producer.publish(level, priority=level, exchange=queue.exchange, routing_key=key, declare=[queue])
        with connection.channel() as channel:
            equal(channel.queue_declare(key).message_count, 5)
        equal(receive(connection, queue, 5), [0, 3, 3, 6, 9])


def topic(url, key):
    exchange = Exchange(key, type="topic")
    errors = Queue(key + ":errors", exchange, routing_key="*.error")
    everything = Queue(key + ":all", exchange, routing_key="#")
    with Connection(url) as connection:
        producer = Producer(connection)
        for routing_key in ("web.error", "web.info"):
            declared = [errors, everything]
            producer.publish(routing_key, exchange=exchange, routing_key=routing_key, declare=declared)
        equal(receive(connection, everything, 2), ["web.error", "web.info"])
        equal(receive(connection, errors, 1), ["web.error"])


def subscribers(url):
    return len(Redis.from_url(url).client_list(_type="pubsub"))


def fanout(url, key):
    """Both consumers receive a message, which is published to a channel."""
    exchange = Exchange(key, type="fanout")
    received, before = [], subscribers(url)

    def drain(connection):
        try:
            connection.drain_events(timeout=0.05)
        except socket.timeout:
            pass

    def subscribed():
        drain(first), drain(second)
        equal(subscribers(url) - before, 2)

    def delivered():
        drain(first), drain(second)
        equal(sorted(received), [("first", "message"), ("second", "message")])

    def consume(connection, name):
        queue = Queue(f"{key}:{name}", exchange, exclusive=True)
        take = lambda payload, message: received.append((name, payload))
        return Consumer(connection, [queue], callbacks=[take], no_ack=True)

    with Connection(url) as first, Connection(url) as second, Connection(url) as third:
        with consume(first, "first"), consume(second, "second"):
            eventually(subscribed)
            Producer(third).publish("message", exchange=exchange, declare=[exchange])
            eventually(delivered)


def unacked(url, key):
    """A message goes back to its queue when its consumer rejects it, and when its channel ends."""
    with Connection(url) as connection:
        with connection.SimpleQueue(key) as queue:
            queue.put("message")
            queue.get(timeout=5).reject(requeue=True)
            again = queue.get(timeout=5)
            equal(again.payload, "message")
            equal(Redis.from_url(url).hlen("unacked"), 1)
    with Connection(url) as connection, connection.SimpleQueue(key) as queue:
        message = queue.get(timeout=5)
        equal((message.payload, message.delivery_info["redelivered"]), ("message", True))
        message.ack()
        equal(Redis.from_url(url).hlen("unacked"), 0)


def full(url, key):
    """A full server refuses a message, and keeps those that it has."""
    server = Redis.from_url(url)
    limit = server.config_get("maxmemory")["maxmemory"]
    with Connection(url) as connection, connection.SimpleQueue(key) as queue:
        queue.put("first")
        server.config_set("maxmemory", 32 << 20)
        try:
            filled = fill(server, key)
            fails(OutOfMemoryError, lambda: queue.put("refused"))
        finally:
            server.config_set("maxmemory", limit)
        server.delete(*filled)
        queue.put("second")
        received = [queue.get(timeout=5) for _ in range(2)]
        equal([message.payload for message in received], ["first", "second"])
        [message.ack() for message in received]


def fill(server, key):
    """Sets values until the server refuses short ones too. Returns their keys."""
    filled = []
    for size in (100_000, 1_000, 100):
        try:
            # More than fit.
            for _ in range(10_000):
                server.set(f"{key}:{len(filled)}", b"x" * size)
                filled.append(f"{key}:{len(filled)}")
        except OutOfMemoryError:
            pass
    return filled
