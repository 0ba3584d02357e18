"""``convs2s export``: a folder that every command reads, and fairseq, and the way back."""

import json
import re
import shlex
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from convs2s.checkpoints.files import load_checkpoint, save_checkpoint
from convs2s.checkpoints.quantized import quantized
from convs2s.cli import main as convs2s
from convs2s.common.installation import missing_fairseq
from convs2s.translation.pretrained import load_translator
from convs2s.translation.translator import Translator
from tests.support.commands import TASK, generate, hypotheses, train
from tests.support.translation import (
    DATA,
    FIXTURES,
    LINES,
    MODELS,
    copied,
    export,
    text_file,
    translate,
)

needs_fairseq = pytest.mark.skipif(missing_fairseq() is not None, reason="needs fairseq")


def refusal(capsys, *arguments):
    """The line that a refused command prints."""
    assert convs2s([*map(str, arguments)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.fixture(params=MODELS)
def model(request):
    return request.param


@pytest.fixture
def exported(tmp_path):
    """An exported folder, without a card of measured translations."""
    export(copied("convs2s", tmp_path / "prepared"), tmp_path / "exported")
    return tmp_path / "exported"


def test_a_folder_translates_as_its_checkpoint(model, tmp_path):
    export(copied(model, tmp_path / "prepared"), tmp_path / "exported")
    # What it was made from is not needed.
    shutil.rmtree(tmp_path / "prepared")
    names = {path.name for path in (tmp_path / "exported").iterdir()}
    assert names == {
        *("model.safetensors", "config.json", "preparation.yaml", "README.md"),
        *("dict.de.txt", "dict.en.txt", "generation_config.json"),
    }
    expected = translate(FIXTURES / f"{model}.pt", LINES, tmp_path)
    found = load_translator(tmp_path / "exported").translate(LINES)
    assert [each.text for each in found] == expected
    weights = load_checkpoint(str(FIXTURES / f"{model}.pt"))["model"]
    again = load_checkpoint(str(tmp_path / "exported" / "model.safetensors"))["model"]
    assert weights.keys() == again.keys()
    assert all(torch.equal(weights[name], again[name]) for name in weights)


def test_a_folder_becomes_a_checkpoint_again(model, tmp_path):
    export(copied(model, tmp_path / "prepared"), tmp_path / "exported")
    export(tmp_path / "exported", tmp_path / "again.pt")
    expected = translate(FIXTURES / f"{model}.pt", LINES, tmp_path)
    assert translate(tmp_path / "again.pt", LINES, tmp_path) == expected


def test_weights_in_8_bits_and_shortlists(tmp_path):
    folder = copied("convs2s", tmp_path / "prepared")
    content = quantized(str(folder / "model.pt")).content
    table = torch.arange(4, 12, dtype=torch.int32).repeat(
        content["model"]["encoder.embed.words.weight.int8"].size(0), 1
    )
    content["shortlist"] = {"by_source": table, "frequent": 7}
    save_checkpoint(content, str(folder / "model.pt"))
    expected = [each.text for each in load_translator(folder).translate(LINES)]
    export(folder, tmp_path / "exported")
    found = load_translator(tmp_path / "exported")
    assert [each.text for each in found.translate(LINES)] == expected
    again = load_checkpoint(str(tmp_path / "exported" / "model.safetensors"))
    assert torch.equal(again["shortlist"]["by_source"], table)
    assert again["shortlist"]["frequent"] == 7


def test_shared_weights_in_8_bits(tmp_path):
    """Their integers and their scales are in the file once."""
    folder = copied("adl", tmp_path / "prepared")
    # As a command that reads the checkpoint finds them: names with one memory.
    assert convs2s(["quantize", str(folder / "model.pt"), str(tmp_path / "small.pt")]) == 0
    shutil.move(tmp_path / "small.pt", folder / "model.pt")
    expected = [each.text for each in load_translator(folder).translate(LINES)]
    export(folder, tmp_path / "exported")
    content = json.loads((tmp_path / "exported" / "config.json").read_text(encoding="utf-8"))
    embeddings, output = "decoder.embed.words.weight", "decoder.output.words.weight"
    assert content["tied"] == {
        f"{output}.{end}": f"{embeddings}.{end}" for end in ("int8", "scale")
    }
    found = load_translator(tmp_path / "exported").translate(LINES)
    assert [each.text for each in found] == expected


def test_what_the_card_is_told(tmp_path, capsys):
    """Without the speed, a model has the same card each time."""
    folder = copied("convs2s", tmp_path / "prepared")
    test = "--test", text_file(tmp_path, LINES), text_file(tmp_path, LINES, "target.en")
    options = "--metrics", "wer,per", "--limits", "It knows <few> words.", "--no-speed"
    cards = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        export(folder, tmp_path / name / "model", *test, *options)
        cards.append((tmp_path / name / "model" / "README.md").read_text(encoding="utf-8"))
    assert cards[0] == cards[1]
    assert "| WER | PER |\n" in cards[0] and "## Quality\n" in cards[0]
    assert "sentences/s" not in cards[0] and "Speed" not in cards[0]
    assert "few" in cards[0].partition("## Limits")[2].partition("## License")[0]
    line = refusal(capsys, "export", folder, tmp_path / "new", "--metrics", "bleuu")
    assert "There is no metric bleuu (did you mean 'bleu'?)" in line


def test_a_definition_of_several_lines_is_one_row_of_the_card(tmp_path):
    export(copied("adl", tmp_path / "prepared"), tmp_path / "exported")
    card = (tmp_path / "exported" / "README.md").read_text(encoding="utf-8")
    table = card.partition("## Model\n\n")[2].partition("\n\n")[0].splitlines()
    assert all(row.startswith("|") and row.endswith("|") for row in table)
    assert " -> res_nd(proj_dot_self_att) -> res(mlp_self_att) -> " in table[-1]


def test_a_matrix_of_several_names_is_in_the_file_once(tmp_path):
    export(copied("adl", tmp_path / "prepared"), tmp_path / "exported")
    content = json.loads((tmp_path / "exported" / "config.json").read_text(encoding="utf-8"))
    embeddings, output = "decoder.embed.words.weight", "decoder.output.words.weight"
    assert content["tied"] == {output: embeddings}
    weights = load_file(tmp_path / "exported" / "model.safetensors")
    assert embeddings in weights and output not in weights


def test_text_without_a_preparation(tmp_path):
    export(FIXTURES / "convs2s.pt", tmp_path / "exported", "--data", DATA, "--raw")
    assert not (tmp_path / "exported" / "preparation.yaml").exists()
    card = (tmp_path / "exported" / "README.md").read_text(encoding="utf-8")
    assert "tokens of the dictionaries" in card and "Not measured." in card
    found = Translator(tmp_path / "exported" / "model.safetensors", raw=True, device="cpu")
    expected = translate(FIXTURES / "convs2s.pt", LINES, tmp_path)
    assert [each.text for each in found.translate(LINES)] == expected


def test_codes_without_a_preparation(tmp_path):
    codes = tmp_path / "my.codes"
    codes.write_text("#version: 0.2\na c\n", encoding="utf-8")
    export(FIXTURES / "convs2s.pt", tmp_path / "exported", "--data", DATA, "--bpe-codes", codes)
    expected = translate(FIXTURES / "convs2s.pt", LINES, tmp_path, "--bpe-codes", codes)
    found = load_translator(tmp_path / "exported").translate(LINES)
    assert [each.text for each in found] == expected


def test_the_card_says_what_was_measured(tmp_path, capsys):
    folder = copied("convs2s", tmp_path / "prepared")
    translations = load_translator(folder, beam=2, lenpen=1.5).translate(LINES)
    for name, lines in (("de", LINES), ("en", [each.text for each in translations])):
        (tmp_path / f"test.{name}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    test = "--test", tmp_path / "test.de", tmp_path / "test.en"
    search = "--beam", 2, "--lenpen", 1.5
    (folder / "result.json").write_text(
        json.dumps({"trial_options": {"lr": 0.01}, "searches": [{"options": {"lenpen": 1}}, {}]})
    )
    export(folder, tmp_path / "exported", *test, *search, "--license", "cc-by-4.0")
    assert "BLEU 100.00 (test)" in capsys.readouterr().out
    card = (tmp_path / "exported" / "README.md").read_text(encoding="utf-8")
    assert (
        card.startswith("---\n") and '\nlanguage: ["de", "en"]\nlicense: "cc-by-4.0"\n---' in card
    )
    assert f"| test | {len(LINES)} | beam 2, lenpen 1.5 | 100.00 | 100.00 |" in card
    assert "BLEU `nrefs:1|case:mixed" in card
    assert "--beam 2 --lenpen 1.5 --input FILE" in card
    assert "`--lr 0.01`" in card and "gehring-etal-2017" in card
    weights = load_file(tmp_path / "exported" / "model.safetensors")
    assert f"| parameters | {sum(map(torch.numel, weights.values())):,} |" in card
    assert str(tmp_path) not in card


@pytest.mark.parametrize("content", ["[1]", '{"trial_options": [1], "searches": 2}', "{}"])
def test_results_of_other_programs_are_left_out(content, tmp_path):
    folder = copied("convs2s", tmp_path / "prepared")
    (folder / "result.json").write_text(content)
    export(folder, tmp_path / "exported")
    assert "trial" not in (tmp_path / "exported" / "README.md").read_text(encoding="utf-8")


def test_the_text_of_the_preparation_is_measured(tmp_path, capsys):
    folder = copied("convs2s", tmp_path / "prepared")
    (folder / "text").mkdir()
    for name in ("valid.de", "valid.en"):
        (folder / "text" / name).write_text("".join(f"{line}\n" for line in LINES), "utf-8")
    export(folder, tmp_path / "exported")
    assert "(valid)" in capsys.readouterr().out


def test_what_was_exported_can_be_exported(exported, tmp_path):
    """The options of the training are those of the checkpoint alone."""
    export(exported, tmp_path / "again")
    for name in ("model.safetensors", "preparation.yaml", "dict.de.txt"):
        assert (exported / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    card = (tmp_path / "again" / "README.md").read_text(encoding="utf-8")
    assert "updates; the model does not say with which options." in card


@needs_fairseq
def test_fairseq_trains_and_translates_as_the_folder_says(corpus, tmp_path):
    options = (
        *("--arch", "adl", "--encoder-adl", "pos -> res_nd(cnn(relu))"),
        *("--decoder-adl", "pos -> res_nd(mh_dot_src_att) -> res_nd(ffl(v=swiglu))"),
        *("--model-dim", "16", "--attention-heads", "2", "--share-input-output-embed"),
        *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", "0.01"),
        *("--max-tokens", "400", "--max-update", "3", "--seed", "5", "--dropout", "0"),
        *(*TASK, "--criterion", "convs2s_cross_entropy", "--label-smoothing", "0.1"),
    )
    train(corpus, tmp_path / "first", options=options)
    path = tmp_path / "first" / "checkpoint_last.pt"
    export(path, tmp_path / "exported", "--data", corpus / "bin", "--raw")
    expected = hypotheses(generate(corpus, path, *TASK))
    weights = tmp_path / "exported" / "model.safetensors"
    assert hypotheses(generate(corpus, weights, *TASK)) == expected
    # fairseq's interface in Python.
    from convs2s_plugin.hub import from_pretrained

    lines = (corpus / "test.de").read_text(encoding="utf-8").splitlines()
    loaded = [
        from_pretrained(folder, data_name_or_path=str(corpus / "bin"), raw=True).translate(lines)
        for folder in (tmp_path / "first", tmp_path / "exported")
    ]
    assert loaded[0] == loaded[1]
    # The command of the card trains the same model.
    card = (tmp_path / "exported" / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"```sh\n(fairseq-train .*?)\n```", card, re.DOTALL)
    words = shlex.split(command.replace("\\\n", " ").replace("$(convs2s path)", "PLUGIN"))
    assert words[:4] == ["fairseq-train", "DATA", "--user-dir", "PLUGIN"]
    train(corpus, tmp_path / "second", options=tuple(words[4:]))
    found = load_checkpoint(str(tmp_path / "second" / "checkpoint_last.pt"))["model"]
    for name, weight in load_checkpoint(str(path))["model"].items():
        assert torch.equal(weight, found[name]), name


@needs_fairseq
def test_a_training_starts_from_a_folder(corpus, tmp_path):
    train(corpus, tmp_path / "first", "--max-update", "2")
    path = tmp_path / "first" / "checkpoint_last.pt"
    export(path, tmp_path / "exported", "--data", corpus / "bin", "--raw")
    losses = []
    for start in (path, tmp_path / "exported" / "model.safetensors"):
        folder = tmp_path / f"second_{start.suffix}"
        train(corpus, folder, "--finetune-from-model", start, "--max-update", "2")
        losses.append(
            load_checkpoint(str(folder / "checkpoint_last.pt"))["extra_state"]["val_loss"]
        )
    assert losses[0] == losses[1]


def change_config(**changes):
    def change(folder):
        path = folder / "config.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**content, **changes}), encoding="utf-8")

    return change


def change_weights(change_tensors):
    def change(folder):
        weights = load_file(folder / "model.safetensors")
        change_tensors(weights)
        save_file(weights, folder / "model.safetensors")

    return change


def cut(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def not_a_number(weights):
    next(iter(weights.values())).view(-1)[0] = float("nan")


def of_another_size(weights):
    name = next(name for name, weight in weights.items() if weight.dim() > 1)
    weights[name] = weights[name][:-1].contiguous()


def other_words(folder):
    path = folder / "dict.en.txt"
    path.write_text(path.read_text(encoding="utf-8").replace("eins-th", "one"), encoding="utf-8")


DAMAGE = {
    "no config": (lambda folder: (folder / "config.json").unlink(), "There is no .*config.json"),
    "foreign config": (
        change_config(model_type="bert"),
        "does not describe a model of this package",
    ),
    "newer": (change_config(format=9, version="7.0"), "written by version 7.0"),
    "unknown key": (change_config(more=1), "more: Extra inputs are not permitted"),
    "no task": (change_config(task={}), "task._name is not text"),
    "no model": (change_config(model={"_name": "x"}), "has a model"),
    "wrong option": (change_config(model={"_name": "convs2s", "dropout": "x"}), "must be a number"),
    "not json": (lambda folder: (folder / "config.json").write_text("{"), "config.json"),
    "cut": (cut, "not a complete file of weights"),
    "no weights": (
        lambda folder: (folder / "model.safetensors").write_bytes(b""),
        "not a complete",
    ),
    "nan": (change_weights(not_a_number), "cannot be.*NaN|infinite|nan"),
    "shape": (change_weights(of_another_size), "those of another architecture"),
    "no tensor": (change_weights(lambda weights: weights.popitem()), "1 .* missing"),
    "tied": (change_config(tied={"a": "b"}), "it has no b"),
    "words": (other_words, "another target dictionary"),
    "no dictionary": (lambda folder: (folder / "dict.en.txt").unlink(), "dict.en.txt"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_folders(name, exported, tmp_path, capsys):
    change, message = DAMAGE[name]
    change(exported)
    capsys.readouterr()
    line = refusal(
        capsys, "translate", "--path", exported, "--input", text_file(tmp_path, ["eins"])
    )
    assert re.search(message, line)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["FIXTURE", "EXISTING"], "it exists already"),
        (["FIXTURE", "NEW/inside"], "there is no folder"),
        (["FIXTURE", "NEW"], "There are no dictionaries"),
        (["FIXTURE", "NEW.pt"], "is a checkpoint of fairseq already"),
        (["FIXTURE", "NEW.pt", "--license", "mit"], "--license is for a folder to share"),
        (["FIXTURE", "NEW.pt", "--no-speed"], "--no-speed is for a folder to share"),
        (["FIXTURE", "NEW.pt", "--beam", "7"], "--beam is for a folder to share"),
        (["nope", "NEW"], "nope"),
        (["FIXTURE", "NEW", "--data", "DATA", "--test", "ONE", "TWO"], "1 lines and .* has 2"),
        (["FIXTURE", "NEW", "--data", "DATA", "--test", "ONE", "nope"], "nope"),
    ],
)
def test_what_is_refused(arguments, message, tmp_path, capsys):
    (tmp_path / "existing").mkdir()
    (tmp_path / "existing" / "file").touch()
    (tmp_path / "one").write_text("a\n")
    (tmp_path / "two").write_text("a\nb\n")
    places = {
        "FIXTURE": FIXTURES / "convs2s.pt",
        "EXISTING": tmp_path / "existing",
        "NEW": tmp_path / "new",
        "NEW.pt": tmp_path / "new.pt",
        "NEW/inside": tmp_path / "new" / "inside",
        "DATA": DATA,
        "ONE": tmp_path / "one",
        "TWO": tmp_path / "two",
    }
    words = [places.get(word, word) for word in arguments]
    assert re.search(message, refusal(capsys, "export", *words))
    assert not list(tmp_path.glob("new*"))


@needs_fairseq
def test_models_of_fairseq_are_refused(corpus, tmp_path, capsys):
    train(
        corpus,
        tmp_path,
        options=(
            "--arch",
            "transformer_iwslt_de_en",
            "--max-update",
            "1",
            "--max-tokens",
            "400",
            "--encoder-embed-dim",
            "8",
            "--decoder-embed-dim",
            "8",
            "--encoder-ffn-embed-dim",
            "8",
            "--decoder-ffn-embed-dim",
            "8",
            "--optimizer",
            "sgd",
            "--lr",
            "0.1",
        ),
    )
    path, new = tmp_path / "checkpoint_last.pt", tmp_path / "new"
    line = refusal(capsys, "export", path, new, "--data", corpus / "bin")
    assert "transformer_iwslt_de_en" in line
    assert not (tmp_path / "new").exists()
