"""Beam search of CTranslate2 (https://github.com/OpenNMT/CTranslate2), as a peer.

It runs fairseq's transformers. The network is written as a checkpoint of fairseq's and converted
by CTranslate2's own converter; the sentences, the beam and the lengths are those of our side.
"""

import tempfile
from pathlib import Path

import torch
from fairseq.data import Dictionary

from convs2s_plugin.errors import UserError

from .sentences import Sentences, sentences
from .setting import Setting, build, model_options
from .workload import Workload

LANGUAGES = "de", "en"


def generation(setting: Setting) -> Workload:
    """Beam search by CTranslate2; hypotheses are as long as the batch's longest source.

    Args:
        setting: a transformer of fairseq's, with ``dtype`` float32 or int8.
    Raises:
        UserError: if ctranslate2 is not installed.
    """
    try:
        import ctranslate2
    except ImportError:
        raise UserError(
            "This peer needs ctranslate2: run `pip install ctranslate2`, or choose other rows."
        ) from None
    data = sentences(setting, "test")
    model = build(setting, data.source, data.target).eval()
    with tempfile.TemporaryDirectory() as folder:
        converted = str(Path(folder, "converted"))
        write_checkpoint(Path(folder), setting, model, data)
        converter = ctranslate2.converters.FairseqConverter(
            str(Path(folder, "model.pt")), folder, *LANGUAGES, unsafe_deserialization=True
        )
        converter.convert(converted, quantization=setting.dtype)
        translator = ctranslate2.Translator(
            converted,
            device="cpu",
            compute_type=setting.dtype,
            inter_threads=1,
            intra_threads=torch.get_num_threads(),
        )

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
