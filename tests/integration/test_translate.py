"""``convs2s translate`` gives the same translations as fairseq-interactive."""

import io
from contextlib import redirect_stdout

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import interactive as interactive_command

from convs2s.cli.plugin import load_model
from convs2s.common.errors import UserError
from convs2s.translation import Translator
from tests.support.commands import PLUGIN, TASK, alignments, hypotheses, train
from tests.support.translation import DATA, FIXTURES, LINES, MODELS, text_file, translate


def interactive(path, lines, folder, *arguments, data=DATA):
    """The output of fairseq-interactive, run in this process."""
    args = options.parse_args_and_arch(
        options.get_interactive_generation_parser(),
        input_args=[
            str(data),
            "--source-lang",
            "de",
            "--target-lang",
            "en",
            "--cpu",
            "--user-dir",
            str(PLUGIN),
            *TASK,
            "--path",
            str(path),
            "--input",
            str(text_file(folder, lines, "interactive.de")),
            "--buffer-size",
            "100",
            *map(str, arguments),
        ],
    )
    printed = io.StringIO()
    with redirect_stdout(printed):
        interactive_command.main(convert_namespace_to_omegaconf(args))
    return printed.getvalue()


def assert_same(rows, printed):
    """The rows of ``--nbest`` are the detokenized hypotheses of fairseq-interactive."""
    found = {}
    for number, score, text in (row.split("\t") for row in rows):
        found.setdefault(int(number) - 1, []).append((float(score), text))
    expected = hypotheses(printed, "D")
    assert found.keys() == expected.keys()
    for number, best in expected.items():
        assert [text for _, text in found[number]] == [text for _, text in best]
        scores = [score for score, _ in best]
        assert [score for score, _ in found[number]] == pytest.approx(scores, abs=2e-4)


@pytest.mark.parametrize("name", MODELS)
def test_every_family(name, tmp_path):
    path = FIXTURES / f"{name}.pt"
    aligned = tmp_path / "aligned"
    rows = translate(path, LINES, tmp_path, "--nbest", 2, "--alignment", aligned)
    printed = interactive(
        path,
        LINES,
        tmp_path,
        "--nbest",
        2,
        "--max-tokens",
        4000,
        "--print-alignment",
        "hard",
    )
    assert_same(rows, printed)
    lines = [line.split("\t", 1)[1] for line in printed.splitlines() if line.startswith("A-")]
    assert aligned.read_text(encoding="utf-8").splitlines() == lines
    # Without alignments, a faster attention may be used.
    best = translate(path, LINES, tmp_path, "--batch-size", 3)
    assert best == [text for ((_, text), *_) in hypotheses(printed, "D").values()]


@pytest.fixture(scope="module")
def transformer(corpus, tmp_path_factory):
    """A checkpoint of fairseq's transformer, trained with fairseq's task."""
    folder = tmp_path_factory.mktemp("transformer")
    train(
        corpus,
        folder,
        options=(
            *("--arch", "transformer_iwslt_de_en", "--encoder-embed-dim", "16"),
            *("--encoder-layers", "1", "--decoder-layers", "1", "--encoder-ffn-embed-dim", "16"),
            *("--decoder-embed-dim", "16", "--decoder-ffn-embed-dim", "16"),
            *("--share-decoder-input-output-embed", "--max-source-positions", "64"),
            *("--optimizer", "adam", "--lr", "0.01", "--max-tokens", "400", "--max-epoch", "3"),
        ),
    )
    return folder / "checkpoint_last.pt"


def test_fairseqs_transformer(transformer, corpus, tmp_path):
    lines = (corpus / "test.de").read_text(encoding="utf-8").splitlines()
    data = corpus / "bin"
    aligned = tmp_path / "aligned"
    rows = translate(transformer, lines, tmp_path, "--nbest", 3, "--alignment", aligned, data=data)
    printed = interactive(
        transformer,
        lines,
        tmp_path,
        "--nbest",
        3,
        "--max-tokens",
        4000,
        "--print-alignment",
        "hard",
        data=data,
    )
    assert_same(rows, printed)
    best = [text for _, text in sorted(alignments(printed).items())]
    assert aligned.read_text(encoding="utf-8").splitlines()[2::3] == best


WAYS = {
    "lenpen": ("--beam", 4, "--lenpen", 0.6),
    "unnormalized": ("--beam", 3, "--unnormalized"),
    "greedy": ("--beam", 1),
    "half precision": ("--autocast-dtype", "bfloat16"),
    "short": ("--max-len-b", 4),
    "in proportion": ("--max-len-a", 0.3, "--max-len-b", 1),
    "unknown words": ("--replace-unk",),
    "lexicon": ("--lexicon", "LEXICON", "--frequent-candidates", 3, "--batch-size", 1),
    "translated unknown words": ("--replace-unk", "LEXICON"),
}


@pytest.mark.parametrize("way", WAYS)
def test_options_of_fairseq(way, tmp_path):
    pairs = [f"{line} {line}-th 0.9" for line in "eins zwei drei vier acht zehn foo".split()]
    lexicon = text_file(tmp_path, pairs, "lexicon")
    arguments = [lexicon if value == "LEXICON" else value for value in WAYS[way]]
    lines = [*LINES, "foo acht bar zehn", "zwölf"]
    path = FIXTURES / "convs2s.pt"
    rows = translate(path, lines, tmp_path, "--nbest", 1, *arguments)
    size = () if "--batch-size" in arguments else ("--max-tokens", 4000)
    assert_same(rows, interactive(path, lines, tmp_path, *size, *arguments))


def test_an_ensemble(tmp_path):
    paths = [FIXTURES / f"{name}.pt" for name in ("convs2s", "adl", "pervasive")]
    joined = ":".join(map(str, paths))
    arguments = ("--nbest", 2, "--beam", 4)
    rows = translate(paths, LINES, tmp_path, *arguments)
    printed = interactive(joined, LINES, tmp_path, *arguments, "--max-tokens", 4000)
    assert_same(rows, printed)
    assert translate(joined, LINES, tmp_path, *arguments) == rows
    more = [word for path in paths[1:] for word in ("--path", path)]
    assert translate(paths[0], LINES, tmp_path, *more, *arguments) == rows
    assert translate(paths[:1], LINES, tmp_path, *arguments) != rows


def test_sub_words(tmp_path):
    codes = text_file(tmp_path, ["#version: 0.2", "a b</w>"], "codes")
    lines = ["eins zwei", "acht\u2028vier"]
    path = FIXTURES / "adl.pt"
    rows = translate(path, lines, tmp_path, "--nbest", 1, "--bpe-codes", codes)
    printed = interactive(path, lines, tmp_path, "--bpe", "subword_nmt", "--bpe-codes", codes)
    assert_same(rows, printed)


def test_the_library_alone_refuses_models_of_fairseq(transformer):
    with pytest.raises(UserError, match="load=convs2s_plugin.loading.load"):
        Translator(transformer, device="cpu")


def test_dictionaries_of_another_model(transformer, corpus, trained, tmp_path):
    """For models of the package, and for those of fairseq."""
    for language in ("de", "en"):
        (tmp_path / f"dict.{language}.txt").write_text("eins 1\n", encoding="utf-8")
    for path, message in (
        (trained / "checkpoint_last.pt", "trained with a source vocabulary of 16 tokens"),
        (transformer, "was trained with dictionaries other than those in"),
    ):
        with pytest.raises(UserError, match=message):
            Translator(
                path,
                data=tmp_path,
                source_lang="de",
                target_lang="en",
                device="cpu",
                load=load_model,
            )
