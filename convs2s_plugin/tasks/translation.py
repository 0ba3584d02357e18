"""``--task convs2s_translation``: fairseq's translation task with options for all families."""

from dataclasses import dataclass
from typing import Optional

from fairseq.data.indexed_dataset import IndexedRawTextDataset
from fairseq.dataclass import ChoiceEnum
from fairseq.optim import FairseqOptimizer
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer, MemoryEfficientFP16Optimizer
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from convs2s.common.errors import UserError
from convs2s.common.lines import as_sentence
from convs2s.models.options import checked_values, option
from convs2s.nn.gradient import ignored_batch
from convs2s.text.lexicon.files import read_translations
from convs2s.text.symbols import escape
from convs2s.translation.options import AUTOCAST_DTYPES
from convs2s.translation.precision import Precision
from convs2s.translation.shortlist import load_shortlist

from ..compat import enable_for_task
from ..compat.generation import REPLACE_UNK_WITHOUT_FILE, check_options
from ..compat.patches import VARIABLE, mode
from ..compat.starting import TWICE
from ..compat.training import ReportsValidations
from ..criterions import ConvS2SCrossEntropy
from ..search.decoding import search_model
from ..search.generator import TranslationGenerator
from ..search.unknown_words import UnknownWords, appending
from ..search.word_alignment import ReferenceScorer
from .batches import BatchingDataset, filter_pairs


@dataclass
class ConvS2STranslationConfig(TranslationConfig):
    """The options of fairseq's translation task, and those of this package."""

    autocast_dtype: ChoiceEnum(AUTOCAST_DTYPES) = option(  # type: ignore[valid-type]
        "none",
        "train, validate and generate under torch.autocast with this dtype; weights "
        "and optimizer stay in single precision, and so does everything on a CPU without "
        "instructions for the dtype",
    )
    int8: bool = option(False, "generate with weights in 8 bits, on a CPU with VNNI or AMX")
    max_train_words: Optional[int] = option(
        None, "remove training pairs with more tokens than this on either side (ConvS2S: 175)"
    )
    max_length_ratio: Optional[float] = option(
        None,
        "remove training pairs if one side is more than this many times as long as the other "
        "(ConvS2S: 1.5)",
    )
    equal_length_batches: bool = option(
        False, "validate and generate in batches whose sources have the same length"
    )
    max_cells: Optional[int] = option(
        None,
        "largest number of cells in a batch, sentences x longest source x longest "
        "target; the memory of pervasive attention grows with it (--max-tokens counts one "
        "side)",
    )
    lexicon: Optional[str] = option(
        None,
        "file with lines 'source target probability', as `convs2s lexicon` writes it: "
        "restrict the target vocabulary of each batch to candidates",
    )
    candidates_per_word: int = option(
        20, "with --lexicon: number of most probable translations to keep of each source token"
    )
    frequent_candidates: int = option(
        500, "with --lexicon: number of most frequent target tokens to add to the candidates"
    )


