"""Incremental decoding: its state, and additions to fairseq's sequence generator."""
