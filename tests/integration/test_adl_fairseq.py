"""Models in ADL with fairseq's own commands, with custom layers and definitions."""

import pytest
import torch
import yaml

from convs2s.cli import main as convs2s
from convs2s.translation.precision import is_supported
from convs2s_plugin.models import AdlModel
from tests.conftest import WORDS
from tests.support.commands import (
    CRITERION,
    PLUGIN,
    TASK,
    alignments,
    fairseq,
    generate,
    hypotheses,
    refused,
    run,
    train,
    train_arguments,
    validation_losses,
)
from tests.support.doc_blocks import DOCS, blocks

SENTENCES = 24
TRAINING = (
    *("--arch", "adl", "--model-dim", "32", "--attention-heads", "2", "--dropout", "0.1"),
    *("--optimizer", "adam", "--lr", "0.01", "--clip-norm", "1.0", "--max-tokens", "400"),
    *("--share-input-output-embed", *TASK, *CRITERION),
)
ENCODER = "pos -> res_nd(birnn) -> res_nd(cnn(glu)) -> norm"
DECODER = "pos -> repeat(2, res_nd(rnn) -> res_nd(mh_dot_src_att) -> res_nd(ffl)) -> norm"


@pytest.fixture(scope="module")
def hybrid(corpus, tmp_path_factory):
    """A hybrid without a name, trained from a definition in a file that is deleted afterwards."""
    folder = tmp_path_factory.mktemp("hybrid")
    (folder / "encoder.adl").write_text(f"# a hybrid\n{ENCODER}\n", encoding="utf-8")
    arguments = ("--encoder-adl", f"@{folder / 'encoder.adl'}", "--decoder-adl", DECODER)
    log = train(corpus, folder, "--max-epoch", "16", *arguments, options=TRAINING)
    (folder / "encoder.adl").unlink()
    losses = validation_losses(log)
    assert losses[-1] < 0.6 * losses[0]
    return folder / "checkpoint_last.pt"


def test_the_checkpoint_holds_the_definition_itself(hybrid):
    model = torch.load(hybrid, weights_only=True)["cfg"]["model"]
    assert model["encoder_adl"] == ENCODER
    assert model["decoder_adl"] == DECODER


def test_a_definition_that_a_checkpoint_cannot_hold(corpus, tmp_path):
    """A file may be as long as a definition, but not two of them together."""
    (tmp_path / "half.adl").write_text("->".join(["res(id)"] * 1200))
    definition = f"pos -> @{tmp_path}/half.adl -> @{tmp_path}/half.adl"
    sides = ("--encoder-adl", definition, "--decoder-adl", "mlp_att")
    arguments = train_arguments(corpus, tmp_path, "--max-update", "1", *sides, options=TRAINING)
    said = refused(run("train", *arguments))
    assert "With the files that it includes, --encoder-adl has 26,4" in said
    assert not list(tmp_path.glob("*.pt"))


def test_translating_with_alignments_and_candidates(hybrid, corpus, tmp_path):
    found = hypotheses(generate(corpus, hybrid, *TASK, "--beam", 3))
    assert sorted(found) == list(range(SENTENCES))
    aligned = alignments(generate(corpus, hybrid, *TASK, "--print-alignment", "hard"))
    assert sorted(aligned) == list(range(SENTENCES))
    lexicon = tmp_path / "lexicon"
    lexicon.write_text("".join(f"{word} {word}-th 1.0\n" for word in WORDS), encoding="utf-8")
    reduced = generate(corpus, hybrid, *TASK, "--beam", 3, "--lexicon", lexicon)
    assert hypotheses(reduced) == found


def test_half_precision_scores_references_nearly_alike(hybrid, corpus):
    arguments = (corpus, hybrid, *TASK, "--score-reference")
    exact = hypotheses(generate(*arguments))
    rough = hypotheses(generate(*arguments, "--autocast-dtype", "bfloat16"))
    computed = is_supported(torch.bfloat16, torch.device("cpu"))
    for i, ((score, _),) in exact.items():
        assert rough[i][0][0] == pytest.approx(score, abs=0.1)
        assert (rough[i][0][0] != score) == computed


def test_scores_of_the_search_are_those_of_a_full_pass(hybrid, corpus):
    searched = hypotheses(generate(corpus, hybrid, *TASK, "--beam", 4, "--lenpen", 0))
    model = AdlModel.from_pretrained(
        str(hybrid.parent), hybrid.name, str(corpus / "bin"), task="convs2s_translation"
    )
    lines = (corpus / "test.de").read_text(encoding="utf-8").splitlines()
    for i in (0, 5, 11):
        score, text = searched[i][0]
        source = model.encode(lines[i]).unsqueeze(0)
        target = model.tgt_dict.encode_line(text, add_if_not_exist=False).long()
        prefix = target.roll(1).unsqueeze(0)
        with torch.no_grad():
            logits, _ = model.models[0](source, None, prefix)
        full = logits[0].log_softmax(-1).gather(1, target.unsqueeze(1)).sum().item()
        # fairseq prints scores to the base of 2.
        assert score * 0.6931472 == pytest.approx(full, abs=2e-3)


