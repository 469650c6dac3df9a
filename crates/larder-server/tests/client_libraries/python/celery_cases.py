"""Celery with its broker and its results in Redis: workers with the default pool, and one that is killed."""

import os

from celery import chain, chord, group
from celery.exceptions import TaskRevokedError
from redis import Redis

from suite import equal, eventually, fails
import workers

NAME = "Celery"


def run(suite):
    url = os.environ["CELERY_CASES_URL"] = suite.url
    # The application reads the address when it is loaded.
    from celery_tasks import app

    service = Service(lambda: start_worker(url, "--concurrency", "2"))
    cases = {
        "result": result,
        "error": error,
        "retry": retry,
        "countdown": countdown,
        "group": groups,
        "chain": chains,
        "chord": chords,
        "revoke": revoke,
        "revoke and terminate": terminate,
    }
    # The first one waits for the worker.
    for name, case in cases.items():
        suite.case(NAME, name, lambda: case(app, suite.key()))
    suite.case(NAME, "worker is killed", lambda: kill_worker(suite))
    # The worker waits for two seconds before it connects again.
    suite.survives(NAME, lambda: (service.check(), result(app, suite.key(), seconds=3)), seconds=20)
    suite.at_end(service.stop)


class Service:
    """A worker that is started again when it has ended, as by a service manager: one that cannot connect may end."""

    def __init__(self, start):
        self.start, self.worker = start, start()

    def check(self):
        if self.worker.poll() is not None:
            self.worker = self.start()

    def stop(self):
        self.worker.terminate()
        self.worker.wait(timeout=10)


def start_worker(url, *options, **variables):
    words = ("celery", "--app", "celery_tasks", "worker", "--loglevel", "WARNING", *options)
    return workers.start(*words, CELERY_CASES_URL=url, **variables)


def task(app, name):
    return app.tasks["celery_tasks." + name]


def result(app, key, seconds=20):
    found = task(app, "add").delay(1, 2)
    equal(found.get(timeout=seconds), 3)
    equal(found.state, "SUCCESS")
    found.forget()
    equal(app.AsyncResult(found.id).state, "PENDING")


def error(app, key):
    failed = task(app, "fail").delay()
    fails(ValueError, lambda: failed.get(timeout=10))
    equal((failed.state, "on purpose" in failed.traceback), ("FAILURE", True))


def retry(app, key):
    equal(task(app, "fail_twice").delay().get(timeout=10), 2)


def countdown(app, key):
    """The later one was sent first."""
    late = task(app, "add").apply_async((2, 2), countdown=2)
    equal(task(app, "add").delay(1, 1).get(timeout=10), 2)
    equal(late.ready(), False)
    equal(late.get(timeout=10), 4)


def groups(app, key):
    together = group(task(app, "add").s(number, number) for number in range(5))()
    equal(together.get(timeout=10), [0, 2, 4, 6, 8])
    together.save()
    equal(app.GroupResult.restore(together.id, backend=app.backend).completed_count(), 5)


def chains(app, key):
    add = task(app, "add")
    equal(chain(add.s(1, 2), add.s(3), add.s(4))().get(timeout=10), 10)


def chords(app, key):
    """The callback gets all results of the group, and an error of one of them is its error."""
    add, total = task(app, "add"), task(app, "total")
    equal(chord(add.s(number, 1) for number in range(10))(total.s()).get(timeout=10), 55)
    failing = chord([add.s(1, 1), task(app, "fail").s()])(total.s())
    fails(Exception, lambda: failing.get(timeout=10))
    eventually(lambda: equal(failing.state, "FAILURE"))


def revoke(app, key):
    """A task that waits for its time never starts."""
    late = task(app, "hang_once").apply_async((key,), countdown=10)
    [answer] = app.control.revoke(late.id, reply=True, timeout=5, limit=1)
    equal("ok" in next(iter(answer.values())), True)
    fails(TaskRevokedError, lambda: late.get(timeout=10))
    equal(client(app).exists(key), 0)


def terminate(app, key):
    """A task that runs is killed, and its process replaced."""
    running = task(app, "hang_once").delay(key)
    eventually(lambda: equal(client(app).get(key), b"1"), seconds=10)
    app.control.revoke(running.id, terminate=True, signal="SIGKILL")
    fails(TaskRevokedError, lambda: running.get(timeout=10))
    equal(task(app, "add").delay(1, 2).get(timeout=10), 3)


def kill_worker(suite):
    """What a killed worker had not acknowledged, and what waited behind it, goes to the next worker."""
    from celery_tasks import app

    url, key = suite.url + "/1", suite.key()
    with app.connection(url) as broker, broker.channel() as channel:
        server = Redis.from_url(url)
        send = {"connection": broker}
        tasks = [task(app, "hang_once").apply_async((key,), **send)]
        tasks += [task(app, "add").apply_async((number, 1), **send) for number in range(3)]
        alone = ("--pool", "solo", "--without-mingle", "--without-gossip")
        first = start_worker(url, *alone)
        eventually(lambda: equal(server.get(key), b"1"), seconds=20)
        first.kill()
        first.wait()
        second = start_worker(url, *alone, CELERY_CASES_VISIBILITY="1")
        backend = type(app.backend)(app=app, url=url)
        found = [app.AsyncResult(one.id, backend=backend).get(timeout=20) for one in tasks]
        equal(found, [2, 1, 2, 3])
        eventually(lambda: equal((server.hlen("unacked"), channel.queue_declare("celery").message_count), (0, 0)))
        second.terminate()
        equal(second.wait(timeout=10), 0)


def client(app):
    return app.backend.client
