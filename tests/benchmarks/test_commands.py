"""The commands ``train``, ``generate``, ``memory``, ``loss`` and ``search``."""

import json
import re

import pytest
import torch

from benchmarks import machine, measure, workloads
from benchmarks.measure import alternate, ratios, summary
from benchmarks.sentences import sentences
from benchmarks.setting import Setting, build
from benchmarks.workloads import generation, sequence_training, training
from convs2s.common.errors import UserError
from convs2s.common.installation import FAIRSEQ
from tests.support.benchmark_runs import TINY, benchmark


class Clock:
    """A clock that moves only when its own work functions are called."""

    def __init__(self):
        self.now, self.names = 100.0, []

    def perf_counter(self):
        return self.now

    def work(self, name, *seconds):
        """A function whose calls take these seconds in turn, and then the last of them."""
        times = iter(seconds)
        last = seconds[-1]

        def run():
            self.names.append(name)
            self.now += next(times, last)

        return run


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(measure, "time", found)
    return found


def test_rounds_alternate(clock):
    timed = {"ours": clock.work("ours", 9, 1, 2, 4), "peer": clock.work("peer", 9, 3, 8, 4)}
    times = alternate(timed, rounds=3, warmup=1)
    assert clock.names == ["ours", "peer"] * 4
    assert times == {"ours": [1, 2, 4], "peer": [3, 8, 4]}
    ratio = summary(ratios(times["peer"], times["ours"]))
    assert ratio == {"minimum": 1, "median": 3, "maximum": 4}


@pytest.mark.parametrize("max_seconds, rounds", [(None, 50), (10.5, 6), (0.5, 3)])
def test_time_limit(clock, max_seconds, rounds):
    times = alternate({"one": clock.work("one", 2)}, 50, warmup=0, max_seconds=max_seconds)
    assert times == {"one": [2] * rounds}


@pytest.mark.parametrize("work", ["train", "generate"])
def test_comparison(work, tmp_path, monkeypatch, capsys):
    target = tmp_path / "result.json"
    assert benchmark(monkeypatch, work, *TINY, "--rounds", 2, "--json", target) == 0
    printed = capsys.readouterr().out
    assert "ratio (peer's time / ours)" in printed and "they would take" in printed
    result = json.loads(target.read_text(encoding="utf-8"))
    assert result["peer"]["arch"] == "fconv_iwslt_de_en" and result["rounds"] == 2
    assert result["machine"]["torch"] and result["machine"]["device"] not in ("", "x86_64")
    assert all(value > 0 for value in result["seconds"]["ratio"].values())
    for side in ("ours", "peer"):
        matmul = result["matmul"][side]
        shares = matmul["share"].values()
        assert matmul["flops"] > 0 and all(share > 0 for share in shares)
        assert result["parameters"][side] > 1e6


def test_precision_and_criterion_of_each_side(monkeypatch, tmp_path):
    target = tmp_path / "result.json"
    options = ("--dtype", "bfloat16", "--criterion", "label_smoothed_cross_entropy")
    peers = ("--peer", "convs2s_iwslt_de_en", "--peer-criterion", "convs2s_cross_entropy")
    assert benchmark(monkeypatch, "train", *TINY, *options, *peers, "--rounds", 1,
                     "--json", target) == 0  # fmt: skip
    result = json.loads(target.read_text(encoding="utf-8"))
    assert (result["ours"]["dtype"], result["peer"]["dtype"]) == ("bfloat16", "float32")
    assert result["ours"]["criterion"] == "label_smoothed_cross_entropy"
    assert result["matmul"]["ours"]["flops"] == pytest.approx(
        result["matmul"]["peer"]["flops"], rel=0.01
    )


