"""What every family offers: an encoder, a decoder, and the network of both.

A family derives from ``Encoder``, ``Decoder`` and ``Network``. Everything else, such as search,
losses, alignments, int8 and export, is written once for these classes.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor, nn

from ..common.errors import SequenceTooLong, UserError
from ..nn.attention import SOURCE, AttentionMaps, record_attention, recorded_maps
from ..nn.dropout import Dropout
from ..nn.embedding import Embedding, EmbeddingMatrix, random_embedding_matrix
from ..nn.int8 import SUFFIX, dequantize_weights_, is_quantized, quantize_weights_
from ..nn.linear import fold_weight_norm_
from ..nn.padding import lengths_and_mask
from ..nn.state import State
from .direction import decode_turned
from .options import NetworkOptions

# Attention weights R x T x S; those of a decoder with ``aligns_tokens`` depend on the logits.
Attention = Tensor | Callable[[Tensor | None], Tensor] | None


class Vocabularies(NamedTuple):
    """The vocabularies of a network.

    Attributes:
        source, target: the numbers of tokens.
        pad, eos, bos: indices of padding, of the end and of the beginning of a sentence.
    """

    source: int
    target: int
    pad: int = 1
    eos: int = 2
    bos: int = 0


# The index in every dictionary.
EOS: int = Vocabularies._field_defaults["eos"]


class _Part(nn.Module):
    """A module that ``torch.jit.script`` cannot compile.

    Incremental decoding keeps its state in Python objects, which TorchScript does not know.
    """

    def __prepare_scriptable__(self) -> NoReturn:
        """Refuse; ``torch.jit.script`` calls this method before it compiles a module.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            f"{type(self).__name__} cannot be compiled with torch.jit.script. Use `convs2s "
            "export-onnx`, and `convs2s export-transformer` for transformers in ADL."
        )


class Encoder(_Part):
    """An encoder whose output is shared by all hypotheses of a sentence.

    A family defines ``encode``.

    Args:
        embed: source embedding.
        pad: index of padding.
        max_length: the largest number of tokens in a source sentence, end of sentence included.

    Attributes:
        refuses_empty: whether ``encode`` itself refuses sentences without tokens (False).
    """

    refuses_empty = False

    def __init__(self, embed: Embedding, pad: int, max_length: int):
        super().__init__()
        self.embed = embed
        self.pad = pad
        self.max_length = max_length

    def encode(self, tokens: Tensor, padding_mask: Tensor) -> dict[str, Any]:
        """Encode a batch of source sentences; every family defines this method.

        Args:
            tokens: B x S token indices, padded on either side or on both.
            padding_mask: B x S, True at padding.
        Returns:
            A dictionary for the decoder. It must have ``encoder_out``, a tensor, and
            ``encoder_padding_mask``, B x S or None if there is no padding. It may have more
            entries. Each tensor in it has one row per sentence; beam search reorders the rows.
        """
        raise NotImplementedError

    def run(self, tokens: Tensor) -> dict[str, Any]:
        """Encode a batch of source sentences.

        Args:
            tokens: B x S token indices, padded on either side or on both.
        Returns:
            The dictionary of ``encode``, and ``beam_size``: the number of consecutive hypotheses
            that share a row of it, which is 1 before the search.
        Raises:
            UserError: if a sentence has no tokens, or more than the network has positions for.
        """
        padding_mask = tokens.eq(self.pad)
        with _explain_length_limit("source"):
            if not self.refuses_empty:
                # Attention needs a token in every sentence.
                lengths_and_mask(padding_mask)
            encoded = self.encode(tokens, padding_mask)
        return {**encoded, "beam_size": 1}


