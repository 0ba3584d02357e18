"""The base class of all encoder-decoder models."""

from importlib import import_module
from typing import Any

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ...checkpoints.files import check_weights
from ...common.errors import UserError
from ...nn.attention_maps import AttentionMaps
from ...nn.dropout import Dropout
from ...nn.int8 import SUFFIX, dequantize_weights_, is_quantized, quantize_weights_
from ...nn.weight_norm import fold_weight_norm_
from .scripting import NotScriptable


class PluginModel(NotScriptable, FairseqEncoderDecoderModel):
    """An encoder-decoder model; a family defines ``build_model(cfg, task)``.

    The encoder is a ``PluginEncoder`` and the decoder a ``PluginDecoder``.

    Attributes:
        quantized: whether the weights of linear maps, convolutions and embeddings are in 8 bits.
    """

    quantized = False

    def __init__(self, encoder, decoder):
        super().__init__(encoder, decoder)
        # The plugin needs the models.
        import_module("convs2s_plugin.compat").enable_all()

    @classmethod
    def hub_models(cls) -> dict[str, Any]:
        """Names of published models, for ``from_pretrained``: there are none.

        A subclass may name models of its own: name -> folder or address, or a dictionary with
        ``path`` and further arguments of ``from_pretrained``.
        """
        return {}

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str,
        checkpoint_file: str | None = None,
        data_name_or_path: str | None = None,
        **options: Any,
    ):
        """Load a trained model that translates text.

            model = ConvS2SModel.from_pretrained("prepared/checkpoints")
            model.translate("Zwei Hunde rennen.", beam=5)

        Args:
            model_name_or_path: the folder of a training, or that of ``convs2s prepare`` above it,
                or a checkpoint, or a name of ``hub_models``.
            checkpoint_file, data_name_or_path, options: see ``translation.hub.from_pretrained``.
        Returns:
            A ``HubInterface``, with the methods of fairseq's GeneratorHubInterface.
        Raises:
            UserError: if a file cannot be read or does not fit, or an option is not allowed.
        """
        # Only this method needs it, and it needs the tasks, which need the models.
        from ...translation.hub import from_pretrained

        named = cls.hub_models().get(str(model_name_or_path), model_name_or_path)
        if isinstance(named, dict):
            options = {**named, **options}
            named = options.pop("path")
            checkpoint_file = options.pop("checkpoint_file", checkpoint_file)
        return from_pretrained(named, checkpoint_file, data_name_or_path, model=cls, **options)

    def make_generation_fast_(
        self,
        need_attn: bool = False,
        retain_dropout: bool = False,
        retain_dropout_modules: list[str] | None = None,
        **kwargs,
    ) -> None:
        """Prepare the model for generation; it cannot be trained afterwards.

        fairseq calls this method once before generation. It replaces weight-normalized weights by
        plain ones. The model can still be copied and pickled.

        Args:
            need_attn: whether to return attention by default (fairseq's ``--print-alignment``).
            retain_dropout: whether to apply dropout (fairseq's ``--retain-dropout``).
            retain_dropout_modules: class names of encoder or decoder to which ``retain_dropout``
                is restricted, such as ``["ConvS2SDecoder"]``; None for both.
        """
        self.decoder.need_attn = need_attn
        fold_weight_norm_(self)
        for side in (self.encoder, self.decoder):
            selected = (
                retain_dropout_modules is None or type(side).__name__ in retain_dropout_modules
            )
            for module in side.modules():
                if isinstance(module, Dropout):
                    module.always = retain_dropout and selected
        super().make_generation_fast_(**kwargs)
        # fairseq's replacement of ``train`` is a local function, which cannot be pickled.
        self.__dict__.pop("train", None)

    def quantize_(self) -> None:
        """Replace weights by weights in 8 bits (``nn.int8``); the model cannot be trained then."""
        fold_weight_norm_(self)
        quantize_weights_(self)
        self.quantized = True

    def dequantize_(self) -> None:
        """Compute in single precision with the rounded weights, which are not in 8 bits then."""
        dequantize_weights_(self)

    def train(self, mode: bool = True):
        """Change to training or evaluation mode.

        Raises:
            UserError: if the model is quantized and ``mode`` is true.
            RuntimeError: if the model is prepared for generation and ``mode`` is true.
        """
        if mode and self.quantized:
            raise UserError(
                "A model in int8 cannot be trained: continue from the checkpoint that `convs2s "
                "quantize` has read."
            )
        if mode and self._is_generation_fast:
            raise RuntimeError("A model cannot train after make_generation_fast_.")
        return super().train(mode)

    @torch.no_grad()
    def attention_maps(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        target_tokens: Tensor | None = None,
    ) -> AttentionMaps:
        """Compute the attention weights of every layer and head, in evaluation mode.

        Their mean over the heads and layers that attend to the source (``AttentionMaps.mean``) is
        the attention that ``forward`` returns, unless ``--alignment-layer`` or
        ``--alignment-heads`` was given in training. fairseq's ``transformer_align`` has these
        options too, but without them returns the last layer, not the mean. Maps and their mean do
        not depend on them.

        Args:
            src_tokens: B x S token indices.
            src_lengths: B, or None.
            prev_output_tokens: B x T indices of the previous target tokens.
            target_tokens: B x T, the target tokens. They matter only if the attention of a
                position depends on the token there, as in pervasive attention; None for the most
                probable token at each position.
        Returns:
            The weights of each layer; none of them attends to the source if no layer does.
        """
        maps = AttentionMaps()
        modes = {module: module.training for module in self.modules()}
        self.eval()
        try:
            encoder_out = self.encoder(src_tokens, src_lengths, attention_maps=maps)
            aligned = {"target_tokens": target_tokens} if self.decoder.aligns_tokens else {}
            self.decoder(
                prev_output_tokens,
                encoder_out=encoder_out,
                features_only=True,
                attention_maps=maps,
                **aligned,
            )
        finally:
            for module, training in modes.items():
                module.training = training
        return maps

    def load_state_dict(self, state_dict: dict[str, Tensor], strict: bool = True, **kwargs):
        """Load weights; those of a quantized model quantize this model, too.

        Raises:
            UserError: if ``strict`` and the weights are those of other dictionaries or of another
                architecture.
        """
        check_weights(state_dict, "The checkpoint")
        if is_quantized(state_dict) and not self.quantized:
            self.quantize_()
        if strict:
            self.check_state_dict(state_dict)
        return super().load_state_dict(state_dict, strict, **kwargs)

    def check_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Check that weights have the names and shapes of this model.

        Raises:
            UserError: if they do not.
        """
        for side, language in (("encoder", "source"), ("decoder", "target")):
            key, dictionary = f"{side}.embed.words.weight", getattr(self, side).dictionary
            key += SUFFIX if is_quantized(state_dict) else ""
            found = state_dict.get(key)
            if found is not None and found.dim() and len(found) != len(dictionary):
                raise UserError(
                    f"The checkpoint was trained with a {language} vocabulary of "
                    f"{len(found):,} tokens, but the {language} dictionary of this data "
                    f"has {len(dictionary):,}: use the dict.*.txt of its training data "
                    "(fairseq-preprocess --srcdict and --tgtdict)."
                )
        own = self.state_dict()
        missing = sorted(own.keys() - state_dict.keys())
        unexpected = sorted(state_dict.keys() - own.keys())
        common = own.keys() & state_dict.keys()
        reshaped = sorted(key for key in common if own[key].shape != state_dict[key].shape)
        if missing or unexpected or reshaped:
            raise UserError(
                "The weights of the checkpoint are those of another architecture: "
                f"{_count(missing)} missing, {_count(unexpected)} unexpected, {_count(reshaped)} "
                "of another shape. Use the --arch and options that it was trained with."
            )


def _count(names: list[str]) -> str:
    """The number of names, with the first one as an example."""
    return f"{len(names)} ({names[0]}, ...)" if names else "none"
