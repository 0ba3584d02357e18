"""The library's networks as models of fairseq, and the output layer of any model of fairseq.

An adapter derives from a class of fairseq and from one of the library: what fairseq calls is
translated to the interface of ``convs2s.models.interface``, and names of weights stay as they are.
"""

import logging
from typing import Any, NamedTuple

from fairseq.models import (
    BaseFairseqModel,
    FairseqDecoder,
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqIncrementalDecoder,
)
from torch import Tensor, nn

from convs2s.checkpoints.weights import check_weights
from convs2s.common.errors import UserError
from convs2s.models.interface import Vocabularies, resolve_attention
from convs2s.nn.int8 import Weight
from convs2s.nn.linear import linear
from convs2s.nn.state import BeamOrder, State, reorder_encoder_output

from .. import compat
from .embeddings import check_shared_embeddings, load_embeddings_
from .options import keep_definitions, network_options

logger = logging.getLogger(__name__)
STATE_KEY = "convs2s_plugin"


class PluginEncoder(FairseqEncoder):
    """The adapter of an ``Encoder``."""

    def __init__(self, *arguments, **options):
        # FairseqEncoder only stores the dictionary, which PluginModel sets.
        super(FairseqEncoder, self).__init__(*arguments, **options)

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor | None = None, **unused
    ) -> dict[str, Any]:
        """Encode B x S tokens; see ``Encoder.run``. Lengths follow from the padding."""
        return self.run(src_tokens)

    def reorder_encoder_out(self, encoder_out: dict[str, Any], new_order: Tensor) -> dict[str, Any]:
        """Return a new dictionary in which hypothesis i is the old hypothesis ``new_order[i]``."""
        return reorder_encoder_output(encoder_out, BeamOrder(new_order, encoder_out["beam_size"]))

    def max_positions(self) -> int:
        """The largest number of tokens in a source sentence, end of sentence included."""
        return self.max_length


class PluginDecoder(FairseqIncrementalDecoder):
    """The adapter of a ``Decoder``.

    Attributes:
        need_attn: whether to return attention if the caller does not say so (False). fairseq's own
            decoders also have an attribute of this name.
    """

    need_attn = False

    def __init__(self, *arguments, **options):
        super(FairseqDecoder, self).__init__(*arguments, **options)
        # What the constructors of fairseq's classes set, except for the dictionary.
        self.init_incremental_state()
        self.onnx_trace = False
        self.adaptive_softmax = None

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Any] | None = None,
        incremental_state: dict[str, Any] | None = None,
        features_only: bool = False,
        need_attn: bool | None = None,
        **options,
    ) -> tuple[Any, dict[str, list[Tensor | None]]]:
        """Compute the logits of the next target tokens.

        Args:
            prev_output_tokens: R x T indices of the previous target tokens. They are the whole
                prefix in incremental decoding, too.
            encoder_out: the encoder's dictionary.
            incremental_state: fairseq's incremental state, or None. If it is given, only the
                positions that it has not seen are computed.
            features_only: whether to return features instead of logits (False).
            need_attn: whether to return attention weights (default: the attribute ``need_attn``).
            options: passed on to ``decode``.
        Returns:
            Logits R x T x V or features R x T x C, and ``{"attn": [weights R x T x S or None]}``.
        Raises:
            UserError: if a sentence has more tokens than the model has positions for; with
                ``incremental_state``, if the model has the option ``right_to_left``.
        """
        state: State | None = None
        if incremental_state is not None:
            if self.right_to_left:
                raise UserError(
                    "The model predicts the last token first (--right-to-left), which fairseq's "
                    "search does not know: use --task convs2s_translation."
                )
            state = incremental_state.setdefault(STATE_KEY, State())
        need_weights = self.need_attn if need_attn is None else need_attn
        features, attention = self.run(
            prev_output_tokens, encoder_out, state, need_weights, **options
        )
        logits = None if features_only else self.output_layer(features)
        weights = resolve_attention(attention, logits)
        return features if features_only else logits, {"attn": [weights]}

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Any] | None = None,
        incremental_state: dict[str, Any] | None = None,
        **options,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Compute features R x T x C, the input of the output layer; see ``forward``."""
        return self.forward(prev_output_tokens, encoder_out, incremental_state, True, **options)

    def output_layer(self, features: Tensor, **unused) -> Tensor:
        """Compute logits R x T x V from features R x T x C."""
        return self.output(features)

    def reorder_incremental_state(self, incremental_state: dict[str, Any], new_order: Tensor):
        """Make hypothesis i continue the old hypothesis ``new_order[i]``."""
        if STATE_KEY in incremental_state:
            incremental_state[STATE_KEY].reorder_(new_order)

    def reorder_incremental_state_scripting(self, incremental_state, new_order):
        """Do the same; fairseq's generator calls this method instead."""
        self.reorder_incremental_state(incremental_state, new_order)

    def max_positions(self) -> int:
        """The largest number of tokens in a target sentence, end of sentence included."""
        return self.max_length


