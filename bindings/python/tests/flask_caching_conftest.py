"""The fixtures with which Flask-Caching's own tests run against LarderCache. `test_flask.py` copies it beside them."""

import itertools
import os
import time
import types

import flask
import flask_caching
import flask_caching.backends
import pytest
from larder_cache.flask import NEVER, LarderCache

#: The tests wait for timeouts of up to a minute with a clock of their own. Here time passes, ten times as fast.
SPEED = 10
#: The tests that are left out, and why.
LEFT_OUT = {
    "test_cache_unlink": "makes a RedisCache on a port; test_cache_unlink_if_not does the same with this backend",
    "test_memoize_delete_resets_version_key": "moves its clock by an hour",
}

_numbers = itertools.count()


def pytest_collection_modifyitems(items):
    for item in items:
        if item.name in LEFT_OUT:
            item.add_marker(pytest.mark.skip(reason=LEFT_OUT[item.name]))


class FastLarderCache(LarderCache):
    def _ttl(self, timeout):
        ttl = super()._ttl(timeout)
        return ttl if ttl is None or ttl == NEVER else ttl / SPEED


# Some tests name the backend themselves.
flask_caching.backends.SimpleCache = FastLarderCache


@pytest.fixture
def app(request):
    app = flask.Flask(request.module.__name__, template_folder=os.environ["LARDER_FLASK_CACHING_TESTS"])
    app.testing = True
    app.config.update(
        SECRET_KEY="the secret of the tests",
        CACHE_TYPE="SimpleCache",
        CACHE_KEY_PREFIX=f"suite-{os.getpid()}-{next(_numbers)}",
        CACHE_LARDER_REDIS=os.environ["LARDER_TEST_REDIS"],
    )
    return app


@pytest.fixture
def cache(app):
    return flask_caching.Cache(app)


@pytest.fixture
def clock():
    return types.SimpleNamespace(advance=lambda seconds: time.sleep(seconds / SPEED))


@pytest.fixture(params=flask_caching.SUPPORTED_HASH_FUNCTIONS, ids=lambda method: method.__name__)
def hash_method(request):
    return request.param


@pytest.fixture
def make_larder_cache():
    namespace = f"suite-{os.getpid()}-{next(_numbers)}"
    return lambda: FastLarderCache(namespace, [b"k" * 16], redis=os.environ["LARDER_TEST_REDIS"])
