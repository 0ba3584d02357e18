"""``convs2s compile``: ONNX Runtime finds the translations that torch finds."""

import shlex
import shutil

import pytest
import torch

from convs2s.checkpoints.files import load_checkpoint, save_checkpoint
from convs2s.cli import main as convs2s
from convs2s.nn.int8 import has_int8
from convs2s.nn.int8 import is_supported as is_int8_supported
from convs2s.translation import compiled, precision
from convs2s.translation.compiled import CompiledDecoding, CompiledModel, Graphs
from convs2s.translation.decoding import NetworkDecoding, NetworkModel
from convs2s.translation.precision import is_supported
from convs2s.translation.translator import Translator
from tests.support.translation import DATA, FIXTURES, LINES
from tests.support.translation import copied as copied_model

for name in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(name, reason="the extra export is not installed")

MANY = LINES * 2


def translator(path, **options):
    return Translator(path, data=DATA, raw=True, device="cpu", **options)


def model_of(path, **options):
    return translator(path, **options).ensemble.search_models[0]


@pytest.fixture(scope="module", params=["adl", "convs2s", "pervasive_adl"])
def checkpoint(request, tmp_path_factory):
    """A compiled checkpoint."""
    path = tmp_path_factory.mktemp("compiled") / "model.pt"
    shutil.copyfile(FIXTURES / f"{request.param}.pt", path)
    assert convs2s(["compile", str(path), "--data", str(DATA)]) == 0
    return path


@pytest.fixture
def copied(checkpoint, tmp_path):
    """A copy of it."""
    shutil.copyfile(checkpoint, tmp_path / "model.pt")
    shutil.copytree(checkpoint.with_suffix(".onnx"), tmp_path / "model.onnx")
    return tmp_path / "model.pt"


@pytest.mark.parametrize(
    "options",
    [{}, {"beam": 1}, {"batch_size": 1, "nbest": 2}, {"alignment": True}, {"workers": 2}],
    ids=lambda options: ", ".join(options) or "default",
)
def test_the_same_translations(checkpoint, options, tmp_path):
    plain = shutil.copyfile(checkpoint, tmp_path / "plain.pt")
    expected = translator(plain, **options).translate(MANY)
    mine = translator(checkpoint, **options)
    for ours, theirs in zip(mine.translate(MANY), expected, strict=True):
        for one, other in zip(ours.hypotheses, theirs.hypotheses, strict=True):
            assert (one.tokens, one.alignment) == (other.tokens, other.alignment)
            assert one.score == pytest.approx(other.score, abs=1e-4)
    model = mine.ensemble.search_models[0]
    assert isinstance(model, CompiledModel)
    # Torch computes attention, and processes have graphs of their own.
    by_torch = "alignment" in options and not model.aligns_tokens
    assert (model._graphs is None) == (by_torch or "workers" in options)


def test_a_few_sentences_do_not_start_it(checkpoint):
    mine = translator(checkpoint)
    mine.translate(LINES[:4])
    assert mine.ensemble.search_models[0]._graphs is None
    mine.translate(LINES)
    assert isinstance(mine.ensemble.search_models[0]._graphs, Graphs)


def test_torch_computes_a_model_that_was_moved(checkpoint, monkeypatch):
    model = CompiledModel(model_of(checkpoint).module, checkpoint.with_suffix(".onnx"), worth_it=0)
    monkeypatch.setattr(model.module, "encode", lambda source: {"beam_size": 1})
    for device, kind in (("cpu", CompiledDecoding), ("meta", NetworkDecoding)):
        source = model.encode(torch.full((2, 3), 5, device=device))
        assert isinstance(model.start(source), kind)


def test_shortlists(checkpoint, tmp_path):
    lexicon = tmp_path / "lexicon"
    words = (
        (DATA / f"dict.{language}.txt").read_text(encoding="utf-8").split()[::2]
        for language in ("de", "en")
    )
    pairs = "".join(f"{source} {target} 0.5\n" for source, target in zip(*words))
    lexicon.write_text(pairs, encoding="utf-8")
    options = {"lexicon": str(lexicon), "frequent_candidates": 12}
    plain = shutil.copyfile(checkpoint, tmp_path / "plain.pt")
    found, expected = (
        [each.text for each in translator(path, **options).translate(MANY)]
        for path in (checkpoint, plain)
    )
    assert found == expected


def test_what_has_another_precision_is_not_computed_with_it(checkpoint):
    bfloat16 = model_of(checkpoint, autocast_dtype="bfloat16")
    has_bfloat16 = is_supported(torch.bfloat16, torch.device("cpu"))
    assert isinstance(bfloat16, CompiledModel) == (not has_bfloat16)
    int8 = model_of(checkpoint, int8=True)
    assert has_int8(int8.module) == is_int8_supported()
    assert isinstance(int8, CompiledModel) == (not is_int8_supported())


