"""Evaluation of translations, summaries and alignments.

The metrics are those of libraries: sacreBLEU, rouge-score and nltk; only the alignment error rate
(``links``) is computed here. ``systems`` reads or makes the translations, ``comparison`` scores and
tests them, and ``report`` writes the tables.
"""
