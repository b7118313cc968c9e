"""Runs of pytest inside these tests: with lore's plugin, every warning an error, no files next to them.

Such a run forgets the modules that it was the first to import. Half forgotten modules make a later run fail: a
library, but not the part of the standard library whose classes it knows; a module of lore that others still refer to,
and its second copy, whose errors are of other classes. So clients, and all of lore, are imported here.
"""

import http.cookiejar  # noqa: F401
import json
from importlib import import_module
from pkgutil import walk_packages

import httpx  # noqa: F401
import pytest
import requests  # noqa: F401
import vcr  # noqa: F401

import lore
from pytest_plugin.asking import body

for module in walk_packages(lore.__path__, "lore."):
    if not module.name.endswith("__main__"):
        import_module(module.name)

CASE = """
import json
import httpx
import pytest
from lore.pytest_plugin import assert_prefix_stable

STABLE = json.loads({stable!r})
MOVED = json.loads({moved!r})

"""
# Without --confcutdir an inner run collects every folder from the root of the disk down.
OPTIONS = ("-p", "no:cacheprovider", "-W", "error", "--confcutdir=.")
LORE, XDIST = ("-p", "lore.pytest_plugin.hooks"), ("-p", "xdist.plugin")


@pytest.fixture
def suite(pytester, monkeypatch):
    """Return what writes a test file and runs pytest on it: here, or `apart` in a process.

    That has no other plugins: those that are installed here take a second to import, in each of its workers again.
    """
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    head = CASE.format(stable=json.dumps([body(1), body(2)]), moved=json.dumps([body(1), body(2, day=21)]))

    def run(text: str, *options: str, apart: bool = False):
        pytester.makepyfile(test_it=head + text)
        plugins = () if "no:lore" in options else LORE
        words = (*OPTIONS, *plugins, *XDIST, *options)
        if apart:
            return pytester.runpytest_subprocess(*words)
        return pytester.runpytest_inprocess(*words, no_reraise_ctrlc=True)

    return run
