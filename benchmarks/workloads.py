"""The workloads that are measured: training steps and beam search."""

import tempfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import torch
from fairseq.criterions import FairseqCriterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.models import BaseFairseqModel
from fairseq.sequence_generator import SequenceGenerator

from convs2s.checkpoints.export.onnx_files import write_graphs
from convs2s.common.errors import UserError
from convs2s.translation.compiled import CompiledModel
from convs2s.translation.decoding import Model
from convs2s.translation.shortlist import Shortlist
from convs2s_plugin.criterions import ConvS2SCrossEntropy, ConvS2SSequenceRisk
from convs2s_plugin.criterions.sequence_risk import ConvS2SSequenceRiskConfig
from convs2s_plugin.criterions.sequences.search import CandidateSearch
from convs2s_plugin.models import PluginModel
from convs2s_plugin.search.decoding import search_model
from convs2s_plugin.search.generator import TranslationGenerator

from . import ctranslate2_peer
from .sentences import Sentences, sentences
from .setting import CTRANSLATE2, ONNXRUNTIME, Setting, build
from .workload import Workload

LABEL_SMOOTHING = 0.1
# Candidates of each sentence in sequence-level training.
SEQUENCE_CANDIDATES = 8
# The first two compute the same loss.
CRITERIA = {
    "convs2s_cross_entropy": ConvS2SCrossEntropy,
    "label_smoothed_cross_entropy": LabelSmoothedCrossEntropyCriterion,
    "convs2s_sequence_risk": ConvS2SSequenceRisk,
}


def training(setting: Setting) -> Workload:
    """Training steps without the optimizer: forward pass, loss and backward pass."""
    data = sentences(setting, "train")
    if setting.dtype == "int8":
        raise UserError("Models cannot be trained in int8: choose another --dtype.")
    model = build(setting, data.source, data.target).train()
    if setting.dtype == "half":
        model.half()
    precision = setting.precision
    default = (
        "convs2s_cross_entropy"
        if isinstance(model, PluginModel)
        else "label_smoothed_cross_entropy"
    )
    criterion = build_criterion(setting.criterion or default, data)

    def steps(batches: list[dict]) -> Callable[[], None]:
        def run_steps() -> None:
            for batch in batches:
                model.zero_grad()
                with precision.autocast(model):
                    loss, _, _ = criterion(model, batch)
                loss.backward()

        return run_steps

    return Workload(steps(data.tiny), steps(data.batches), _count_parameters(model))


def build_criterion(name: str, data: Sentences) -> FairseqCriterion:
    """A criterion with label smoothing; that of sentences searches for its candidates."""
    task = Namespace(source_dictionary=data.source, target_dictionary=data.target)
    if name != "convs2s_sequence_risk":
        return CRITERIA[name](task, sentence_avg=False, label_smoothing=LABEL_SMOOTHING)
    criterion = ConvS2SSequenceRisk(
        task,
        ConvS2SSequenceRiskConfig(
            sentence_avg=False,
            label_smoothing=LABEL_SMOOTHING,
            sequence_candidates=SEQUENCE_CANDIDATES,
        ),
    )
    criterion.search = SearchOfLength(data.target)
    return criterion


def generation(setting: Setting) -> Workload:
    """Beam search without attention weights; hypotheses are as long as the batch's longest source.

    Raises:
        UserError: if ``setting.candidates`` exceeds the vocabulary size, or the model of a peer
            cannot compute in int8.
    """
    if setting.engine == CTRANSLATE2:
        return ctranslate2_peer.generation(setting)
    data = sentences(setting, "test")
    model = build(setting, data.source, data.target).eval()
    model.make_generation_fast_(beamable_mm_beam_size=setting.beam, need_attn=False)
    if setting.dtype == "half":
        model.half()
    precision = setting.precision
    precision.prepare_(model)
    generator_class, options = generator_of(model, data.target)
    if setting.candidates is not None:
        generator_class = TranslationGenerator
        shortlist = frequent_candidates(len(data.source), len(data.target), setting.candidates)
        options = {"vocab_size": len(data.target), "shortlist": shortlist}
    decoded = compiled(model) if setting.engine == ONNXRUNTIME else None
    tiny, batches = (
        searches(model, data.target, some, setting, generator_class, options, decoded)
        for some in (data.tiny, data.batches)
    )
    return Workload(tiny, batches, _count_parameters(model))


