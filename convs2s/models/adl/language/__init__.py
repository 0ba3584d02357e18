"""The language: text -> syntax tree -> checked specification. Needs neither torch nor fairseq."""

from . import layers  # noqa: F401  (registers the layers and macros)
