"""Experiments: train, translate with and compare systems that a YAML file describes.

``file`` defines the content of such a file with the ``values`` that are allowed, and ``reader``
reads it; ``runs`` derives the runs and their ``options``, some of which ``trials`` chooses.
``workflow`` prepares the data (``data``), carries out each run (``run``, with the command lines of
``commands``) after those that it needs, whose ``results``, kept as ``records``, decide the
``choices``, and writes the ``report`` with the ``tables`` of a ``comparison``, which ``trackers``
can record. Needs neither a model family nor fairseq; only ``results`` and ``commands`` ask torch.
"""
