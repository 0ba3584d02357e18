"""Convolutional and hybrid sequence-to-sequence models in plain torch, and the command ``convs2s``.

The library knows nothing of fairseq; ``convs2s_plugin`` makes its networks into models of fairseq.
"""

__version__ = "0.2.0"