class PluginModel(FairseqEncoderDecoderModel):
    """The adapter of a ``Network``.

    A family derives its model from this class and its network. Encoder and decoder also become
    adapters, with the names of the network's classes.
    """

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        for attribute, adapter in (
            ("encoder_class", PluginEncoder),
            ("decoder_class", PluginDecoder),
        ):
            inner = getattr(cls, attribute)
            if issubclass(inner, adapter):
                continue
            # Pickle finds the class by its qualified name, fairseq's --retain-dropout-modules by
            # its name.
            names = {
                "__doc__": inner.__doc__,
                "__module__": cls.__module__,
                "__qualname__": f"{cls.__qualname__}.{attribute}",
            }
            setattr(cls, attribute, type(inner.__name__, (adapter, inner), names))

    def __init__(self, *arguments, **options):
        # The constructors of fairseq's classes take an encoder and a decoder, which the network
        # makes itself.
        super(BaseFairseqModel, self).__init__(*arguments, **options)
        compat.enable_all()
        self._is_generation_fast = False

    @classmethod
    def build_model(cls, cfg, task) -> "PluginModel":
        """Build the model.

        Args:
            cfg: the options.
            task: a translation task, for its dictionaries.
        Raises:
            UserError: if an option cannot be read or options contradict each other.
        """
        options = network_options(cls.options_class, cfg)
        keep_definitions(cfg)
        source, target = task.source_dictionary, task.target_dictionary
        check_shared_embeddings(options, cfg, source, target)
        vocabularies = Vocabularies(
            len(source), len(target), target.pad(), target.eos(), target.bos()
        )
        model = cls(options, vocabularies)
        if options.right_to_left and not model.right_to_left:
            raise UserError(
                f"{cls.__name__} does not know --right-to-left: omit the option, or let the "
                "constructor give options.right_to_left to that of Network."
            )
        model.encoder.dictionary, model.decoder.dictionary = source, target
        for part, side in ((model.encoder, "encoder"), (model.decoder, "decoder")):
            if path := getattr(cfg, f"{side}_embed_path", None):
                load_embeddings_(part.embed.words, path, part.dictionary)
        for warning in getattr(getattr(model, "spec", None), "warnings", ()):
            logger.warning(warning)
        return model

    def make_generation_fast_(
        self,
        need_attn: bool = False,
        retain_dropout: bool = False,
        retain_dropout_modules: list[str] | None = None,
        **kwargs,
    ) -> None:
        """Prepare the model for generation; it cannot be trained afterwards.

        fairseq calls this method once before generation.

        Args:
            need_attn: whether to return attention by default (fairseq's ``--print-alignment``).
            retain_dropout: whether to apply dropout (fairseq's ``--retain-dropout``).
            retain_dropout_modules: class names of encoder or decoder to which ``retain_dropout``
                is restricted, such as ``["ConvS2SDecoder"]``; None for both.
        """
        self.decoder.need_attn = need_attn
        names = retain_dropout_modules
        parts = [
            part
            for part in (self.encoder, self.decoder)
            if retain_dropout and (names is None or type(part).__name__ in names)
        ]
        self.keep_dropout_(parts)
        super().make_generation_fast_(**kwargs)
        # fairseq's replacement of ``train`` is a local function, which cannot be pickled.
        self.__dict__.pop("train", None)
        self.prepare_for_generation_()

    def forward(self, src_tokens, src_lengths, prev_output_tokens, **options):
        """As in fairseq: logits B x T x V, and ``{"attn": [weights or None]}``."""
        encoder_out = self.encoder(src_tokens, src_lengths)
        return self.decoder(prev_output_tokens, encoder_out=encoder_out, **options)

    def load_state_dict(self, state_dict: dict[str, Tensor], strict: bool = True, **kwargs):
        """Load weights; see ``Network.load_state_dict``.

        Raises:
            UserError: if ``strict`` and the weights belong to other dictionaries or another
                architecture.
        """
        check_weights(state_dict, "The checkpoint")
        return super().load_state_dict(state_dict, strict, **kwargs)


