"""Beam search of CTranslate2 (https://github.com/OpenNMT/CTranslate2), as a peer.

It runs fairseq's transformers. The network is written as a checkpoint of fairseq's and converted
by CTranslate2's own converter; the sentences, the beam and the lengths are those of our side.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from fairseq.data import Dictionary

from convs2s_plugin.errors import UserError

from .sentences import Sentences, sentences
from .setting import Setting, build, model_options
from .workload import Workload

LANGUAGES = "de", "en"
# fairseq's default for the longest translation.
MAX_LENGTH = 200


def generation(setting: Setting) -> Workload:
    """Beam search by CTranslate2; hypotheses are as long as the batch's longest source.

    Args:
        setting: a transformer of fairseq's, with ``dtype`` float32 or int8.
    Raises:
        UserError: if ctranslate2 is not installed.
    """
    data = sentences(setting, "test")
    model = build(setting, data.source, data.target).eval()
    with tempfile.TemporaryDirectory() as folder:
        converted = str(Path(folder, "converted"))
        convert(Path(folder), converted, setting, model, data)
        translator = translator_of(converted, setting.dtype)

    def searches(batches: list[dict]):
        prepared = [lines(batch, data.source) for batch in batches]

        def run_searches() -> list:
            return [
                translator.translate_batch(
                    batch,
                    beam_size=setting.beam,
                    max_batch_size=0,
                    min_decoding_length=max(map(len, batch)),
                    max_decoding_length=max(map(len, batch)),
                )
                for batch in prepared
            ]

        return run_searches

    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Workload(searches(data.tiny), searches(data.batches), parameters)


def prepare(
    folder: str, batches: list[dict], dictionary: Dictionary
) -> Callable[[int], Callable[[], list[list[str]]]]:
    """Beam size -> a function that translates all batches with a converted model.

    Args:
        folder: written by a converter of CTranslate2; its weights give the type to compute in.
        batches: batches of fairseq's.
        dictionary: source dictionary.
    Raises:
        UserError: if ctranslate2 is not installed, or the folder has no model.
    """
    translator = translator_of(folder)
    prepared = [lines(batch, dictionary) for batch in batches]

    def searches(beam_size: int) -> Callable[[], list[list[str]]]:
        def run_searches() -> list[list[str]]:
            return [
                result.hypotheses[0]
                for batch in prepared
                for result in translator.translate_batch(
                    batch, beam_size=beam_size, max_batch_size=0, max_decoding_length=MAX_LENGTH
                )
            ]

        return run_searches

    return searches


def library():
    """The module ctranslate2.

    Raises:
        UserError: if it is not installed.
    """
    try:
        import ctranslate2
    except ImportError:
        raise UserError(
            "This peer needs ctranslate2: run `pip install ctranslate2`, or choose other rows "
            "and models."
        ) from None
    return ctranslate2


def translator_of(folder: str, dtype: str = "default"):
    """CTranslate2's translator of a converted model, with as many threads as torch.

    Raises:
        UserError: if ctranslate2 is not installed, or the folder has no model.
    """
    ctranslate2 = library()
    if not ctranslate2.contains_model(folder):
        raise UserError(f"{folder} is not a folder that a converter of CTranslate2 has written.")
    return ctranslate2.Translator(
        folder,
        device="cpu",
        compute_type=dtype,
        inter_threads=1,
        intra_threads=torch.get_num_threads(),
    )


def convert(
    folder: Path, output: str, setting: Setting, model: torch.nn.Module, data: Sentences
) -> None:
    """Convert a model as a user does, by way of a checkpoint in ``folder``.

    Raises:
        UserError: if ctranslate2 is not installed.
    """
    converters = library().converters
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
