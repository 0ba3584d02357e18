"""Made-up documents of attention for tests: any number of tokens, layers and heads."""

import torch

from convs2s.nn.attention import (
    CONTRIBUTIONS,
    DECODER,
    ENCODER,
    SOURCE,
    AttentionMap,
    AttentionMaps,
)
from convs2s.pictures.document import document, sentence_entry


def made_up_maps(source: int, target: int, heads: int = 2, seed: int = 1) -> AttentionMaps:
    """Two layers that attend to the source, their mean, self-attention, and contributions."""
    generator = torch.Generator().manual_seed(seed)

    def weights(rows: int, columns: int, heads: int = heads) -> torch.Tensor:
        return (3 * torch.randn(1, heads, rows, columns, generator=generator)).softmax(dim=-1)

    maps = AttentionMaps()
    for _ in range(2):
        maps.add(SOURCE, weights(target, source), "mh_dot_src_att")
    maps.insert(0, AttentionMap(SOURCE, "mean", maps.mean().unsqueeze(1), "mean"))
    maps.add(ENCODER, weights(source, source), "mh_dot_self_att")
    causal = weights(target, target).tril()
    maps.add(DECODER, causal / causal.sum(dim=-1, keepdim=True), "mh_dot_self_att")
    signed = torch.randn(1, 1, target, source, generator=generator)
    maps.add(CONTRIBUTIONS, signed, "parts of the logit", "max")
    return maps


def made_up_document(*pairs: tuple[list[str], list[str]], models: int = 1):
    """A document of sentence pairs, tokens without the ends of sentence."""
    entries = []
    for number, (source, target) in enumerate(pairs):
        texts = " ".join(source).replace("@@ ", ""), " ".join(target).replace("@@ ", "")
        source, target = [*source, "</s>"], [*target, "</s>"]
        maps = [
            made_up_maps(len(source), len(target), seed=10 * number + model)
            for model in range(models)
        ]
        entries.append(sentence_entry(source, target, maps, "all", 4, texts))
    return document([f"model{number}.pt" for number in range(1, 1 + models)], entries)
