"""RQ: workers that end when their queue is empty."""

import operator
import time
from datetime import datetime, timedelta, timezone

from redis import Redis
from rq import Queue, Retry
from rq.command import send_stop_job_command
from rq.registry import FailedJobRegistry

from suite import equal, eventually
import workers

NAME = "RQ"


def run(suite):
    client = Redis.from_url(suite.url)
    cases = {
        "burst": burst,
        "failed jobs": failed_jobs,
        "scheduled jobs": scheduled_jobs,
        "dependencies": dependencies,
        "stop": stop,
    }
    for name, case in cases.items():
        suite.case(NAME, name, lambda: case(suite, Queue(suite.key(), connection=client)))
    survivor = Queue(suite.key(), connection=client)
    suite.survives(NAME, lambda: burst(suite, survivor))


def start(suite, queue, *options):
    return workers.start("rq.cli", "worker", "--quiet", "--url", suite.url, *options, queue.name)


def work(suite, queue, *options):
    """Runs a worker until the queue is empty."""
    worker = start(suite, queue, "--burst", *options)
    equal(worker.wait(timeout=20), 0)


def burst(suite, queue):
    jobs = [queue.enqueue(operator.add, number, 1) for number in range(3)]
    equal([job.get_status() for job in jobs], ["queued"] * 3)
    work(suite, queue)
    equal([job.return_value() for job in jobs], [1, 2, 3])
    equal((queue.count, set(queue.finished_job_registry.get_job_ids()) >= {job.id for job in jobs}), (0, True))


def failed_jobs(suite, queue):
    """One job is tried again, and both are in the registry when they have failed."""
    once = queue.enqueue(operator.truediv, 1, 0)
    twice = queue.enqueue(operator.truediv, 1, 0, retry=Retry(max=1))
    work(suite, queue)
    registry = FailedJobRegistry(queue=queue)
    equal(sorted(registry.get_job_ids()), sorted([once.id, twice.id]))
    twice.refresh()
    equal(twice.retries_left, 0)
    equal("ZeroDivisionError" in once.latest_result().exc_string, True)
    registry.requeue(once)
    equal((queue.job_ids, registry.get_job_ids()), ([once.id], [twice.id]))


def scheduled_jobs(suite, queue):
    """The one whose time has come is run, and the other one waits."""
    due = queue.enqueue_at(datetime.now(timezone.utc) - timedelta(seconds=1), operator.add, 1, 2)
    later = queue.enqueue_in(timedelta(hours=1), operator.add, 1, 2)
    equal(sorted(queue.scheduled_job_registry.get_job_ids()), sorted([due.id, later.id]))
    work(suite, queue, "--with-scheduler")
    equal((due.return_value(), queue.scheduled_job_registry.get_job_ids()), (3, [later.id]))


def dependencies(suite, queue):
    """A job runs after those that it depends on, and not at all if one of them fails."""
    first = queue.enqueue(operator.add, 1, 2)
    second = queue.enqueue(operator.add, 3, 4, depends_on=first)
    failed = queue.enqueue(operator.truediv, 1, 0)
    never = queue.enqueue(operator.add, 5, 6, depends_on=[second, failed])
    equal(sorted(queue.deferred_job_registry.get_job_ids()), sorted([second.id, never.id]))
    work(suite, queue)
    equal((first.return_value(), second.return_value()), (3, 7))
    equal(never.get_status(), "deferred")


def stop(suite, queue):
    """A message stops a job that runs."""
    job = queue.enqueue(time.sleep, 60)
    worker = start(suite, queue, "--burst")
    eventually(lambda: equal(job.get_status(refresh=True), "started"), seconds=10)
    # The worker may not have subscribed yet.
    def stopped():
        if job.get_status(refresh=True) == "started":
            send_stop_job_command(queue.connection, job.id)
        equal(job.get_status(refresh=True), "stopped")

    eventually(stopped, seconds=10)
    equal(worker.wait(timeout=10), 0)