class OutputLayer(NamedTuple):
    """A linear map from features to logits: weight V x C, and bias V or None."""

    weight: Weight
    bias: Tensor | None

    def logits(self, features: Tensor) -> Tensor:
        """Compute logits ... x V from features ... x C."""
        return linear(features, self.weight, self.bias)


def has_linear_output(decoder: FairseqDecoder) -> bool:
    """Whether the logits of a decoder are one linear map of its features.

    This holds for the decoders of this package, and for fairseq's transformers unless they have an
    adaptive softmax.
    """
    if _is_of_this_package(decoder):
        return True
    is_linear = isinstance(getattr(decoder, "output_projection", None), nn.Linear)
    return is_linear and getattr(decoder, "adaptive_softmax", None) is None


def _is_of_this_package(decoder: FairseqDecoder) -> bool:
    return hasattr(getattr(decoder, "output", None), "weight_and_bias")


def embedding_matrices(model: FairseqEncoderDecoderModel) -> list[nn.Embedding]:
    """The embeddings of source and target tokens, once if they are the same.

    Args:
        model: a model of this package, or one of fairseq.
    Raises:
        UserError: if the model looks up tokens in another way.
    """
    found: list[nn.Embedding] = []
    # Language models have no encoder.
    for part in (getattr(model, "encoder", None), model.decoder):
        embed = getattr(part, "embed_tokens", None) or getattr(
            getattr(part, "embed", None), "words", None
        )
        if not isinstance(embed, nn.Embedding):
            name = type(model if part is None else part).__name__
            raise UserError(
                f"{name} has no matrix of embeddings (embed_tokens) in which "
                "--simcut-weight could cut tokens: use a model of this package, or --rdrop-weight."
            )
        if embed not in found:
            found.append(embed)
    return found


def output_layer_of(decoder: FairseqDecoder, tokens: Tensor | None = None) -> OutputLayer:
    """Return the output layer of a decoder.

    Args:
        decoder: a decoder of this package, or one of fairseq with a linear ``output_projection``.
        tokens: K token indices to restrict the output layer to; None for all V tokens.
    Raises:
        UserError: if the logits of the decoder are not one linear map of its features.
    """
    if _is_of_this_package(decoder):
        return OutputLayer(*decoder.output.weight_and_bias(tokens))
    if not has_linear_output(decoder):
        raise UserError(
            f"{type(decoder).__name__} does not compute logits with one linear layer, which "
            "convs2s_cross_entropy and --lexicon need: use a model of this package or fairseq's "
            "transformer without --adaptive-softmax-cutoff, or fairseq's "
            "--criterion label_smoothed_cross_entropy without --lexicon."
        )
    projection = decoder.output_projection
    if tokens is None:
        return OutputLayer(projection.weight, projection.bias)
    bias = None if projection.bias is None else projection.bias.index_select(0, tokens)
    return OutputLayer(projection.weight.index_select(0, tokens), bias)
