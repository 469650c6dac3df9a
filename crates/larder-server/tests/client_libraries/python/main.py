"""All cases of the clients for Python."""

import sys

from suite import Suite

import cacheops_cases
import django_cases
import dogpile_cases
import flask_cases
import limits_cases
import redis_lock_cases
import redis_py_cases

suite = Suite(sys.argv[1], int(sys.argv[2]))
modules = [redis_py_cases, django_cases, cacheops_cases, dogpile_cases, flask_cases, limits_cases, redis_lock_cases]
for module in modules:
    module.run(suite)
suite.finish()
