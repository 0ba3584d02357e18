"""The language: text -> tree -> checked specification. Knows neither torch nor fairseq."""
