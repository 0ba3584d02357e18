"""Which words of two sentences translate each other, and what that says of the words.

Knows neither torch nor fairseq.
"""