def compiled(model: PluginModel) -> CompiledModel:
    """A model as `convs2s compile` makes it, which ONNX Runtime computes from its first sentence.

    Raises:
        UserError: if it cannot be exported, or a package is not installed.
    """
    network = search_model(model).module
    with tempfile.TemporaryDirectory() as folder:
        write_graphs(network, Path(folder), {}, output=False)
        found = CompiledModel(network, Path(folder), worth_it=0)
        found.graphs()
    return found


def searches(
    model: BaseFairseqModel,
    target: Dictionary,
    batches: list[dict],
    setting: Setting,
    generator_class: type,
    options: dict[str, object],
    decoded: Model | None = None,
) -> Callable[[], list]:
    """A function that translates all batches, each into hypotheses of one length.

    Args:
        model, target: a model in evaluation mode, and its target dictionary.
        batches: every hypothesis is as long as the longest source of its batch.
        setting: beam size and precision.
        generator_class, options: the generator, and its options beyond lengths and beam.
        decoded: what takes the place of the model in the search of this package.
    """
    prepared = []
    for batch in batches:
        length = batch["net_input"]["src_tokens"].size(1) - 1
        generator = generator_class(
            [model],
            target,
            beam_size=setting.beam,
            min_len=length,
            max_len_b=length,
            **options,
        )
        if decoded is not None:
            generator.translation_models = [decoded]
        prepared.append((generator, batch))

    def run_searches() -> list:
        with setting.precision.autocast(model):
            return [generator.generate([model], batch) for generator, batch in prepared]

    return run_searches


def generator_of(model: BaseFairseqModel, target: Dictionary) -> tuple[type, dict[str, object]]:
    """The generator that a user gets, with its options: ours for our models, or else fairseq's."""
    if isinstance(model, PluginModel):
        return TranslationGenerator, {"vocab_size": len(target)}
    return SequenceGenerator, {}


class SearchOfLength(CandidateSearch):
    """A search whose candidates are as long as the references, although the model is not trained.

    Args:
        dictionary: target dictionary.
    """

    def __init__(self, dictionary: Dictionary):
        super().__init__(None, SEQUENCE_CANDIDATES, sampling=False, dropout=False)
        self.dictionary = dictionary

    def _search(self, model, sample, sampling):
        length = sample["target"].size(1) - 1
        if length not in self._generators:
            self._generators[length] = TranslationGenerator(
                [model],
                self.dictionary,
                vocab_size=len(self.dictionary),
                beam_size=self.number,
                min_len=length,
                max_len_b=length,
            )
        return self._generators[length].generate([model], sample)


def sequence_training(setting: Setting) -> Workload:
    """Updates on candidates of sentences; with another criterion, one update for each candidate."""
    workload = training(setting)
    if setting.criterion == "convs2s_sequence_risk":
        return workload

    def run_updates() -> None:
        for _ in range(SEQUENCE_CANDIDATES):
            workload.run()

    return workload._replace(run=run_updates)


WORKLOADS = {"train": training, "generate": generation, "sequence": sequence_training}


def frequent_candidates(source_vocab: int, target_vocab: int, number: int) -> Shortlist:
    """Candidates like those of a lexicon, but the same frequent target tokens for every batch.

    Args:
        source_vocab, target_vocab: vocabulary sizes.
        number: number of candidates.
    Raises:
        UserError: if ``number`` exceeds the target vocabulary.
    """
    if number > target_vocab:
        raise UserError(
            f"--candidates is {number}, but the vocabulary size is {target_vocab:,}: choose fewer."
        )
    # All source tokens share one candidate, which is itself among the most frequent tokens.
    lexicon = torch.zeros(source_vocab, 1, dtype=torch.long)
    return Shortlist(lexicon, torch.arange(target_vocab), number)


def _count_parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
