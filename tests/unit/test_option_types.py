"""Fields of option dataclasses have types in the spelling that fairseq parses."""

from dataclasses import fields

import pytest
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import interpret_dc_type

import convs2s_plugin  # noqa: F401  (defines the dataclasses)


def option_dataclasses(parent=FairseqDataclass):
    """The package's option dataclasses, each once."""
    found = {parent: None} if parent.__module__.startswith("convs2s_plugin.") else {}
    for child in parent.__subclasses__():
        found.update(dict.fromkeys(option_dataclasses(child)))
    return list(found)


@pytest.mark.parametrize("config", option_dataclasses(), ids=lambda config: config.__name__)
def test_fairseq_can_parse_every_type(config):
    for field in fields(config):
        spelling = str(interpret_dc_type(field.type))
        assert "|" not in spelling, f"{field.name}: write Optional[...] instead of ... | None"
        assert not spelling.startswith("list["), f"{field.name}: write List[...]"
