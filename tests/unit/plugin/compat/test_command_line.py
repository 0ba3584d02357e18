"""Options of fairseq's commands: languages of a tokenizer, bf16, the rank of a launched worker."""

import pytest
from fairseq import options

import convs2s_plugin  # noqa: F401  (corrects parsed options)

TRAIN = ("--arch", "convs2s_iwslt_de_en", "--optimizer", "adam", "--max-tokens", "100")


@pytest.fixture
def data(tmp_path):
    """A folder with the name of a file of binarized data."""
    (tmp_path / "train.de-en.de.bin").touch()
    return str(tmp_path)


def parse(parser, *arguments):
    return options.parse_args_and_arch(parser, list(arguments))


@pytest.mark.parametrize(
    ("given", "languages"),
    [((), ("de", "en")), (("-s", "en", "-t", "de"), ("en", "de")), (("-t", "fr"), ("de", "fr"))],
)
def test_languages_of_the_tokenizer(data, given, languages):
    parser = options.get_interactive_generation_parser()
    args = parse(parser, data, "--path", "model.pt", "--tokenizer", "moses", *given)
    assert (args.source_lang, args.target_lang) == languages


def test_other_tokenizers_are_left_alone(data):
    parser = options.get_interactive_generation_parser()
    args = parse(parser, data, "--path", "model.pt", "--tokenizer", "space")
    assert args.source_lang is None and args.target_lang is None


@pytest.mark.parametrize("given", [("--bf16",), ("--memory-efficient-bf16",)])
def test_bf16_requests_no_tpu(data, given):
    args = parse(options.get_training_parser(), data, *TRAIN, *given)
    assert args.bf16 and not args.tpu


def test_a_tpu_can_be_requested(data):
    assert parse(options.get_training_parser(), data, *TRAIN, "--bf16", "--tpu").tpu


@pytest.mark.parametrize("option", ["--local_rank", "--local-rank", "--device-id"])
def test_rank_of_a_launched_worker(data, option):
    assert parse(options.get_training_parser(), data, *TRAIN, f"{option}=3").device_id == 3
