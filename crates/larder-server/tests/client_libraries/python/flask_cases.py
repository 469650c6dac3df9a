"""Flask-Limiter, Flask-Caching and Flask-Session in an application."""

from flask import Flask, session
from flask_caching import Cache
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from flask_session import Session
from redis import Redis

from suite import equal


def run(suite):
    limiter = "Flask-Limiter"
    # The last one keeps the times of all requests in a list.
    for strategy in ("fixed-window", "sliding-window-counter", "moving-window"):
        suite.case(limiter, strategy, lambda: limits(suite, strategy))
    served = limited(suite, "fixed-window", "1000 per minute")
    suite.survives(limiter, lambda: equal(request(served), 200))

    app = Flask("caching")
    cache = Cache(app, config={"CACHE_TYPE": "RedisCache", "CACHE_REDIS_URL": suite.url})
    with app.app_context():
        suite.case("Flask-Caching", "views", lambda: views(app, cache))
        suite.case("Flask-Caching", "values", lambda: values(cache, suite.key()))
        suite.case("Flask-Caching", "memoize", lambda: memoize(cache))
    suite.survives("Flask-Caching", lambda: use(app, cache))

    visited = with_sessions(suite)
    suite.case("Flask-Session", "requests", lambda: visits(visited))
    suite.case("Flask-Session", "storage", lambda: stored_sessions(visited))
    suite.survives("Flask-Session", lambda: equal(visited.test_client().get("/visit").text, "1"))


def limited(suite, strategy, limit):
    app = Flask(strategy)
    app.testing = True
    options = {"storage_uri": suite.url, "strategy": strategy, "key_prefix": suite.key()}
    Limiter(get_remote_address, app=app, default_limits=[limit], **options)
    app.route("/", endpoint="root")(lambda: "served")
    return app


def request(app):
    return app.test_client().get("/").status_code


def limits(suite, strategy):
    app = limited(suite, strategy, "2 per hour")
    equal([request(app) for _ in range(3)], [200, 200, 429])


def views(app, cache):
    rendered = []

    def page():
        rendered.append(1)
        return f"version {len(rendered)}"

    app.route("/page", endpoint="page")(cache.cached(timeout=60)(page))
    client = app.test_client()
    equal([client.get("/page").text for _ in range(3)], ["version 1"] * 3)


def values(cache, key):
    equal(cache.set(key, {"a": 1}), True)
    equal(cache.add(key, 2), False)
    equal(cache.set_many({key + ":1": 1, key + ":2": 2}), [key + ":1", key + ":2"])
    equal(cache.get_many(key, key + ":1", key + ":2"), [{"a": 1}, 1, 2])
    equal(sorted(cache.delete_many(key + ":1", key + ":2")), [key + ":1", key + ":2"])
    equal(cache.get(key + ":1"), None)


def memoize(cache):
    calls = []

    @cache.memoize(timeout=60)
    def double(number):
        calls.append(number)
        return 2 * number

    equal([double(1), double(1), double(2)], [2, 2, 4])
    equal(calls, [1, 2])
    cache.delete_memoized(double)
    equal(double(1), 2)
    equal(calls, [1, 2, 1])


def use(app, cache):
    with app.app_context():
        equal(cache.set("survivor", 1), True)
        equal(cache.get("survivor"), 1)


def with_sessions(suite):
    app = Flask("sessions")
    app.testing = True
    app.config.update(
        SESSION_TYPE="redis", SESSION_REDIS=Redis(suite.host, suite.port), SESSION_KEY_PREFIX=suite.key() + ":"
    )
    Session(app)

    @app.route("/visit")
    def visit():
        session["visits"] = session.get("visits", 0) + 1
        return str(session["visits"])

    @app.route("/login")
    def login():
        session["user"] = {"name": "alice", "roles": ["admin"]}
        app.session_interface.regenerate(session)
        return session["user"]["name"]

    @app.route("/logout")
    def logout():
        session.clear()
        return ""

    return app


def visits(app):
    """Each browser has its own session, until it logs out."""
    first, second = app.test_client(), app.test_client()
    equal([first.get("/visit").text for _ in range(3)], ["1", "2", "3"])
    equal(second.get("/visit").text, "1")
    equal(second.get("/logout").text, "")
    equal((first.get("/visit").text, second.get("/visit").text), ("4", "1"))


def stored_sessions(app):
    """A login gives the session a new name, and a logout removes it."""
    server, prefix = app.config["SESSION_REDIS"], app.config["SESSION_KEY_PREFIX"]
    before = set(server.scan_iter(prefix + "*"))

    def stored():
        return set(server.scan_iter(prefix + "*")) - before

    client = app.test_client()
    client.get("/visit")
    [anonymous] = stored()
    equal(server.ttl(anonymous) > 86_400, True)
    equal(client.get("/login").text, "alice")
    [known] = stored()
    equal((anonymous == known, client.get("/visit").text), (False, "2"))
    client.get("/logout")
    equal(stored(), set())
