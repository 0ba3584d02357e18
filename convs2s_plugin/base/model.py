"""The encoder-decoder model of all families."""

from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..errors import UserError
from ..nn.dropout import Dropout
from ..nn.weight_norm import fold_weight_norm_


class PluginModel(FairseqEncoderDecoderModel):
    """An encoder and a decoder of this plugin."""

    def make_generation_fast_(
        self,
        need_attn: bool = False,
        retain_dropout: bool = False,
        retain_dropout_modules=None,
        **kwargs,
    ):
        """Fold what training kept apart; fairseq calls this once, before generation.

        Args:
            need_attn: compute attention in every pass (fairseq's ``--print-alignment``).
            retain_dropout: keep dropout (fairseq's ``--retain-dropout``).
            retain_dropout_modules: in these only, e.g. ``["ConvS2SDecoder"]`` (all).
        """
        self.decoder.need_attn = need_attn
        fold_weight_norm_(self)
        for side in (self.encoder, self.decoder):
            kept = retain_dropout_modules is None or type(side).__name__ in retain_dropout_modules
            for module in side.modules():
                if isinstance(module, Dropout):
                    module.always = retain_dropout and kept
        super().make_generation_fast_(**kwargs)

    def load_state_dict(self, state_dict, strict=True, **kwargs):
        """Load weights; those that do not belong here are refused with a sentence.

        Raises:
            UserError: where the dictionaries or the architecture differ from those of training.
        """
        if strict:
            self.check_state_dict(state_dict)
        return super().load_state_dict(state_dict, strict, **kwargs)

    def check_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Refuse weights that do not belong to these dictionaries or to this architecture."""
        for side, words in (("encoder", "source"), ("decoder", "target")):
            key, part = f"{side}.embed.words.weight", getattr(self, side)
            if key in state_dict and len(state_dict[key]) != len(part.dictionary):
                raise UserError(
                    f"The checkpoint was trained with {len(state_dict[key]):,} {words} words, but "
                    f"the {words} dictionary of this data has {len(part.dictionary):,}: use the "
                    "dict.*.txt of its training (fairseq-preprocess --srcdict and --tgtdict)."
                )
        own = self.state_dict()
        missing = sorted(own.keys() - state_dict.keys())
        unknown = sorted(state_dict.keys() - own.keys())
        both = own.keys() & state_dict.keys()
        reshaped = sorted(key for key in both if own[key].shape != state_dict[key].shape)
        if missing or unknown or reshaped:
            raise UserError(
                "The checkpoint's weights are those of another architecture: "
                f"{_some(missing)} missing, {_some(unknown)} unknown, {_some(reshaped)} of "
                "another shape. Use the --arch and options that it was trained with."
            )


def _some(names) -> str:
    return f"{len(names)} ({names[0]}, ...)" if names else "none"
