"""dogpile.cache, with the locks of the process and with its distributed lock."""

from threading import Thread

from dogpile.cache import make_region

from suite import equal

NAME = "dogpile.cache"


def run(suite):
    region = configure(suite)
    distributed = configure(suite, distributed_lock=True, thread_local_lock=False, lock_timeout=3)
    suite.case(NAME, "get_or_create", lambda: get_or_create(region, suite.key()))
    suite.case(NAME, "set_multi", lambda: set_multi(region, suite.key()))
    suite.case(NAME, "distributed lock", lambda: single_creation(distributed, suite.key()))
    suite.survives(NAME, lambda: (region.set("survivor", 1), equal(region.get("survivor"), 1)))


def configure(suite, **arguments):
    address = {"host": suite.host, "port": suite.port, "redis_expiration_time": 120}
    return make_region().configure("dogpile.cache.redis", expiration_time=60, arguments=address | arguments)


def get_or_create(region, key):
    equal(region.get_or_create(key, lambda: {"made": 1}), {"made": 1})
    equal(region.get_or_create(key, lambda: {"made": 2}), {"made": 1})
    region.delete(key)
    equal(region.get_or_create(key, lambda: {"made": 3}), {"made": 3})


def set_multi(region, key):
    wanted = {f"{key}:{n}": n for n in range(3)}
    region.set_multi(wanted)
    equal(region.get_multi(list(wanted)), [0, 1, 2])
    region.delete_multi(list(wanted))


def single_creation(region, key):
    """Of two threads one creates the value."""
    made, found, errors = [], [], []

    def create():
        made.append(1)
        return len(made)

    def read():
        try:
            found.append(region.get_or_create(key, create))
        except Exception as error:
            errors.append(error)

    threads = [Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    equal(found, [1, 1])
