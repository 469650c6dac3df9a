"""All cases of the clients for Python."""

import sys

from suite import Suite

import celery_cases
import django_cases
import dogpile_cases
import flask_cases
import redis_py_cases

suite = Suite(sys.argv[1], int(sys.argv[2]))
for module in (redis_py_cases, django_cases, dogpile_cases, flask_cases, celery_cases):
    module.run(suite)
suite.finish()