def test_a_model_in_8_bits_is_computed_in_single_precision(checkpoint, tmp_path, monkeypatch):
    small = tmp_path / "small.pt"
    assert convs2s(["quantize", str(checkpoint), str(small)]) == 0
    assert type(model_of(small)) is NetworkModel
    monkeypatch.setattr(precision, "is_int8_supported", lambda: False)
    expected = translator(small).translate(MANY)
    monkeypatch.undo()
    assert convs2s(["compile", str(small), "--data", str(DATA)]) == 0
    mine = translator(small)
    for ours, theirs in zip(mine.translate(MANY), expected, strict=True):
        assert ours.text == theirs.text
        assert ours.score == pytest.approx(theirs.score, abs=1e-4)
    assert mine.ensemble.search_models[0]._graphs is not None
    assert not has_int8(mine.ensemble.models[0])
    asked_for = model_of(small, int8=True)
    assert has_int8(asked_for.module) == is_int8_supported()
    assert isinstance(asked_for, CompiledModel) == (not is_int8_supported())


def test_an_ensemble_with_graphs_of_one_model(checkpoint, tmp_path):
    plain = shutil.copyfile(checkpoint, tmp_path / "plain.pt")
    mine, theirs = translator([checkpoint, plain]), translator([plain, plain])
    assert [type(each) for each in mine.ensemble.search_models] == [CompiledModel, NetworkModel]
    found, expected = (
        [each.text for each in ensemble.translate(MANY)] for ensemble in (mine, theirs)
    )
    assert found == expected


@pytest.mark.parametrize("size, number", [(2**40, 1), (1, 2)])
def test_threads_of_small_and_large_graphs(size, number, checkpoint, monkeypatch):
    onnxruntime = pytest.importorskip("onnxruntime")
    threads = []
    session = onnxruntime.InferenceSession

    def counted(path, options, *more):
        threads.append(options.intra_op_num_threads)
        return session(path, options, *more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", counted)
    monkeypatch.setattr(compiled, "LARGE_GRAPH", size)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    model_of(checkpoint).graphs()
    assert threads == [number, number]


def test_graphs_of_other_weights_are_refused(copied, capsys):
    content = load_checkpoint(str(copied))
    name = next(iter(content["model"]))
    content["model"][name] = content["model"][name] * 1.5
    save_checkpoint(content, str(copied))
    command = ["translate", "--path", str(copied), "--data", str(DATA), "--raw", "--device", "cpu"]
    assert convs2s([*command, "--input", str(DATA / "test.de")]) == 2
    error = capsys.readouterr().err
    assert f"The graphs in {copied.with_suffix('.onnx')} are not those of {copied}: " in error
    # They are written again.
    assert convs2s(["compile", str(copied), "--data", str(DATA)]) == 0
    assert isinstance(model_of(copied), CompiledModel)


def test_damaged_graphs_are_refused(copied, capsys):
    step = copied.with_suffix(".onnx") / "decoder_step.onnx"
    step.write_bytes(step.read_bytes()[:1000])
    command = ["translate", "--path", str(copied), "--data", str(DATA), "--raw", "--device", "cpu"]
    (copied.parent / "lines").write_text("".join(f"{line}\n" for line in MANY), encoding="utf-8")
    arguments = ["--input", str(copied.parent / "lines"), "--workers", "1"]
    assert convs2s([*command, *arguments]) == 2
    assert f"{step} cannot be used: " in capsys.readouterr().err


def test_graphs_that_compute_something_else_are_not_written(monkeypatch, tmp_path, capsys):
    path = shutil.copyfile(FIXTURES / "convs2s.pt", tmp_path / "model.pt")
    monkeypatch.setattr(compiled, "linear", lambda x, weight, bias: x @ weight.t() + 1.0)
    assert convs2s(["compile", str(path), "--data", str(DATA)]) == 2
    assert "ONNX Runtime does not compute what torch" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["model.pt"]


def test_without_onnxruntime_torch_computes(checkpoint, monkeypatch):
    monkeypatch.setattr(compiled, "find_spec", lambda name: None)
    assert type(model_of(checkpoint)) is NetworkModel


def test_the_folder_of_a_prepared_model(tmp_path, capsys):
    folder = copied_model("adl", tmp_path / "my model")
    assert convs2s(["compile", str(folder)]) == 0
    assert (folder / "model.onnx").is_dir()
    printed = capsys.readouterr().out.partition("`")[2].partition("`")[0]
    assert shlex.split(printed) == ["convs2s", "translate", "--path", str(folder / "model.pt")]
