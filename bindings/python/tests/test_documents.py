"""The examples of the modules and of the pages print what they show."""

import doctest
import importlib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
PAGES = [REPOSITORY / "bindings/python/README.md", REPOSITORY / "docs/python.md"]
#: Those of the frameworks need a program that is set up for one.
MODULES = ["larder_cache", "larder_cache._cache", "larder_cache._errors", "larder_cache._view", "larder_cache._waiting"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_a_page(page, redis_server):
    failed, tried = doctest.testfile(str(page), module_relative=False, globs={"REDIS": redis_server.url})
    assert failed == 0 and tried > 5
