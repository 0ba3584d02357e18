"""``torch.hub.load`` and ``from_pretrained``: folders of models, addresses, text, errors."""

import functools
import http.server
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tarfile
import threading

import numpy as np
import pytest
import torch

from convs2s.common.errors import UserError
from convs2s.translation import Translator
from convs2s_plugin.hub import from_pretrained
from convs2s_plugin.models import ConvS2SModel, PervasiveModel
from tests import ROOT
from tests.integration.test_translate_models import prepared
from tests.support.translation import DATA, FIXTURES
from tests.unit.cli.test_plot_attention import make_checkpoint

BEST = "checkpoint_best.pt"
LINES = ["eins zwei drei", "", "acht vier"]
LOAD = """
import json, sys, torch
assert not {"convs2s_plugin", "fairseq"} & set(sys.modules)
repository, *models = sys.argv[1:]
found = {}
for model in models:
    entry_point, path = model.split("=")
    hub = torch.hub.load(repository, entry_point, path=path, source="local", trust_repo=True)
    found[entry_point] = hub.translate(["eins zwei drei", "", "acht vier"], beam=4)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """As ``convs2s prepare`` and a training leave it."""
    folder = tmp_path_factory.mktemp("prepared")
    prepared(folder)
    (folder / "checkpoints").mkdir()
    shutil.copy(FIXTURES / "convs2s.pt", folder / "checkpoints" / "checkpoint_best.pt")
    shutil.copy(FIXTURES / "pervasive.pt", folder / "checkpoints" / "pervasive.pt")
    return folder


def expected(name, lines=LINES, **options):
    translator = Translator(FIXTURES / f"{name}.pt", data=DATA, device="cpu", **options)
    return [one.text for one in translator.translate(lines)]


def test_torch_hub(folder, tmp_path):
    """In a process that has not imported the package, in another folder."""
    for name in ("pervasive", "adl"):
        shutil.copytree(folder, tmp_path / name)
        shutil.copy(FIXTURES / f"{name}.pt", tmp_path / name / "checkpoints" / "checkpoint_best.pt")
    models = {"translator": folder, "convs2s": folder / "checkpoints"}
    models |= {name: tmp_path / name for name in ("pervasive", "adl")}
    arguments = [f"{entry_point}={path}" for entry_point, path in models.items()]
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(ROOT), *arguments],
        **{"cwd": tmp_path, "capture_output": True, "text": True},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for entry_point, texts in json.loads(done.stdout).items():
        name = "convs2s" if entry_point == "translator" else entry_point
        assert texts == expected(name, beam=4)


def test_entry_points():
    """torch.hub takes every callable of hubconf.py for an entry point."""
    spec = importlib.util.spec_from_file_location("hubconf", ROOT / "hubconf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    public = [name for name in vars(module) if not name.startswith("_")]
    entry_points = [name for name in public if callable(getattr(module, name))]
    assert sorted(entry_points) == ["adl", "convs2s", "pervasive", "translator"]


def test_text(folder):
    hub = ConvS2SModel.from_pretrained(folder)
    assert hub.translate("  EINS zwei Drei ") == expected("convs2s")[0]
    assert hub.translate(iter(LINES), lenpen=0.5) == expected("convs2s", lenpen=0.5)
    assert hub.sample("EINS zwei drei", beam=5) == expected("convs2s")[0]
    assert hub.translate("eins zwei drei", beam=5, min_len=1) == expected("convs2s")[0]
    (translation,) = hub.translations(["eins zwei drei"], beam=3, nbest=2, alignment=True)
    best, second = translation.hypotheses
    assert best.score > second.score and len(best.alignment) == len(best.tokens)
    found = hub.generate(hub.encode("EINS zwei drei"), beam=3, print_alignment="hard")
    assert len(found) == 3 and hub.decode(found[0]["tokens"]) == best.text
    assert found[0]["alignment"] == best.alignment
    assert hub.translations(["eins"])[0].hypotheses[0].alignment is None
    assert hub.device.type == "cpu" and len(hub.models) == 1


def test_best_translations(folder):
    """With ``nbest``, each line has a list, even of one; empty lines have one translation."""
    hub = from_pretrained(folder)
    lists = hub.translate(LINES, beam=4, nbest=3)
    translated = hub.translations(LINES, beam=4, nbest=3)
    assert lists == [[each.text for each in line.hypotheses] for line in translated]
    assert [len(of_line) for of_line in lists] == [3, 1, 3]
    assert hub.translate(LINES[0], beam=4, nbest=3) == lists[0]
    assert hub.translate(LINES[0], beam=4, nbest=1) == lists[0][:1]
    # By fairseq's generator, whose search is the same.
    same = hub.translate([LINES[0], LINES[2]], beam=4, nbest=2, no_repeat_ngram_size=0)
    assert same == [lists[0][:2], lists[2][:2]]
    assert hub.translate(LINES[0], no_repeat_ngram_size=0) == expected("convs2s")[0]
    assert hub.translate([], nbest=2) == []


def test_fairseqs_generator_has_the_options_of_the_model(folder):
    options = {"beam": 2, "min_len": 12, "max_len_a": 0.5, "max_len_b": 12}
    options |= {"unkpen": 2.0, "temperature": 3.0}
    hub, lines = from_pretrained(folder, **options), LINES[::2]
    assert expected("convs2s", lines, **options) == hub.sample(lines)
    assert hub.sample(lines) == hub.translate(lines, sampling=False)
    assert expected("convs2s", lines) != hub.sample(lines)
    assert len(hub.generate(hub.encode(lines[0]))) == 2
    assert len(hub.generate(hub.encode(lines[0]), 3)) == 3


def test_fairseqs_generator_replaces_no_unknown_words(folder):
    hub = from_pretrained(folder, replace_unk="")
    for translate in (hub.sample, functools.partial(hub.translate, sampling=True)):
        with pytest.raises(UserError, match="replace_unk needs the words of the text"):
            translate("eins")
    assert hub.sample("eins", replace_unk=None)


def test_fairseqs_generator_never_drops_a_line(folder):
    hub = from_pretrained(folder)
    lines = ["eins", " ".join(["zwei"] * 500), "drei"]
    skipping = dict(sampling=True, skip_invalid_size_inputs=True)
    for given, counts in ((lines, "1 of 3 lines"), (lines[1], "1 of 1 lines")):
        with pytest.raises(UserError, match=f"skip_invalid_size_inputs omits {counts}"):
            hub.translate(given, **skipping)
    assert len(hub.translate(lines[::2], **skipping)) == 2


@pytest.mark.parametrize(
    "options", [dict(prefix_size=2), dict(score_reference=True), dict(lm_path="lm.pt")]
)
def test_options_of_fairseq_generate_alone(options, folder):
    (name,) = options
    with pytest.raises(UserError, match=f"^{name} is for fairseq-generate"):
        from_pretrained(folder).translate("eins", **options)


UNKNOWN = {
    "translate": (
        dict(lenpn=0.1),
        "lenpn is not an option of a translation (did you mean 'lenpen'?)",
    ),
    "translate, sampled": (
        dict(sampling=True, batch_sise=2),
        "batch_sise is not an option of a translation (did you mean 'batch_size'?)",
    ),
    "translations": (dict(beem=3), "beem is not an option of the search (did you mean 'beam'?)"),
    "sample": (dict(beem=1), "beem is not an option of fairseq's generator (did you mean 'beam"),
    "generate": (
        dict(samplin=True),
        "samplin is not an option of fairseq's generator (did you mean",
    ),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_unknown_options_of_methods(kind, folder):
    options, message = UNKNOWN[kind]
    hub = from_pretrained(folder)
    method = getattr(hub, kind.partition(",")[0])
    given = [hub.encode("eins")] if kind == "generate" else ["eins"]
    with pytest.raises(UserError, match=re.escape(message)):
        method(given, **options)


def test_attention_and_scores(folder, tmp_path):
    """They are those of a ``Translator``."""
    hub, translator = from_pretrained(folder), Translator(folder / "checkpoints" / BEST)
    found, same = (each.attention("EINS zwei", "Zwei-TH") for each in (hub, translator))
    assert found.target == same.target == ["zwei-th", "</s>"]
    assert found.arrays.keys() == same.arrays.keys()
    for name, weights in found.arrays.items():
        np.testing.assert_allclose(weights, same.arrays[name], atol=1e-6)
    assert hub.attention("acht vier").plot(tmp_path / "a.png").get_axes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    lines = ["EINS zwei", "acht"], ["zwei-th eins-th", "acht-th"]
    for pair, other in zip(hub.score(*lines), translator.score(*lines), strict=True):
        assert pair.tokens == other.tokens
        assert pair.token_scores == pytest.approx(other.token_scores, abs=1e-5)


def test_a_model_of_fairseq(tmp_path):
    """Its attention is the one map that it returns."""
    path = make_checkpoint(tmp_path / "model", "transformer")[1]
    hub = from_pretrained(path, data_name_or_path=str(tmp_path / "model" / "data"))
    arrays = hub.attention("ein zwei", "one").arrays
    assert {name: weights.shape for name, weights in arrays.items()} == {"source.mean": (2, 3)}
    (pair,) = hub.score(["ein zwei"], ["one"])
    assert len(pair.token_scores) == 2 and pair.log_prob < 0


def test_moses_of_both_languages(folder):
    pytest.importorskip("sacremoses")
    hub = from_pretrained(folder / "checkpoints", None, str(DATA), tokenizer="moses")
    # English has "don" and "'t"; German, the language of the source, would have three tokens.
    (pair,) = hub.score(["eins"], ["don't"])
    assert len(pair.tokens) == 3


# The lines of docs/hub.md in a notebook, whose root logger is not configured.
NOTEBOOK = """
import logging, sys, warnings
warnings.simplefilter("ignore")
from convs2s_plugin.models import ConvS2SModel
model = ConvS2SModel.from_pretrained(sys.argv[1])
print(model.translate("eins zwei drei"))
assert not logging.getLogger().handlers and logging.getLogger().level == logging.WARNING
"""


def test_no_messages_of_fairseq(folder):
    command = [sys.executable, "-c", NOTEBOOK, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == (f"{expected('convs2s')[0]}\n", "")


CELLS = (
    "from convs2s_plugin.models import ConvS2SModel\n"
    "model = ConvS2SModel.from_pretrained({folder!r})",
    "model.translate('eins zwei drei')",
    "model.attention('eins zwei drei').plot()",
    "from matplotlib import pyplot\npyplot.plot([1, 2]);",
)


def test_in_a_notebook(folder, tmp_path, monkeypatch):
    """No messages, one picture of attention, and further plots as before."""
    for package in ("nbclient", "nbformat", "ipykernel", "matplotlib"):
        pytest.importorskip(package)
    from nbclient import NotebookClient
    from nbformat import v4

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    notebook = v4.new_notebook(
        cells=[v4.new_code_cell(code.format(folder=str(folder))) for code in CELLS]
    )
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    shown = [[output.get("data", output) for output in cell.outputs] for cell in notebook.cells]
    assert shown[:2] == [[], [{"text/plain": repr(expected("convs2s")[0])}]]
    assert [[("image/png" in data) for data in cell] for cell in shown[2:]] == [[True], [True]]


def test_fairseq_arguments(folder, tmp_path):
    shutil.copytree(DATA, tmp_path / "data")
    shutil.copy(FIXTURES / "convs2s.pt", tmp_path / "model.pt")
    (tmp_path / "code").write_text("#version: 0.2\na c\n", encoding="utf-8")
    hub = ConvS2SModel.from_pretrained(
        str(tmp_path), "model.pt:model.pt", "./data", tokenizer="moses", bpe="subword_nmt"
    )
    # "eins" has no codes: it becomes characters, which the dictionary does not have.
    assert hub.encode("eins").tolist() == [3, 3, 3, 3, 2] and len(hub.models) == 2
    assert hub.apply_bpe("eins, zwei").startswith("e@@ i@@ n@@ s ,")
    hub = ConvS2SModel.from_pretrained(str(tmp_path), "model.pt", "./data", tokenizer="moses")
    assert hub.translate("eins  zwei drei") == expected("convs2s")[0]


@pytest.fixture
def server(tmp_path):
    """The address of a folder, and the folder."""
    served = tmp_path / "served"
    served.mkdir()
    handler = functools.partial(_Quiet, directory=str(served))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as opened:
        thread = threading.Thread(target=opened.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{opened.server_port}", served
        opened.shutdown()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *unused):
        pass


def test_address(folder, server, tmp_path, monkeypatch):
    """An archive is downloaded once; nothing is left of one that cannot be read."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "cache"))
    address, served = server
    with tarfile.open(served / "model.tar.gz", "w:gz") as archive:
        archive.add(folder, "model")
    (served / "text.tar").write_text("no archive")
    url = f"{address}/model.tar.gz"
    assert from_pretrained(url).translate(LINES) == expected("convs2s")
    (served / "model.tar.gz").unlink()
    assert from_pretrained(url).translate(LINES) == expected("convs2s")
    for name, message in (("no.tar", "cannot be downloaded: "), ("text.tar", "is not a")):
        with pytest.raises(UserError, match=f"{address}/{name} {message}"):
            from_pretrained(f"{address}/{name}")
    (cached,) = (tmp_path / "cache" / "convs2s_plugin").iterdir()
    assert cached.name.startswith("model-")