class Decoder(_Part):
    """A decoder whose incremental state is one ``State``.

    A family defines ``decode`` and sets the attribute ``output`` to a module of ``nn/output.py``,
    or to one with the same methods: ``forward(features)`` computes logits, and
    ``weight_and_bias(tokens)`` returns the rows of weight and bias for some tokens or for all.

    Args:
        embed: target embedding.
        pad: index of padding.
        max_length: the largest number of tokens in a target sentence, end of sentence included.

    Attributes:
        aligns_tokens: whether the attention of a position depends on the token predicted there
            (False). If it does, ``decode`` has an argument ``target_tokens`` to give the tokens.
        right_to_left: whether the last token is predicted first (False); ``Network`` sets it.
    """

    aligns_tokens = False
    right_to_left = False
    output: nn.Module

    def __init__(self, embed: Embedding, pad: int, max_length: int):
        super().__init__()
        self.embed = embed
        self.pad = pad
        self.max_length = max_length

    def decode(
        self,
        tokens: Tensor,
        padding_mask: Tensor,
        encoded: dict[str, Any],
        state: State | None,
        need_weights: bool,
        **options: Any,
    ) -> tuple[Tensor, Attention]:
        """Compute features; every family defines this method.

        Args:
            tokens: R x T indices of the previous target tokens, starting with the end of sentence.
            padding_mask: R x T, True at padding.
            encoded: the encoder's dictionary.
            state: the incremental state, or None outside incremental decoding. If it is given,
                only the positions from ``state.length`` on are computed.
            need_weights: whether to return attention weights.
            options: further options of the family; those that it does not know are ignored.
        Returns:
            Features R x T x C, and attention weights R x T x S, or None if they are not needed. A
            decoder with ``aligns_tokens`` returns a function instead of weights; it is called with
            the logits R x T x V, or with None if they are not computed, and returns the weights.

            A decoder with several layers or heads that attend adds the weights of each to
            ``recorded_maps()``, if that is not None. If it adds none that attend to the source,
            the returned weights count as those of one layer.
        """
        raise NotImplementedError

    def run(
        self,
        tokens: Tensor,
        encoded: dict[str, Any],
        state: State | None = None,
        need_weights: bool = False,
        **options: Any,
    ) -> tuple[Tensor, Attention]:
        """Compute the features that predict the next target tokens.

        A decoder from right to left needs whole translations without ``state``, and has features
        and attention in their order. With ``state``, its first token is the last of a translation.

        Args:
            tokens: R x T indices of the previous target tokens. They are the whole prefix in
                incremental decoding, too.
            encoded: what ``Encoder.run`` returned.
            state, options: as for ``decode`` (None).
            need_weights: whether to return attention weights (False); they are needed in any case
                if they are recorded.
        Returns:
            As ``decode``.
        Raises:
            UserError: if a sentence has more tokens than the network has positions for.
        """
        need_weights = need_weights or recorded_maps() is not None
        decode: Callable[..., tuple[Tensor, Attention]] = self.decode
        if self.right_to_left and state is None:
            decode = partial(decode_turned, self.decode)
        with _explain_length_limit("target"):
            features, attention = decode(
                tokens, tokens.eq(self.pad), encoded, state, need_weights, **options
            )
        if state is not None:
            state.length = tokens.size(1)
        return features, attention


def resolve_attention(attention: Attention, logits: Tensor | None = None) -> Tensor | None:
    """The attention weights R x T x S that ``Decoder.run`` returned, or None.

    Args:
        attention: as returned.
        logits: R x T x V, or None if they are not computed.
    """
    weights = attention(logits) if callable(attention) else attention
    maps = recorded_maps()
    # A family that records no layers has one map.
    if maps is not None and weights is not None and not maps.of_kind(SOURCE):
        maps.add(SOURCE, weights.unsqueeze(1), "attention to the source")
    return weights