@register_task("convs2s_translation", dataclass=ConvS2STranslationConfig)
class ConvS2STranslationTask(ReportsValidations, TranslationTask):
    """Translation from one language to another."""

    def __init__(self, cfg: ConvS2STranslationConfig, src_dict, tgt_dict):
        checked_values(ConvS2STranslationConfig, lambda name: getattr(cfg, name, None))
        super().__init__(cfg, src_dict, tgt_dict)
        if cfg.max_cells is not None and cfg.max_cells < 1:
            raise UserError(f"--max-cells is {cfg.max_cells}, but must be at least 1.")
        self.precision = Precision(str(cfg.autocast_dtype), cfg.int8, emulate=False)
        self.shortlist = load_shortlist(cfg, src_dict, tgt_dict)
        # The dictionaries may grow: unknown words of a text are appended to them.
        self.source_vocab_size, self.target_vocab_size = len(src_dict), len(tgt_dict)
        self.keep_unknown_words = False
        self.alignment: str | None = None

    @classmethod
    def setup_task(cls, cfg: ConvS2STranslationConfig, **options):
        """Load the dictionaries, and change fairseq for the task (``compat.enable_for_task``)."""
        enable_for_task()
        return super().setup_task(cfg, **options)

    def load_dataset(self, split, *arguments, **options):
        """Load a split; ``--equal-length-batches`` does not apply to the training set.

        The batches of the previous one, another part of the data, are forgotten.
        """
        self.dataset_to_epoch_iter.pop(self.datasets.get(split), None)
        super().load_dataset(split, *arguments, **options)
        equal = self.cfg.equal_length_batches and split != self.cfg.train_subset
        self.datasets[split] = self._constrain_batches(self.datasets[split], equal)

    def _constrain_batches(self, dataset, equal_lengths: bool):
        """Apply the constraints on batches that the options give."""
        if not equal_lengths and self.cfg.max_cells is None:
            return dataset
        return BatchingDataset.wrap(dataset, equal_lengths, self.cfg.max_cells)

    def build_dataset_for_inference(self, *arguments, **options):
        """Make a dataset of sentences without translations."""
        dataset = super().build_dataset_for_inference(*arguments, **options)
        return self._constrain_batches(dataset, self.cfg.equal_length_batches)

    def filter_indices_by_size(
        self, indices, dataset, max_positions=None, ignore_invalid_inputs=False
    ):
        """Remove pairs that are too long, or that the options exclude from the training set."""
        if dataset is self.datasets.get(self.cfg.train_subset):
            limits = self.cfg.max_train_words, self.cfg.max_length_ratio
            indices = filter_pairs(dataset, indices, *limits)
        elif ignore_invalid_inputs and self.cfg.max_cells and dataset.tgt_sizes is not None:
            indices = dataset.remove_large_pairs(indices)
        return super().filter_indices_by_size(
            indices, dataset, max_positions, ignore_invalid_inputs
        )

    def build_criterion(self, cfg, *more, **options):
        """Build the criterion.

        Raises:
            UserError: if there are candidates, but the criterion does not use them, or with --int8.
        """
        if self.cfg.int8:
            raise UserError(
                "--int8 is for generation: omit it here, and give it to fairseq-generate, "
                "fairseq-interactive or `convs2s translate`."
            )
        criterion = super().build_criterion(cfg, *more, **options)
        if self.shortlist is not None and not isinstance(criterion, ConvS2SCrossEntropy):
            raise UserError(
                "With --lexicon, only --criterion convs2s_cross_entropy and convs2s_sequence_risk "
                "train on candidates: use one of them, or omit --lexicon for training."
            )
        return criterion

    def _with_candidates(self, sample):
        if self.shortlist is None:
            return sample
        candidates = self.shortlist(sample["net_input"]["src_tokens"], sample["target"])
        return {**sample, "candidates": candidates}

    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False):
        """Run a forward pass under ``--autocast-dtype``, and the backward pass."""
        self._check_precision(optimizer)

        def compute_loss(model, sample):
            with self.precision.autocast(model):
                return criterion(model, self._with_candidates(sample))

        with ignored_batch(ignore_grad):
            return super().train_step(
                sample, model, compute_loss, optimizer, update_num, ignore_grad
            )

    def valid_step(self, sample, model, criterion):
        """Compute the loss, and BLEU with ``--eval-bleu``, under ``--autocast-dtype``."""
        with self.precision.autocast(model):
            return super().valid_step(self._with_candidates(sample), model, criterion)

    def inference_step(self, generator, models, sample, *arguments, **options):
        """Translate a batch under ``--autocast-dtype``."""
        with self.precision.autocast(models[0]):
            return super().inference_step(generator, models, sample, *arguments, **options)

    def _check_precision(self, optimizer: FairseqOptimizer) -> None:
        """Check that fairseq's own half precision is not used at the same time.

        Raises:
            UserError: if it is.
        """
        half_precision = (AMPOptimizer, FP16Optimizer, MemoryEfficientFP16Optimizer)
        if self.precision.dtype is not None and isinstance(optimizer, half_precision):
            raise UserError(TWICE)

    def prepare_(self, models) -> None:
        """Cast or quantize the models that are prepared for inference."""
        for model in models:
            if getattr(model, "_is_generation_fast", False):
                self.precision.prepare_(model, search_model(model).output_weights())

    def build_generator(
        self,
        models,
        args,
        seq_gen_cls=None,
        extra_gen_cls_kwargs=None,
        prefix_allowed_tokens_fn=None,
    ):
        """Build the generator, and prepare the models.

        Raises:
            UserError: if options cannot be combined.
        """
        self.prepare_(models)
        score_reference = getattr(args, "score_reference", False)
        full_context = any(getattr(model, "full_context_alignment", False) for model in models)
        if self.shortlist is not None:
            for given, name in (
                (score_reference, "--score-reference"),
                (full_context, "--full-context-alignment"),
                (prefix_allowed_tokens_fn, "prefix_allowed_tokens_fn"),
            ):
                if given:
                    raise UserError(
                        f"{name} needs the whole vocabulary, but --lexicon restricts it to the "
                        "candidates of a batch: omit one of them."
                    )
        self.alignment = getattr(args, "print_alignment", None) or None
        if score_reference:
            check_options(self, args)
            return ReferenceScorer(self.tgt_dict, self.alignment)
        if seq_gen_cls is None and not full_context:
            seq_gen_cls = TranslationGenerator
            extra_gen_cls_kwargs = {
                **(extra_gen_cls_kwargs or {}),
                "vocab_size": self.target_vocab_size,
                "shortlist": self.shortlist,
                "alignment": self.alignment,
                "unknown_words": self._unknown_words(getattr(args, "replace_unk", None)),
            }
        return super().build_generator(
            models, args, seq_gen_cls, extra_gen_cls_kwargs, prefix_allowed_tokens_fn
        )

    def _unknown_words(self, replace_unk) -> UnknownWords | None:
        """The replacement of unknown words for ``--replace-unk [FILE]``."""
        if replace_unk is None or replace_unk is False:
            return None
        if mode() == "0":
            raise UserError(
                f"--replace-unk of --task convs2s_translation changes fairseq, which {VARIABLE}=0 "
                "forbids: unset the variable, or use --task translation."
            )
        path = replace_unk if replace_unk not in REPLACE_UNK_WITHOUT_FILE else None
        path = path or self.cfg.lexicon
        self.keep_unknown_words = True
        for dataset in self.datasets.values():
            _keep_unknown_words(dataset.src, self.src_dict)
            _keep_unknown_words(dataset.tgt, self.tgt_dict)
        return UnknownWords(
            self.src_dict,
            self.tgt_dict,
            (self.source_vocab_size, self.target_vocab_size),
            read_translations(path) if path else {},
        )

    def get_interactive_tokens_and_lengths(self, lines, encode_fn):
        """Encode lines; with ``--replace-unk``, unknown words are appended to the dictionary.

        Words with the names of symbols do not become symbols; see ``text.symbols``.

        Raises:
            UserError: with ``--print-alignment soft``, which fairseq-interactive cannot print.
        """
        if self.alignment == "soft":
            raise UserError(
                "fairseq-interactive prints only hard alignments: use --print-alignment hard, or "
                "fairseq-generate for soft ones."
            )

        def encode(line):
            return escape(encode_fn(as_sentence(line)))

        if not self.keep_unknown_words:
            return super().get_interactive_tokens_and_lengths(lines, encode)
        with appending:
            tokens = [
                self.src_dict.encode_line(encode(line), add_if_not_exist=True).long()
                for line in lines
            ]
        return tokens, [len(sentence) for sentence in tokens]


def _keep_unknown_words(text, dictionary) -> None:
    """Encode raw text once more, and append its unknown words to the dictionary."""
    if isinstance(text, IndexedRawTextDataset):
        text.tokens_list = [
            dictionary.encode_line(
                line,
                add_if_not_exist=True,
                append_eos=text.append_eos,
                reverse_order=text.reverse_order,
            ).long()
            for line in text.lines
        ]
        type(text).__getitem__.cache_clear()
