"""The logging of a program while a library is imported."""

import logging

import pytest

from convs2s.common.quiet import keep_logging


@pytest.mark.parametrize("configured", [False, True])
def test_an_import_does_not_configure_logging(configured, monkeypatch, capsys):
    root = logging.getLogger()
    handlers = [logging.NullHandler()] if configured else []
    monkeypatch.setattr(root, "handlers", [*handlers])
    level = root.level
    with keep_logging():
        # As fairseq's tasks do.
        logging.basicConfig(level=logging.INFO)
        logging.getLogger("library").warning("a warning")
    assert root.handlers == handlers and root.level == level
    # Only a program that has configured nothing sees warnings on standard error.
    assert capsys.readouterr().err == ("" if configured else "a warning\n")
