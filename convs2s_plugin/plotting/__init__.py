"""Plots of trainings and results: what each file reads, and the figure it makes of it.

``training`` plots the logs of fairseq-train, ``lengths`` the results of ``convs2s evaluate``, and
``sweep`` those of ``convs2s experiment``. Needs neither torch nor fairseq.
"""
