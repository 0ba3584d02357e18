"""Other engines: the same network, sentences and lengths."""

import sys
from argparse import Namespace

import pytest

from benchmarks import ctranslate2_peer, speed
from benchmarks.compare import compare
from benchmarks.report import report
from benchmarks.sentences import sentences
from benchmarks.setting import CTRANSLATE2, ONNXRUNTIME, Setting
from benchmarks.workloads import generation
from convs2s.cli import main as convs2s
from convs2s.common.errors import UserError
from tests.support.transformers import BOTH, pre_norm, write_checkpoint
from tests.support.translation import DATA, LINES

OURS = Setting("transformer", words=60, sentences=3, length=6, layers=1, beam=2)
PEER = OURS._replace(engine=CTRANSLATE2)


def test_it_finds_the_same_translations():
    pytest.importorskip("ctranslate2", reason="the extra export is not installed")
    words = sentences(OURS, "test").target
    (ours,), theirs = generation(OURS).run(), generation(PEER).run()
    assert len(ours) == len(theirs) == 3
    for hypotheses, result in zip(ours, theirs):
        tokens = [words[token] for token in hypotheses[0]["tokens"].tolist()]
        assert tokens[-1] == words.eos_word and tokens[:-1] == result


@pytest.mark.parametrize("single", [False, True])
def test_converted_models_find_the_same_translations(single, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra export is not installed")
    path, exported = (str(tmp_path / name) for name in ("model.pt", "transformer.pt"))
    write_checkpoint(path, f"pos -> {pre_norm(1)}", f"pos -> {pre_norm(1, BOTH)}")
    assert convs2s(["export-transformer", path, exported]) == 0
    converter = ctranslate2.converters.FairseqConverter(exported, str(DATA))
    sources = [line.split() for line in LINES]
    names = dict(max_tokens=40, max_len_a=2.0, max_len_b=10, autocast_dtype="none", device="cpu")
    args = Namespace(data=DATA, single=single, **names)
    theirs = speed.prepare_peer(converter.convert(str(tmp_path / "converted")), sources, args)
    ours = speed.prepare_ours(path, sources, args)
    for beam in speed.BEAM_SIZES:
        found, expected = theirs[beam](), ours[beam]()
        assert found == expected and len(set(map(tuple, found))) > 1


def test_report():
    pytest.importorskip("ctranslate2", reason="the extra export is not installed")
    result = compare("generate", OURS, PEER._replace(dtype="int8"), rounds=1)
    assert result["matmul"]["peer"]["not_counted"] == [CTRANSLATE2]
    assert "`transformer` in CTranslate2 (int8)" in report(result)


def test_without_ctranslate2(monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserError, match="needs ctranslate2: run `pip install ctranslate2`"):
        ctranslate2_peer.generation(PEER)


def test_graphs_find_the_same_translations():
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason="the extra export is not installed")
    setting = Setting("adl_transformer_small", words=60, sentences=3, length=6, beam=2)
    words, graphs = (
        [[each["tokens"].tolist() for each in hypotheses] for hypotheses in found]
        for side in (setting, setting._replace(engine=ONNXRUNTIME))
        for found in generation(side).run()
    )
    assert words == graphs
