"""Django's cache and sessions, with its own Redis backend and with django-redis."""

import django
from django.conf import settings

from suite import equal, fails
import cacheops_cases


def run(suite):
    settings.configure(
        CACHES={
            "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": suite.url},
            "django-redis": {
                "BACKEND": "django_redis.cache.RedisCache",
                "LOCATION": suite.url + "/1",
                "OPTIONS": {"CLIENT_CLASS": "django_redis.client.DefaultClient"},
            },
        },
        SESSION_ENGINE="django.contrib.sessions.backends.cache",
        **cacheops_cases.settings(suite),
    )
    django.setup()
    from django.core.cache import caches

    for name, alias in (("Django", "default"), ("django-redis", "django-redis")):
        cache = caches[alias]
        suite.case(name, "values", lambda: values(cache, suite.key()))
        suite.case(name, "incr", lambda: incr(cache, suite.key()))
        suite.case(name, "set_many", lambda: set_many(cache, suite.key()))
        suite.case(name, "sessions", lambda: sessions(alias))
        suite.survives(name, lambda cache=cache: (cache.set("survivor", 1), equal(cache.get("survivor"), 1)))
    suite.case("django-redis", "delete_pattern", lambda: delete_pattern(caches["django-redis"], suite.key()))
    suite.case("django-redis", "lock", lambda: lock(caches["django-redis"], suite.key()))


def values(cache, key):
    cache.set(key, {"a": [1, 2.5, None]}, timeout=60)
    equal(cache.get(key), {"a": [1, 2.5, None]})
    equal(cache.add(key, "other"), False)
    equal(bool(cache.touch(key, 30)), True)
    equal(cache.get_or_set(key + ":2", lambda: "made"), "made")
    equal(cache.has_key(key + ":2"), True)
    equal(cache.delete(key), True)
    equal(cache.get(key, "default"), "default")


def incr(cache, key):
    cache.set(key, 1)
    equal(cache.incr(key, 41), 42)
    equal(cache.decr(key), 41)
    fails(ValueError, lambda: cache.incr(key + ":missing"))


def set_many(cache, key):
    wanted = {key + ":1": 1, key + ":2": "two"}
    equal(list(cache.set_many(wanted, timeout=60) or []), [])
    equal(dict(cache.get_many([*wanted, key + ":missing"])), wanted)
    cache.delete_many(list(wanted))
    equal(dict(cache.get_many(list(wanted))), {})


def sessions(alias):
    settings.SESSION_CACHE_ALIAS = alias
    from django.contrib.sessions.backends.cache import SessionStore

    session = SessionStore()
    session["cart"] = ["apple"]
    session.save(must_create=True)
    found = SessionStore(session_key=session.session_key)
    equal(found["cart"], ["apple"])
    found.delete()
    equal(SessionStore(session_key=session.session_key).get("cart"), None)


def delete_pattern(cache, key):
    cache.set_many({f"{key}:{n}": n for n in range(50)})
    equal(cache.delete_pattern(key + ":*"), 50)
    equal(cache.keys(key + ":*"), [])


def lock(cache, key):
    with cache.lock(key, timeout=10):
        equal(cache.lock(key, timeout=10).acquire(blocking=False), False)
    equal(cache.lock(key, timeout=10).acquire(blocking=False), True)
