"""Building blocks in plain torch, one a file; none of them knows fairseq.

Shapes: B sentences, R hypotheses (rows), T target and S source positions, C channels,
E embedding channels, V words.
"""
