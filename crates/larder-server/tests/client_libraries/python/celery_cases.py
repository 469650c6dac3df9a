"""Celery with results in Redis: a result that somebody waits for, groups, and chords, which keep sets."""

from threading import Thread
from types import SimpleNamespace
from uuid import uuid4

from celery import Celery

from suite import equal

NAME = "Celery"


def run(suite):
    app = Celery("cases", broker="memory://", backend=suite.url)
    app.task(name="add")(lambda numbers: sum(numbers))
    suite.case(NAME, "result", lambda: result(app))
    suite.case(NAME, "group", lambda: group(app))
    suite.case(NAME, "chord", lambda: chord(app))
    suite.survives(NAME, lambda: store_and_read(app))


def store_and_read(app):
    task = str(uuid4())
    app.backend.store_result(task, {"answer": 42}, "SUCCESS")
    equal(app.AsyncResult(task).get(timeout=3), {"answer": 42})
    app.AsyncResult(task).forget()


def result(app):
    """A thread waits for the message with the result."""
    store_and_read(app)
    task, found = str(uuid4()), []
    pending = app.AsyncResult(task)
    equal(pending.state, "PENDING")
    waiting = Thread(target=lambda: found.append(pending.get(timeout=5)))
    waiting.start()
    app.backend.store_result(task, "late", "SUCCESS")
    waiting.join()
    equal(found, ["late"])


def group(app):
    tasks = [app.AsyncResult(str(uuid4())) for _ in range(3)]
    together = app.GroupResult(str(uuid4()), tasks)
    together.save()
    for number, task in enumerate(tasks):
        app.backend.store_result(task.id, number, "SUCCESS")
    equal(together.join(timeout=5), [0, 1, 2])


def chord(app):
    """The callback is sent when the second of two tasks has ended."""
    group, backend = str(uuid4()), app.backend
    backend.set_chord_size(group, 2)
    callback = app.signature("add")
    for index in range(2):
        request = SimpleNamespace(id=str(uuid4()), group=group, group_index=index, chord=callback)
        backend.on_chord_part_return(request, "SUCCESS", index)
    equal(backend.client.get(backend.get_key_for_group(group, ".c")), b"done")