ERRORS = {
    "no folder": (dict(path="no/such"), "There is no checkpoint or folder no/such"),
    "no checkpoint": (dict(path=str(DATA)), "none of average.pt, checkpoint_best.pt"),
    "option": (
        dict(bean=5),
        r"bean is not an option of a model that translates \(did you mean 'beam'\?\)",
    ),
    "tokenizer": (dict(tokenizer="nltk"), "tokenizer='nltk' is not available here; allowed: moses"),
    "bpe": (dict(bpe="gpt2"), "bpe='gpt2' is not available here; allowed: subword_nmt"),
    "codes": (dict(bpe="subword_nmt"), "has neither bpecodes nor code"),
    "both": (dict(tokenizer="moses", raw=True), "raw excludes tokenizer and bpe"),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_errors(kind, folder):
    options, message = ERRORS[kind]
    with pytest.raises(UserError, match=message):
        from_pretrained(**{"path": folder, **options})


def test_another_family(folder):
    with pytest.raises(UserError, match="has a ConvS2SModel, not a PervasiveModel"):
        PervasiveModel.from_pretrained(folder)
    assert PervasiveModel.from_pretrained(folder, "pervasive.pt").translate("acht")


def test_options_that_belong_to_the_model(folder):
    hub = from_pretrained(folder)
    with pytest.raises(UserError, match="device is not an option of the search; allowed: al"):
        hub.translations(["eins"], device="cpu")
    with pytest.raises(UserError, match="--nbest is 9"):
        hub.translate("eins", nbest=9)


@pytest.mark.parametrize("raw", [True, False])
def test_special_symbols_are_unknown_words(folder, raw):
    """Text has none: the model would take ``</s>`` for the end."""
    path = folder if not raw else FIXTURES / "convs2s.pt"
    options = {"data_name_or_path": str(DATA), "raw": True} if raw else {}
    model = from_pretrained(path, device="cpu", **options)
    lines = ["eins {} zwei", "{}"]
    unknown = [line.format("unbekannt") for line in lines]
    for word in ("<s>", "<pad>", "</s>", "<unk>"):
        given = [line.format(word) for line in lines]
        for line, other in zip(given, unknown):
            assert model.encode(line).tolist() == model.encode(other).tolist()
        assert model.translate(given) == model.translate(unknown)
        # fairseq's own search.
        options = {"sampling": False, "verbose": False}
        assert model.translate(given, **options) == model.translate(unknown, **options)
        found, expected = model.score(given, lines), model.score(unknown, lines)
        assert [one.log_prob for one in found] == [one.log_prob for one in expected]
        targets = [model.score(lines, given), model.score(lines, unknown)]
        assert targets[0][1].log_prob == targets[1][1].log_prob
