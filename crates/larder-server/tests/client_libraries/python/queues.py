"""All cases of the queues for Python, with their real workers."""

import sys

from suite import Suite

import celery_cases
import kombu_cases
import rq_cases

suite = Suite(sys.argv[1], int(sys.argv[2]))
for module in (kombu_cases, rq_cases, celery_cases):
    module.run(suite)
suite.finish()
