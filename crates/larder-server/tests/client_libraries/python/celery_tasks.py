"""The Celery application: its tasks, and the server that the environment names."""

import os

from celery import Celery
from redis import Redis

URL = os.environ["CELERY_CASES_URL"]
# Seconds after which a message that nobody has acknowledged goes to another worker.
VISIBILITY = int(os.environ.get("CELERY_CASES_VISIBILITY", "3600"))

app = Celery("cases", broker=URL, backend=URL)
app.conf.broker_transport_options = {
    "visibility_timeout": VISIBILITY,
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
}


@app.task
def add(left, right):
    return left + right


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=2)
def fail_twice(task):
    """The number of retries that it took."""
    if task.request.retries < 2:
        raise task.retry(countdown=0.1)
    return task.request.retries


@app.task
def fail():
    raise ValueError("on purpose")


@app.task(acks_late=True)
def hang_once(key):
    """Never ends when it runs first. Returns how often it has started."""
    server = Redis.from_url(URL)
    starts = server.incr(key)
    if starts == 1:
        server.blpop(key + ":never")
    return starts
