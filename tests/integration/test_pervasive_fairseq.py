"""Pervasive attention through fairseq's commands: training, translation, alignments, averaging."""

import pytest
import torch
import yaml

from benchmarks.sentences import read_task, real_batches
from convs2s.checkpoints.files import load_checkpoint
from convs2s.cli import main as convs2s
from convs2s.models.pervasive.batch_norm import RunningStats
from convs2s_plugin.models import PervasiveModel
from tests.support.batch_statistics import load, measure, validation_loss
from tests.support.commands import (
    CRITERION,
    PLUGIN,
    TASK,
    alignments,
    fairseq,
    generate,
    hypotheses,
    train,
    validation_losses,
)

TINY = (
    *("--arch", "pervasive_iwslt_de_en", "--dropout", "0.0"),
    *("--encoder-embed-dim", "32", "--decoder-embed-dim", "32"),
    *("--num-layers", "6", "--growth-rate", "16", "--kernel-size", "3"),
    *("--optimizer", "adam", "--lr", "0.01", "--clip-norm", "1.0", "--max-tokens", "400"),
    *(*TASK, *CRITERION),
)


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    """The checkpoint folder of a model trained on the tiny corpus until it can translate."""
    folder = tmp_path_factory.mktemp("pervasive")
    train(corpus, folder, "--max-epoch", "14", "--keep-last-epochs", "3", options=TINY)
    return folder


def expected(corpus):
    """The reference of each test sentence: its words in reverse order, with another ending."""
    lines = (corpus / "test.de").read_text("utf-8").splitlines()
    return {i: [f"{word}-th" for word in reversed(line.split())] for i, line in enumerate(lines)}


def test_updates_with_the_statistics_of_their_batches(corpus, tmp_path):
    """The averages stay as they are after them, also in a training that is continued."""
    options = ("--statistics-updates", "3", "--save-interval-updates", "1", "--disable-validation")
    train(corpus, tmp_path, "--max-update", "4", *options, options=TINY)
    train(corpus, tmp_path, "--max-update", "6", *options, options=TINY)
    weights, averages = {}, {}
    for path in tmp_path.glob("checkpoint_*_*.pt"):
        updates, model = int(path.stem.split("_")[2]), load_checkpoint(str(path))["model"]
        weights[updates] = model["decoder.network.dense.layers.0.conv1"]
        names = [name for name in model if "running" in name]
        averages[updates] = torch.cat([model[name] for name in names])
    # The fourth one ends the epoch.
    assert [*sorted(averages)] == [1, 2, 3, 5, 6]
    for updates, following in ((1, 2), (2, 3), (3, 5), (5, 6)):
        assert not torch.equal(weights[updates], weights[following])
        same = torch.equal(averages[updates], averages[following])
        assert same == (updates >= 3)


@pytest.mark.parametrize("options", [(), ("--score-reference",), ("--autocast-dtype", "bfloat16")])
def test_translations_and_their_alignments(corpus, trained, options):
    printed = generate(
        corpus, trained / "checkpoint_best.pt", *TASK, *options, "--print-alignment", "hard"
    )
    found, pairs, references = hypotheses(printed), alignments(printed), expected(corpus)
    correct = [i for i in references if found[i][0][1].split() == references[i]]
    assert len(correct) > 0.9 * len(references)
    links = [link for i in correct for link in pairs[i].split()]
    backwards = [
        f"{len(references[i]) - 1 - t}-{t}" for i in correct for t in range(len(references[i]))
    ]
    assert len(links) == len(backwards)
    # Training asks for translations only; random links are right in less than a quarter.
    assert sum(map(str.__eq__, links, backwards)) > 0.4 * len(links)


def test_averaged_checkpoints_have_averaged_statistics(corpus, trained, tmp_path):
    paths = [str(trained / f"checkpoint{epoch}.pt") for epoch in (12, 13, 14)]
    target = str(tmp_path / "average.pt")
    assert convs2s(["average", "--inputs", *paths, "--output", target]) == 0
    found, references = hypotheses(generate(corpus, target, *TASK)), expected(corpus)
    assert sum(found[i][0][1].split() == references[i] for i in references) > 0.9 * len(references)


def test_averaged_statistics_are_as_good_as_recomputed_ones(corpus, trained):
    paths = [str(trained / f"checkpoint{epoch}.pt") for epoch in (12, 13, 14)]
    task = read_task(str(corpus / "bin"))
    losses = measure(task, paths, num_batches=4)
    assert losses.averaged == pytest.approx(losses.averaged_recomputed, abs=0.01)
    # The statistics matter: those of a new model give another loss.
    model = load(paths[-1], task)
    for module in model.modules():
        if isinstance(module, RunningStats):
            module.running_mean.zero_()
            module.running_var.fill_(1.0)
    batches = real_batches(task, "valid", 50)
    pad = task.target_dictionary.pad()
    assert validation_loss(model, batches, pad) > losses.averaged + 0.5


def test_a_checkpoint_contains_the_layers_of_a_file(corpus, tmp_path):
    (tmp_path / "source.adl").write_text("# source layers\nres_nd(birnn) -> linear(24)\n")
    layers = ("--encoder-adl", f"@{tmp_path / 'source.adl'}", "--decoder-adl", "res_nd(cnn(glu))")
    log = train(corpus, tmp_path, "--max-epoch", "8", "--num-layers", "3", *layers, options=TINY)
    losses = validation_losses(log)
    assert losses[-1] < losses[0]
    (tmp_path / "source.adl").unlink()
    path = tmp_path / "checkpoint_best.pt"
    model = torch.load(path, weights_only=True)["cfg"]["model"]
    assert model["encoder_adl"] == "res_nd(birnn) -> linear(24)"
    assert model["decoder_adl"] == "res_nd(cnn(glu))"
    assert sorted(hypotheses(generate(corpus, path, *TASK, "--beam", "3"))) == list(range(24))


def test_from_pretrained(corpus, trained):
    hub = PervasiveModel.from_pretrained(str(trained), "checkpoint_best.pt", str(corpus / "bin"))
    lines = (corpus / "test.de").read_text("utf-8").splitlines()[:3]
    found = hypotheses(generate(corpus, trained / "checkpoint_best.pt", *TASK, "--beam", "3"))
    assert hub.translate(lines, beam=3) == [found[i][0][1] for i in range(3)]


@pytest.mark.parametrize(
    ("name", "last_weight"),
    [
        ("pervasive_de_en", "decoder.network.aggregator.parts.1.scores.weight"),
        ("pervasive_short_de_en", "decoder.network.dense.layers.2.conv1"),
    ],
)
def test_hydra(name, last_weight, corpus, tmp_path):
    shipped = PLUGIN.parent / "examples" / "hydra" / f"{name}.yaml"
    config = yaml.safe_load(shipped.read_text(encoding="utf-8"))
    config["model"].update(num_layers=2, growth_rate=4)
    config["optimization"]["max_epoch"] = 1
    # The corpus of the tests has separate dictionaries.
    config["model"].pop("share_all_embeddings", None)
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    fairseq(
        "hydra_train",
        "--config-dir",
        tmp_path,
        "--config-name",
        "small",
        f"task.data={corpus / 'bin'}",
        f"common.user_dir={PLUGIN}",
        "common.cpu=true",
        "dataset.num_workers=0",
        f"checkpoint.save_dir={tmp_path}",
        cwd=tmp_path,
    )
    model = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)["model"]
    assert "decoder.network.dense.layers.2.conv1" in model
    assert last_weight in model
