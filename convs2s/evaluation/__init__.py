"""Evaluation of translations, summaries and alignments, and the choice among translations.

The metrics are those of libraries: sacreBLEU, rouge-score and nltk; only the alignment error rate
(``links``) is computed here. ``systems`` reads or makes the translations, and ``comparison`` scores
and tests them. ``nbest`` reads n-best lists, from which ``reranking`` chooses.
"""