class Network(_Part):
    """An encoder and a decoder.

    A family sets ``options_class``, and its constructor takes the options and the vocabularies.

    Args:
        encoder: the encoder.
        decoder: the decoder.
        right_to_left: the option of this name (False).

    Attributes:
        options_class: the dataclass of the family's options.
        quantized: whether the weights of linear maps, convolutions and embeddings are in 8 bits.
        prepared: whether the network is prepared for generation, and can no longer be trained.
    """

    options_class: type[NetworkOptions] = NetworkOptions
    quantized = False
    prepared = False
    encoder: Encoder
    decoder: Decoder

    def __init__(self, encoder: Encoder, decoder: Decoder, right_to_left: bool = False):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        decoder.right_to_left = right_to_left

    @property
    def right_to_left(self) -> bool:
        """Whether the last token of a translation is predicted first."""
        return self.decoder.right_to_left

    @property
    def max_source_length(self) -> int:
        """The largest number of tokens in a source sentence, end of sentence included."""
        return self.encoder.max_length

    @property
    def max_target_length(self) -> int:
        """The largest number of tokens in a target sentence, end of sentence included."""
        return self.decoder.max_length

    @property
    def aligns_tokens(self) -> bool:
        """Whether the attention of a position depends on the token there."""
        return self.decoder.aligns_tokens

    @property
    def output(self) -> nn.Module:
        """The output layer."""
        return self.decoder.output

    def encode(self, tokens: Tensor) -> dict[str, Any]:
        """Encode source sentences B x S; see ``Encoder.run``."""
        return self.encoder.run(tokens)

    def decode(
        self,
        tokens: Tensor,
        encoded: dict[str, Any],
        state: State | None = None,
        need_weights: bool = False,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Features R x T x C and attention R x T x S or None; arguments as for ``Decoder.run``."""
        features, attention = self.decoder.run(tokens, encoded, state, need_weights, **options)
        return features, resolve_attention(attention)

    def logits(self, features: Tensor) -> Tensor:
        """Logits R x T x V from features R x T x C."""
        logits: Tensor = self.decoder.output(features)
        return logits

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits B x T x V.

        Args:
            source: B x S source tokens.
            target: B x T previous target tokens.
        """
        return self.logits(self.decode(target, self.encode(source))[0])

    def prepare_for_generation_(self) -> None:
        """Fold weight normalization into the weights; the network cannot be trained afterwards.

        It can still be copied and pickled.
        """
        fold_weight_norm_(self)
        self.prepared = True
        self.eval()

    def keep_dropout_(self, parts: list[nn.Module]) -> None:
        """Apply dropout in evaluation mode in these parts, and nowhere else."""
        kept = {module for part in parts for module in part.modules()}
        for module in self.modules():
            if isinstance(module, Dropout):
                module.always = module in kept

    def quantize_(self) -> None:
        """Replace weights with weights in 8 bits (``nn.int8``), which cannot be trained."""
        fold_weight_norm_(self)
        quantize_weights_(self)
        self.quantized = True

    def dequantize_(self) -> None:
        """Convert weights in 8 bits, if there are any, to single precision."""
        dequantize_weights_(self)

    def train(self, mode: bool = True) -> "Network":
        """Change to training or evaluation mode.

        Raises:
            UserError: if the network is quantized and ``mode`` is true.
            RuntimeError: if it is prepared for generation and ``mode`` is true.
        """
        if mode and self.quantized:
            raise UserError(
                "A model in int8 cannot be trained: continue from the checkpoint that `convs2s "
                "quantize` read."
            )
        if mode and self.prepared:
            raise RuntimeError("A network cannot train after it is prepared for generation.")
        return super().train(mode)

    @torch.no_grad()
    def attention_maps(
        self, source: Tensor, previous: Tensor, target: Tensor | None = None
    ) -> AttentionMaps:
        """Compute the attention weights of every layer and head, in evaluation mode.

        Their mean over the heads and layers that attend to the source (``AttentionMaps.mean``) is
        the attention that ``decode`` returns, unless ``--alignment-layer`` or
        ``--alignment-heads`` was given in training. fairseq's ``transformer_align`` has these
        options too, but without them returns the last layer, not the mean. Maps and their mean do
        not depend on them.

        Args:
            source: B x S source tokens.
            previous: B x T indices of the previous target tokens.
            target: B x T, the target tokens. They matter only if the attention of a position
                depends on the token there, as in pervasive attention; None for the most probable
                token at each position.
        Returns:
            The weights of each layer; none of them attends to the source if no layer does.
        """
        # Threads may share a network in evaluation mode: nothing in it changes.
        in_training = [module for module in self.modules() if module.training]
        if in_training:
            self.eval()
        aligned: dict[str, Any] = {"target_tokens": target} if self.aligns_tokens else {}
        try:
            with record_attention() as maps:
                self.decode(previous, self.encode(source), **aligned)
        finally:
            for module in in_training:
                module.training = True
        return maps

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load weights; if they are quantized, quantize this network as well.

        Raises:
            UserError: if ``strict`` and the weights belong to other dictionaries or another
                architecture.
        """
        if is_quantized(state_dict) and not self.quantized:
            self.quantize_()
        if strict:
            self.check_state_dict(state_dict)
        return super().load_state_dict(state_dict, strict, assign)

    def check_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Check that weights have the names, shapes and types of this network.

        Raises:
            UserError: if they do not.
        """
        own = self.state_dict()
        missing = sorted(own.keys() - state_dict.keys())
        unexpected = sorted(state_dict.keys() - own.keys())
        common = own.keys() & state_dict.keys()
        reshaped = sorted(key for key in common if own[key].shape != state_dict[key].shape)
        for language, side in (("source", "encoder"), ("target", "decoder")):
            key = f"{side}.embed.words.weight" + (SUFFIX if is_quantized(state_dict) else "")
            if key in common and state_dict[key].dim() and len(state_dict[key]) != len(own[key]):
                raise UserError(
                    f"The checkpoint was trained with a {language} vocabulary of "
                    f"{len(state_dict[key]):,} tokens, but the {language} dictionary of this data "
                    f"has {len(own[key]):,}: use the dict.*.txt of its training data "
                    "(fairseq-preprocess --srcdict and --tgtdict)."
                )
        for key in sorted(common):
            needed, given = _type_of(own[key]), _type_of(state_dict[key])
            if needed != given:
                raise UserError(
                    f"The weight {key} of the checkpoint is of type {given}, but its network needs "
                    f"{needed}: the checkpoint is damaged."
                )
        if missing or unexpected or reshaped:
            raise UserError(
                "The weights of the checkpoint are those of another architecture: "
                f"{_count(missing)} missing, {_count(unexpected)} unexpected, {_count(reshaped)} "
                "of another shape. Use the --arch and options that it was trained with."
            )


def build_embedding_matrices(
    options: NetworkOptions,
    vocabularies: Vocabularies,
    source_dim: int,
    target_dim: int,
    std: float = 0.1,
) -> tuple[EmbeddingMatrix, EmbeddingMatrix]:
    """The source and the target embedding matrix, V x E, random.

    Args:
        options: with ``share_all_embeddings``, both matrices are one.
        vocabularies: their sizes.
        source_dim, target_dim: E of each matrix.
        std: standard deviation (0.1).
    Raises:
        UserError: if one matrix is needed, but the vocabularies differ in size.
    """
    source = random_embedding_matrix(vocabularies.source, source_dim, vocabularies.pad, std)
    if not options.share_all_embeddings:
        return source, random_embedding_matrix(
            vocabularies.target, target_dim, vocabularies.pad, std
        )
    if vocabularies.source != vocabularies.target:
        raise UserError(
            "--share-all-embeddings needs one dictionary for both languages: "
            "preprocess the data with fairseq-preprocess --joined-dictionary."
        )
    return source, source


@contextmanager
def _explain_length_limit(language: str) -> Iterator[None]:
    """Name the option that limits the length of a sentence if a layer refuses one.

    Raises:
        UserError: if the body raises SequenceTooLong.
    """
    try:
        yield
    except SequenceTooLong as error:
        raise UserError(
            f"A {language} sentence has {error.length} tokens, more than the {error.limit} that "
            f"--max-{language}-positions allowed in training: shorten it or train with a larger "
            "value."
        ) from None


def _type_of(tensor: Tensor) -> str:
    """The type of a weight; all floating-point numbers count as one."""
    return "float" if tensor.is_floating_point() else str(tensor.dtype).removeprefix("torch.")


def _count(names: list[str]) -> str:
    """The number of names, with the first one as an example."""
    return f"{len(names)} ({names[0]}, ...)" if names else "none"
