"""Beam search of CTranslate2, as a peer.

It runs fairseq's transformers. The network is written as a fairseq checkpoint and converted
by CTranslate2's own converter; the sentences, the beam and the lengths are those of our side.
"""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary

from .ctranslate2_engine import Engine, Search, check_installed
from .sentences import Sentences, sentences
from .setting import Setting, build, model_options
from .workload import Workload

LANGUAGES = "de", "en"


def generation(setting: Setting) -> Workload:
    """Beam search by CTranslate2; hypotheses are as long as the batch's longest source.

    Args:
        setting: a fairseq transformer, with ``dtype`` float32 or int8.
    Raises:
        UserError: if ctranslate2 is not installed.
    """
    check_installed()
    data = sentences(setting, "test")
    model = build(setting, data.source, data.target).eval()

    def search(batches: list[dict]) -> Search:
        prepared = [lines(batch, data.source) for batch in batches]
        lengths = [max(map(len, batch)) for batch in prepared]
        options = [
            {
                "beam_size": setting.beam,
                "max_batch_size": 0,
                "min_decoding_length": length,
                "max_decoding_length": length,
            }
            for length in lengths
        ]
        return Search(prepared, options)

    searches = {"tiny": search(data.tiny), "batches": search(data.batches)}
    with tempfile.TemporaryDirectory() as folder:
        converted = str(Path(folder, "converted"))
        convert(Path(folder), converted, setting, model, data)
        engine = Engine(converted, setting.dtype, searches)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Workload(*(partial(engine.run, name) for name in searches), parameters)


def prepare(
    folder: str, sources: list[list[str]], options: dict[str, Any], sizes: Iterable[int]
) -> dict[int, Callable[[], list[list[str]]]]:
    """Tokens of a batch -> a function that translates all sentences with a converted model.

    Args:
        folder: written by a converter of CTranslate2; its weights give the type to compute in.
        sources: the tokens of each sentence.
        options: those of ``translate_batch``, without the size of a batch.
        sizes: the largest numbers of source tokens in a batch.
    Raises:
        UserError: if ctranslate2 is not installed, or the folder has no model.
    """
    in_tokens = {**options, "batch_type": "tokens"}
    searches = {
        str(size): Search([sources], [{**in_tokens, "max_batch_size": size}]) for size in sizes
    }
    engine = Engine(folder, "default", searches, threads=1, batches=torch.get_num_threads())
    return {int(size): partial(engine.run, size) for size in searches}


def prepare_single(
    folder: str, sources: list[list[str]], options: Mapping[int, Sequence[dict[str, Any]]]
) -> dict[int, dict[int, Callable[[], list[list[str]]]]]:
    """Beam size, threads -> a function that translates one sentence at a time.

    Args:
        folder, sources: as for ``prepare``.
        options: for each beam size, those of ``translate_batch`` for each sentence.
    Raises:
        UserError: as for ``prepare``.
    """
    searches = {
        str(beam): Search([[tokens] for tokens in sources], each) for beam, each in options.items()
    }
    engines = {
        threads: Engine(folder, "default", searches, threads)
        for threads in {1, torch.get_num_threads()}
    }
    return {
        beam: {threads: partial(engine.run, str(beam)) for threads, engine in engines.items()}
        for beam in options
    }


def convert(
    folder: Path, output: str, setting: Setting, model: torch.nn.Module, data: Sentences
) -> None:
    """Convert a model as a user does, by way of a checkpoint in ``folder``."""
    from ctranslate2 import converters

    write_checkpoint(folder, setting, model, data)
    converter = converters.FairseqConverter(
        str(folder / "model.pt"), str(folder), *LANGUAGES, unsafe_deserialization=True
    )
    converter.convert(output, quantization=setting.dtype)


def write_checkpoint(
    folder: Path, setting: Setting, model: torch.nn.Module, data: Sentences
) -> None:
    """Write a checkpoint as CTranslate2's converter reads it, and its dictionaries."""
    args = model_options(setting)
    vars(args).update(task="translation", source_lang=LANGUAGES[0], target_lang=LANGUAGES[1])
    torch.save({"args": args, "model": model.state_dict()}, folder / "model.pt")
    for language, dictionary in zip(LANGUAGES, (data.source, data.target), strict=True):
        dictionary.save(str(folder / f"dict.{language}.txt"))


def lines(batch: dict, dictionary: Dictionary) -> list[list[str]]:
    """The tokens of each source sentence, without its end and padding."""
    special = dictionary.eos(), dictionary.pad()
    rows = batch["net_input"]["src_tokens"].tolist()
    return [[dictionary[token] for token in row if token not in special] for row in rows]