def test_an_ensemble_with_convs2s(hybrid, trained, corpus):
    both = f"{hybrid}:{trained / 'checkpoint_last.pt'}"
    assert sorted(hypotheses(generate(corpus, both, *TASK))) == list(range(SENTENCES))


def test_shared_weights_with_every_tool(corpus, tmp_path):
    """Names in a file, training with averages, int8, the average of checkpoints, translation."""
    (tmp_path / "block.adl").write_text("let att = res_nd(mh_dot_self_att);\nshare(att) -> norm\n")
    definitions = (
        *("--encoder-adl", f"pos -> cycle(3, @{tmp_path}/block.adl, bi(rnn(d=16)))"),
        *("--decoder-adl", "let b = res_nd(rnn) -> res_nd(mh_dot_src_att); repeat(3, share(b))"),
    )
    train(corpus, tmp_path, "--max-epoch", "2", "--store-ema", *definitions, options=TRAINING)
    path = tmp_path / "checkpoint_last.pt"
    checkpoint = torch.load(path, weights_only=True)
    saved = checkpoint["cfg"]["model"]["encoder_adl"]
    assert saved.startswith("let att = res_nd(mh_dot_self_att); pos -> cycle(3, share(att) -> norm")
    names = [name for name in checkpoint["model"] if "queries" in name]
    assert len(names) == 2  # one in each side
    expected = hypotheses(generate(corpus, path, *TASK, "--beam", 3))
    lines = corpus / "test.de"
    for command in (
        ["quantize", path, tmp_path / "int8.pt"],
        ["average", "--inputs", path, path, "--output", tmp_path / "mean.pt"],
        ["average", "--ema", path, "-o", tmp_path / "ema.pt"],
    ):
        assert convs2s(list(map(str, command))) == 0
        output = tmp_path / "output"
        files = ("--data", corpus / "bin", "--input", lines, "--output", output)
        found = ("translate", "--path", command[-1], *files, "--beam", 3, "--device", "cpu")
        assert convs2s(list(map(str, found))) == 0
        translated = output.read_text(encoding="utf-8").splitlines()
        assert len(translated) == SENTENCES
        if command[-1].name == "mean.pt":
            assert translated == [expected[number][0][1] for number in range(SENTENCES)]


def test_a_custom_layer(corpus, tmp_path):
    package = tmp_path / "my_layers"
    package.mkdir()
    example = blocks(DOCS / "add_a_layer.md")[0]
    (package / "__init__.py").write_text(example.code, encoding="utf-8")
    definitions = ("--encoder-adl", "gain(2) -> birnn", "--decoder-adl", "rnn -> res(mlp_att)")
    own = ("--user-dir", package)
    train(corpus, tmp_path, "--max-epoch", "1", *definitions, *own, options=TRAINING)
    path = tmp_path / "checkpoint_last.pt"
    weights = torch.load(path, weights_only=True)["model"]
    assert weights["encoder.layers.0.weight"].shape == (32,)
    printed = fairseq(
        "generate",
        corpus / "bin",
        *own,
        "--path",
        path,
        "--cpu",
        "--max-tokens",
        "200",
    )
    assert sorted(hypotheses(printed)) == list(range(SENTENCES))


def test_the_error_of_a_wrong_definition_shows_its_place(corpus, tmp_path):
    decoder = "pos -> repeat(2, res_nd(cnn(glu)) -> res_nd(mh_dot_src_at)) -> norm"
    done = run(
        "train",
        corpus / "bin",
        "--user-dir",
        PLUGIN,
        "--save-dir",
        tmp_path,
        "--cpu",
        "--arch",
        "adl_transformer",
        "--decoder-adl",
        decoder,
        *TRAINING[2:],
    )
    sentence = refused(done)
    assert "--decoder-adl, line 1, column 45" in sentence and "mh_dot_src_att" in sentence
    assert decoder in sentence and "\n" + " " * 46 + "^" in sentence


def test_hydra(corpus, tmp_path):
    text = (PLUGIN.parent / "examples" / "hydra" / "adl_de_en.yaml").read_text(encoding="utf-8")
    config = yaml.safe_load(text)
    assert config["model"]["_name"] == "adl"
    config["model"]["model_dim"] = 16
    config["optimization"]["max_epoch"] = 1
    (tmp_path / "adl_de_en.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    fairseq(
        "hydra_train",
        "--config-dir",
        tmp_path,
        "--config-name",
        "adl_de_en",
        f"task.data={corpus / 'bin'}",
        f"common.user_dir={PLUGIN}",
        "common.cpu=true",
        "dataset.num_workers=0",
        f"checkpoint.save_dir={tmp_path}",
        cwd=tmp_path,
    )
    path = tmp_path / "checkpoint_last.pt"
    assert "encoder.layers.1.chain.1.forwards.weight_ih_l0" in torch.load(path)["model"]
    assert sorted(hypotheses(generate(corpus, path, *TASK))) == list(range(SENTENCES))
