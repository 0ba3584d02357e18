"""What the fairseq adapters of all families share: state, folding, embeddings, refusals."""

from typing import Any, Dict, Optional, Tuple

from fairseq import utils
from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from torch import Tensor, nn

from ..errors import UserError
from ..modules.dropout import Dropout
from ..modules.embedding import Embedding, word_embedding
from ..modules.state import State, child, reorder_source
from ..modules.weight_norm import fold_weight_norm_

STATE_KEY = "convs2s_plugin"
DEFAULT_MAX_POSITIONS = 1024


class PluginEncoder(FairseqEncoder):
    """An encoder whose output is shared by the hypotheses of a beam (see modules/state.py).

    Args:
        dictionary: of the source.
        embed: its word vectors.
        longest: words in the longest source, end of sentence included.
    """

    def __init__(self, dictionary, embed: Embedding, longest: int):
        super().__init__(dictionary)
        self.embed = embed
        self.longest = longest

    def max_positions(self) -> int:
        """Words in the longest source, end of sentence included."""
        return self.longest

    def reorder_encoder_out(self, encoder_out: Dict[str, Any], new_order: Tensor) -> Dict[str, Any]:
        """A new dictionary whose row i is hypothesis ``new_order[i]``; the argument stays."""
        return reorder_source(encoder_out, new_order)


class PluginDecoder(FairseqIncrementalDecoder):
    """A decoder that keeps all that it remembers in one State.

    Its ``output`` makes scores of features, and tells ``weight_and_bias`` (modules/output.py).

    Args:
        dictionary: of the target.
        embed: its word vectors.
        longest: words in the longest target, end of sentence included.

    Attributes:
        aligns_words: whether attention is that of a word, which ``words`` can choose, and not of
            a position whatever its word is (False).
    """

    aligns_words = False

    def __init__(self, dictionary, embed: Embedding, longest: int):
        super().__init__(dictionary)
        self.embed = embed
        self.longest = longest

    def max_positions(self) -> int:
        """Words in the longest target, end of sentence included."""
        return self.longest

    def forward(
        self,
        prev_output_tokens,
        encoder_out=None,
        incremental_state=None,
        features_only=False,
        **kwargs,
    ):
        """Scores of the next words, B x T x V, and ``{"attn": [B x T x S or None]}``.

        With an incremental state, ``prev_output_tokens`` still holds the whole prefix, and only
        the positions that have not been seen are computed. With ``features_only``, features
        B x T x E' come instead of scores.
        """
        features, extra = self.extract_features(
            prev_output_tokens,
            encoder_out=encoder_out,
            incremental_state=incremental_state,
            **kwargs,
        )
        if features_only:
            return features, extra
        return self.output_layer(features, state=self.state(incremental_state)), extra

    def output_layer(self, features: Tensor, state: Optional[State] = None, **unused) -> Tensor:
        """Scores B x T x V of features B x T x C."""
        return self.output(features, child(state, "output"))

    @staticmethod
    def state(incremental_state: Optional[Dict[str, Any]]) -> Optional[State]:
        """The State inside fairseq's incremental state, or None outside of generation."""
        if incremental_state is None:
            return None
        return incremental_state.setdefault(STATE_KEY, State())

    def reorder_incremental_state(self, incremental_state: Dict[str, Any], new_order: Tensor):
        """Let row i of everything remembered be what row ``new_order[i]`` was."""
        if STATE_KEY in incremental_state:
            incremental_state[STATE_KEY].reorder_(new_order)

    def reorder_incremental_state_scripting(self, incremental_state, new_order):
        """As above; no part of a decoder keeps state elsewhere."""
        self.reorder_incremental_state(incremental_state, new_order)


class PluginModel(FairseqEncoderDecoderModel):
    """An encoder and a decoder of this plugin."""

    def make_generation_fast_(
        self, retain_dropout: bool = False, retain_dropout_modules=None, **kwargs
    ):
        """Fold what training kept apart; fairseq calls this once, before generation.

        Args:
            retain_dropout: keep dropout (fairseq's ``--retain-dropout``).
            retain_dropout_modules: in these only, e.g. ``["ConvS2SDecoder"]`` (all).
        """
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

    def check_state_dict(self, state_dict: Dict[str, Tensor]) -> None:
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


def check_sharing(cfg, task) -> None:
    """Refuse one table of words for both languages where it cannot be.

    Args:
        cfg: a model's options.
        task: has the dictionaries.
    Raises:
        UserError: where dictionaries or files of vectors differ.
    """
    if cfg.share_all_embeddings and task.source_dictionary != task.target_dictionary:
        raise UserError(
            "--share-all-embeddings needs one dictionary for both languages: "
            "preprocess the data with fairseq-preprocess --joined-dictionary."
        )
    if cfg.share_all_embeddings and cfg.decoder_embed_path not in (None, cfg.encoder_embed_path):
        raise UserError(
            "--share-all-embeddings has one table for both languages, but --encoder-embed-path "
            "and --decoder-embed-path differ: leave out --decoder-embed-path."
        )


def build_word_embedding(
    dictionary, embed_dim: int, path: Optional[str], std: float = 0.1
) -> nn.Embedding:
    """The table of word vectors of a dictionary, with vectors from a file where one is given.

    Args:
        dictionary: fairseq's, with V words.
        embed_dim: E.
        path: a text file of pre-trained vectors (fairseq's format: a header, then a word and its
            numbers a line), or None.
        std: standard deviation of the random values (0.1).
    Raises:
        UserError: where the file cannot be read or its vectors are not E wide.
    """
    table = word_embedding(len(dictionary), embed_dim, dictionary.pad(), std)
    if not path:
        return table
    try:
        vectors = utils.parse_embedding(path)
    except (OSError, ValueError, StopIteration) as error:
        reason = str(error) or "it is empty"
        raise UserError(f"The word vectors in {path} cannot be read: {reason}.") from error
    for word, vector in vectors.items():
        if len(vector) != embed_dim:
            raise UserError(
                f"The vector of '{word}' in {path} has {len(vector)} numbers, not {embed_dim}."
            )
    utils.print_embed_overlap(vectors, dictionary)
    return utils.load_embedding(vectors, dictionary, table)


def word_tables(
    cfg, task, source_dim: int, target_dim: int, std: float = 0.1
) -> Tuple[nn.Embedding, nn.Embedding]:
    """The tables of source and of target, which are one where ``share_all_embeddings`` says so.

    Args:
        cfg: options of ``options.WordsConfig``.
        task: has the dictionaries.
        source_dim, target_dim: channels of the vectors.
        std: standard deviation of the random values (0.1).
    """
    source = build_word_embedding(task.source_dictionary, source_dim, cfg.encoder_embed_path, std)
    if cfg.share_all_embeddings:
        return source, source
    return source, build_word_embedding(
        task.target_dictionary, target_dim, cfg.decoder_embed_path, std
    )


def max_positions(value: Any) -> int:
    """A limit on positions from a configuration, where it may still be an interpolation."""
    return value if isinstance(value, int) else DEFAULT_MAX_POSITIONS