@pytest.mark.slow
def test_memory_of_pervasive_attention_and_plain_pervasive(monkeypatch, capsys):
    sizes = ("--layers", 6, "--words", 60, "--sentences", 8, "--length", 20)
    archs = ("--arch", "pervasive", "--peer", "plain_pervasive")
    assert benchmark(monkeypatch, "memory", *archs, *sizes) == 0
    (ratio,) = re.findall(r"Peak memory: .* \(ratio (.*)\)", capsys.readouterr().out)
    assert 0 < float(ratio) < 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    "command, sizes, logits, limit",
    [
        ("loss", {"words": 20000, "tokens": 2000, "channels": 16}, 20000 * 2000, 1.5),
        ("search", {"words": 40000, "sentences": 16, "length": 3}, 40000 * 16 * 5, 2.5),
    ],
)
def test_time_and_memory_of_a_part(command, sizes, logits, limit, tmp_path, monkeypatch, capsys):
    """Ours stays below a multiple of the logits' size in float32, and below the peer."""
    target = tmp_path / "result.json"
    given = [item for name, value in sizes.items() for item in (f"--{name}", value)]
    assert benchmark(monkeypatch, command, *given, "--rounds", 1, "--json", target) == 0
    printed = capsys.readouterr().out
    assert "ratio (peer's time / ours)" in printed and "Peak memory: " in printed
    peaks = json.loads(target.read_text(encoding="utf-8"))["bytes"]
    assert 0 < peaks["ours"] < min(limit * logits * 4, peaks["peer"])


@pytest.mark.parametrize(
    "arch",
    [
        "convs2s_iwslt_de_en",
        "fconv_iwslt_de_en",
        "pervasive",
        "plain_pervasive",
        "adl_transformer_wmt",
        "transformer",
        "lstm",
        "adl_rnn_mh_pos_norm_multi_att_ff_wmt",
    ],
)
def test_layers_set_the_depth(arch):
    def count_parameters(layers):
        setting = Setting(arch, words=30, layers=layers)
        data = sentences(setting, "train")
        return sum(p.numel() for p in build(setting, data.source, data.target).parameters())

    sizes = [count_parameters(layers) for layers in (2, 3, 4)]
    steps = [after - before for before, after in zip(sizes, sizes[1:])]
    # A layer of a DenseNet reads the output of all layers before it, so it is larger than these.
    assert 0 < steps[0] <= steps[1] and (steps[0] == steps[1] or "pervasive" in arch)


def test_definition_without_repeat_keeps_its_depth():
    setting = Setting("adl_rnnsearch", words=30, layers=3)
    data = sentences(setting, "train")
    with pytest.raises(UserError, match="adl_rnnsearch cannot have --layers 3"):
        build(setting, data.source, data.target)


def test_generation_with_candidates_produces_only_these():
    setting = Setting("convs2s_iwslt_de_en", words=300, sentences=2, length=6, candidates=20)
    unrestricted = generation(setting._replace(candidates=None)).run()
    restricted = generation(setting).run()
    tokens = [
        torch.cat([h["tokens"] for batch in batches for beam in batch for h in beam])
        for batches in (unrestricted, restricted)
    ]
    assert tokens[0].max() >= 20 and tokens[1].max() < 20
    assert [len(beam[0]["tokens"]) for beam in restricted[0]] == [6, 6]


@pytest.mark.parametrize("arch", ["convs2s_iwslt_de_en", "pervasive", "fconv_iwslt_de_en"])
def test_generation_computes_no_attention(arch, monkeypatch):
    models = []

    def build_and_keep(*arguments):
        models.append(build(*arguments))
        return models[0]

    monkeypatch.setattr(workloads, "build", build_and_keep)
    (hypotheses,) = generation(Setting(arch, words=60, sentences=1, length=4, layers=1)).run()
    assert models[0].decoder.need_attn is False
    assert all(not len(h["attention"]) for beam in hypotheses for h in beam)


def test_half_precision_is_close_to_single_precision():
    setting = Setting("fconv_iwslt_de_en", words=60, sentences=2, length=4)
    (single,), (half,) = (
        generation(setting._replace(dtype=dtype)).run() for dtype in ("float32", "half")
    )
    first, second = (float(batch[0][0]["score"]) for batch in (single, half))
    assert first != second and first == pytest.approx(second, rel=0.01)


def test_binarized_data(corpus, monkeypatch, tmp_path):
    target = tmp_path / "result.json"
    options = ("--data", corpus / "bin", "--batches", 2, "--sentences", 4, "--rounds", 1)
    assert benchmark(monkeypatch, "generate", *options, "--json", target) == 0
    assert json.loads(target.read_text(encoding="utf-8"))["ours"]["batches"] == 2
    setting = Setting("fconv_iwslt_de_en", sentences=4, data=str(corpus / "bin"), batches=2)
    data = sentences(setting, "train")
    assert len(data.source) == 12 + data.source.nspecial
    assert [batch["nsentences"] for batch in data.batches] == [4, 4]
    training(setting).run()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("command", ["train", "generate", "memory"])
