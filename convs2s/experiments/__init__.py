"""Experiments: train, translate with and compare systems that a YAML file describes.

``file`` defines the content of such a file and ``reader`` reads it; ``runs`` derives the runs and
their options. ``workflow`` prepares the data (``data``), schedules the runs (``schedule``), carries
out each (``run``) and writes the report. ``convs2s.common.programs`` starts programs. Needs neither
a model family nor fairseq.
"""
