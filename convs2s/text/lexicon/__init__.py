"""Bilingual lexicons: word alignment of parallel text, translation probabilities, files.

Needs neither torch nor fairseq.
"""
