"""Measurements in processes of their own start quickly."""

import multiprocessing

import pytest


@pytest.fixture(autouse=True)
def forks_of_a_new_process(monkeypatch):
    """They are forks of one that has done nothing but import, which takes seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.__main__", "benchmarks.table"])
    monkeypatch.setattr(multiprocessing, "get_context", lambda method: context)
