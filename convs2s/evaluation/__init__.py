"""Evaluation of translations, summaries and alignments, and the choice among translations.

The metrics are those of libraries, sacreBLEU, rouge-score and nltk, and of a program, ``comet``;
only the alignment error rate (``links``) is computed here. ``systems`` reads translations,
``test_sets`` finds sacreBLEU's test sets, and ``comparison`` scores and tests systems. ``nbest``
reads n-best lists, from which ``reranking`` chooses.
"""
