"""Packaging of convs2s-plugin; everything it says is in pyproject.toml."""

from setuptools import setup

setup()
