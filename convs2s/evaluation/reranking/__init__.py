"""``convs2s rerank``: the choice of a translation from an n-best list.

``nbest`` reads the lists, ``features`` are what a choice depends on, ``mbr`` the expected utility
(minimum Bayes risk) among them, and ``tuning`` finds their weights. Only ``model_scores`` needs
torch and fairseq.
"""
