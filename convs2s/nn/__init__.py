"""Building blocks of all model families, in plain torch.

Shapes: B sentences, R hypotheses (rows), T target and S source positions, C channels,
E embedding channels, V tokens of a vocabulary.
"""
