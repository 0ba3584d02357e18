"""The layers of the language as ``nn.Module``s, each made from its resolved ``recipe.Layer``.

Every module is called with x (B x T x C) and the Context of the pass, and gives B x T x C'.
"""
