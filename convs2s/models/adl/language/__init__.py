"""The language: text -> syntax tree -> checked specification. Needs neither torch nor fairseq."""