def test_gpu(command, tmp_path, monkeypatch):
    target = tmp_path / "result.json"
    dtypes = ("--dtype", "float16", "--peer-dtype", "half", "--device", "cuda")
    assert benchmark(monkeypatch, command, *TINY, *dtypes, "--json", target) == 0
    result = json.loads(target.read_text(encoding="utf-8"))
    assert result["bytes"]["ours"] > 0 and result["bytes"]["peer"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--arch", "convs3s"], "There is no architecture convs3s"),
        (["train", "--device", "cuda"], "--device cuda needs a GPU"),
        (["train", "--data", "nowhere"], "nowhere cannot be read as a folder that"),
        (
            ["generate", "--candidates", 9000],
            "--candidates is 9000",
        ),
        (["train", "--arch", "adl_rnnsearch", "--layers", 3], "cannot have --layers 3"),
        (["memory", "--arch", "convs3s"], "There is no architecture convs3s"),
        (["growth", "--out", __file__], f"File exists: {__file__}."),
    ],
)
def test_errors(arguments, message, monkeypatch, capsys):
    if "cuda" in arguments and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert benchmark(monkeypatch, *arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--rounds", "--words", "--length", "--layers", "--beam"])
@pytest.mark.parametrize("value", ["0", "-1", "two"])
def test_invalid_numbers(option, value, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        benchmark(monkeypatch, "generate", f"{option}={value}")
    assert f"argument {option}: '{value}' is not a whole number" in capsys.readouterr().err


def test_too_many_batches(corpus, monkeypatch, capsys):
    assert benchmark(monkeypatch, "train", "--data", corpus / "bin", "--batches", 99) == 2
    assert "--batches is 99, but the train set" in capsys.readouterr().err


def test_an_update_on_candidates_against_token_level_updates(monkeypatch):
    """The candidates are as long as the references; the other side is as many updates."""
    sizes = {"words": 60, "sentences": 3, "length": 5, "layers": 1}
    ours = Setting("convs2s_iwslt_de_en", criterion="convs2s_sequence_risk", **sizes)
    peer = ours._replace(criterion="convs2s_cross_entropy")
    found = []
    search = workloads.SearchOfLength._search

    def remember(self, *arguments):
        found.append(search(self, *arguments))
        return found[-1]

    monkeypatch.setattr(workloads.SearchOfLength, "_search", remember)
    sequence_training(ours).run()
    ((first, *_),) = found
    assert [len(hypothesis["tokens"]) for hypothesis in first] == [5] * 8
    calls = []
    loss = workloads.ConvS2SCrossEntropy.forward

    def count(self, *arguments):
        calls.append(self)
        return loss(self, *arguments)

    monkeypatch.setattr(workloads.ConvS2SCrossEntropy, "forward", count)
    sequence_training(peer).run()
    assert len(calls) == 8 and len(found) == 1


def test_int8_is_for_generation():
    setting = Setting("convs2s_iwslt_de_en", words=60, sentences=2, length=4, dtype="int8")
    (hypotheses,) = generation(setting).run()
    assert len(hypotheses) == 2
    with pytest.raises(UserError, match="Models cannot be trained in int8"):
        training(setting)


@pytest.mark.parametrize("command", ["loss", "systems words.yaml data-bin"])
def test_files_are_checked_before_anything_is_measured(command, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(measure, "time", None)
    target = tmp_path / "missing" / "result.json"
    assert benchmark(monkeypatch, *command.split(), "--json", target) == 2
    assert f"there is no folder {target.parent}" in capsys.readouterr().err
    if command == "loss":
        return
    assert benchmark(monkeypatch, *command.split(), "--speeds", target) == 2
    assert f"there is no folder {target.parent}" in capsys.readouterr().err


@pytest.mark.parametrize("name", FAIRSEQ)
def test_every_distribution_of_fairseq_is_named(name, monkeypatch):
    versions = {name: "0.12.3", "convs2s-plugin": "0.2"}
    monkeypatch.setattr(machine, "installed_version", versions.get)
    found = machine.machine("cpu")
    assert (found["fairseq"], found["convs2s-plugin"]) == (f"{name} 0.12.3", "0.2")
