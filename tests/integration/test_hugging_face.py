"""Exported models in transformers: they search, learn and are saved as its own models are."""

import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch

pytest.importorskip("transformers")

import transformers
from torch.nn import functional as F
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

import convs2s.hf
from convs2s.checkpoints.files import load_checkpoint
from convs2s.common.errors import UserError
from convs2s.models.adl.network import AdlNetwork
from convs2s.models.adl.options import AdlOptions
from convs2s.models.interface import Vocabularies
from convs2s.translation.pretrained import load_translator
from tests import ROOT
from tests.support.adl_random import random_definition
from tests.support.batches import vocabulary
from tests.support.translation import FIXTURES, LIMIT, LINES, MODELS, copied, export

# Models of the fixtures refuse longer lines, which `convs2s translate` splits.
SHORT = [line for line in LINES if line and len(line.split()) < LIMIT]


@pytest.fixture(scope="module", params=MODELS)
def folder(request, tmp_path_factory):
    """An exported model."""
    path = tmp_path_factory.mktemp(request.param)
    export(copied(request.param, path / "prepared"), path / "exported", "--beam", 4)
    return path / "exported"


def load(folder):
    return AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def translations(folder, **options):
    model, tokenizer = load(folder)
    batch = tokenizer(SHORT, return_tensors="pt", padding=True)
    return tokenizer.batch_decode(model.generate(**batch, **options), skip_special_tokens=True)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_search_finds_the_same(folder, beam):
    expected = load_translator(folder, beam=beam).translate(SHORT)
    options = {} if beam == 4 else {"num_beams": 1, "length_penalty": 1.0, "early_stopping": False}
    found = translations(folder, **options)
    pairs = zip(found, (each.text for each in expected), strict=True)
    # The end that transformers forces at the largest length does not count in its scores of beams.
    pairs = [pair for pair in pairs if beam == 1 or len(pair[0].split()) < LIMIT - 1]
    assert len(pairs) >= 7 and all(theirs == ours for theirs, ours in pairs)


def test_the_loss_of_labels_is_their_cross_entropy(folder):
    model, tokenizer = load(folder)
    batch = tokenizer(
        SHORT[:3], text_target=["one-th", "one-th two-th", "a"], return_tensors="pt", padding=True
    )
    labels = batch["labels"].masked_fill(batch["labels"].eq(1), -100)
    loss = model(batch["input_ids"], batch["attention_mask"], labels=labels).loss
    one_by_one = []
    for source, target in zip(batch["input_ids"], labels):
        source, target = source[source.ne(1)], target[target.ne(-100)]
        previous = torch.cat([torch.tensor([2]), target[:-1]])
        logits = model.network(source.unsqueeze(0), previous.unsqueeze(0))[0]
        one_by_one.append(F.cross_entropy(logits, target, reduction="none"))
    torch.testing.assert_close(loss, torch.cat(one_by_one).mean())


def test_saved_models_are_the_same(folder, tmp_path):
    model, tokenizer = load(folder)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert translations(tmp_path) == translations(folder)
    weights = load_checkpoint(str(folder / "model.safetensors"))["model"]
    again = load_checkpoint(str(tmp_path / "model.safetensors"))["model"]
    assert weights.keys() == again.keys()
    assert all(torch.equal(weights[name], again[name]) for name in weights)


def test_a_new_network_has_the_shapes_of_the_model(folder):
    model, _ = load(folder)
    new = AutoModelForSeq2SeqLM.from_config(AutoConfig.from_pretrained(folder))
    shapes = [{name: w.shape for name, w in each.state_dict().items()} for each in (model, new)]
    assert shapes[0] == shapes[1]


def test_attention_to_the_source(folder):
    model, tokenizer = load(folder)
    batch = tokenizer(SHORT[:1], return_tensors="pt")
    previous = torch.tensor([[2, 5, 6]])
    found = model(**batch, decoder_input_ids=previous, output_attentions=True).cross_attentions
    (weights,) = found
    assert weights.shape == (1, 1, 3, batch["input_ids"].size(1))
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 3))


@pytest.mark.parametrize("seed", range(12))
def test_the_state_of_definitions_at_random(seed):
    """Scores of a beam search are those of its translations at once."""
    torch.manual_seed(seed)
    options, symbols = AdlOptions(**random_definition(seed).options()), vocabulary()
    network = AdlNetwork(options, Vocabularies(len(symbols), len(symbols))).eval()
    config = convs2s.hf.Convs2sConfig(dictionaries={"target": {"tokens": len(symbols)}})
    model = convs2s.hf.Convs2sForConditionalGeneration(config, network)
    source = torch.randint(4, len(symbols), (3, 6))
    source[:, -1] = 2
    source[1, :2] = 1
    found = model.generate(
        input_ids=source,
        attention_mask=source.ne(1).long(),
        num_beams=4,
        num_return_sequences=4,
        do_sample=False,
        max_new_tokens=9,
        return_dict_in_generate=True,
        output_scores=True,
    )
    for number, (tokens, score) in enumerate(zip(found.sequences, found.sequences_scores)):
        # Padding follows the end of the sentence.
        end = (tokens[1:].eq(2).long().argmax() + 1) if 2 in tokens[1:] else len(tokens) - 1
        previous, target = tokens[:end], tokens[1 : end + 1]
        row = source[number // 4]
        logits = network(row[row.ne(1)].unsqueeze(0), previous.unsqueeze(0))[0]
        log_probs = logits.log_softmax(-1).gather(1, target.unsqueeze(1))
        torch.testing.assert_close(score, log_probs.mean(), rtol=1e-4, atol=1e-4)


def trainer_of(model, tokenizer, lines, output, optimizer=None, **options):
    """A Trainer of a model, with targets of equal length."""
    pytest.importorskip("accelerate")
    if find_spec("torchaudio") is not None:
        # transformers imports it for a Trainer, and that of fairseq may be too old for this torch.
        pytest.importorskip("torchaudio", exc_type=OSError)
    text = [dict(tokenizer(line, text_target="one-th two-th")) for line in lines]
    return transformers.Seq2SeqTrainer(
        model=model,
        args=transformers.Seq2SeqTrainingArguments(
            str(output), report_to=[], disable_tqdm=True, use_cpu=True, **options
        ),
        train_dataset=text,
        eval_dataset=text,
        data_collator=transformers.DataCollatorForSeq2Seq(tokenizer, model=model),
        optimizers=(optimizer, None),
    )


def test_one_epoch_of_a_trainer(folder, tmp_path):
    model, tokenizer = load(folder)
    trainer = trainer_of(
        *(model, tokenizer, SHORT, tmp_path),
        num_train_epochs=1,
        per_device_train_batch_size=4,
        learning_rate=0.003,
        save_strategy="epoch",
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before
    (saved,) = tmp_path.glob("checkpoint-*")
    again = AutoModelForSeq2SeqLM.from_pretrained(saved).state_dict()
    assert all(torch.equal(weight, again[name]) for name, weight in model.state_dict().items())


def test_accumulated_gradients_are_those_of_one_batch(folder, tmp_path, monkeypatch):
    found = []
    for size in (4, 2):
        model, tokenizer = load(folder)
        # Dropout would differ between the batches.
        monkeypatch.setattr(model, "train", lambda mode=True, model=model: model)
        trainer = trainer_of(
            *(model, tokenizer, SHORT[:4], tmp_path, torch.optim.SGD(model.parameters(), lr=0.1)),
            max_steps=1,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=4 // size,
            max_grad_norm=0.0,
            save_strategy="no",
        )
        loss = trainer.train().training_loss
        found.append({"loss": torch.tensor(loss), **model.state_dict()})
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(
    int(transformers.__version__.split(".")[0]) >= 5, reason="transformers 5 has no such pipeline"
)
def test_a_pipeline(folder):
    pipeline = transformers.pipeline("translation", model=str(folder))
    found = [each["translation_text"] for each in pipeline(SHORT[:3])]
    assert found == translations(folder)[:3]


def test_fairseq_is_not_needed(folder):
    code = f"""
import sys
sys.modules["fairseq"] = None
import convs2s.hf
from transformers import AutoModelForSeq2SeqLM
AutoModelForSeq2SeqLM.from_pretrained({str(folder)!r})
assert "omegaconf" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_a_damaged_folder_is_one_sentence(tmp_path):
    export(FIXTURES / "convs2s.pt", tmp_path / "exported", "--data", FIXTURES / "data", "--raw")
    path = tmp_path / "exported" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(UserError, match="not a complete file of weights"):
        AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "exported")


@pytest.fixture(scope="module")
def without_preparation(tmp_path_factory):
    """The tokenizer of a folder without preparation.yaml."""
    path = tmp_path_factory.mktemp("raw") / "exported"
    export(FIXTURES / "convs2s.pt", path, "--data", FIXTURES / "data", "--raw")
    assert not (path / "preparation.yaml").exists()
    return AutoTokenizer.from_pretrained(path)


@pytest.mark.parametrize("side", ["text", "text_target"])
def test_words_with_names_of_symbols_are_unknown(without_preparation, side):
    for name in ("<s>", "<pad>", "</s>", "<unk>"):
        given, expected = (
            without_preparation(**{side: f"eins {word} zwei {word}"}) for word in (name, "neunzig")
        )
        assert given["input_ids"] == expected["input_ids"]


def test_a_tokenizer_has_the_options_that_are_given(without_preparation):
    options = {"model_max_length": 2, "padding_side": "left", "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(without_preparation.folder, **options)
    assert "local_files_only" not in tokenizer.init_kwargs
    batch = tokenizer(["eins zwei", ""], truncation=True, padding=True)
    one, end = without_preparation("eins")["input_ids"]
    assert batch["input_ids"] == [[one, end], [tokenizer.pad_token_id, end]]


def test_the_end_of_the_sentence_is_a_special_token(without_preparation):
    batch = without_preparation(
        ["eins zwei", "eins"], return_special_tokens_mask=True, padding=True
    )
    (*_, end), (*_, padding) = batch["input_ids"]
    assert end == without_preparation.eos_token_id and padding == without_preparation.pad_token_id
    assert batch["special_tokens_mask"] == [[0, 0, 1], [0, 1, 1]]
    given = batch["input_ids"][0]
    mask = without_preparation.get_special_tokens_mask(given, already_has_special_tokens=True)
    assert mask == [0, 0, 1]


def test_unknown_words_are_special_tokens(without_preparation):
    """docs/export.md says what that means for a translation."""
    tokens = without_preparation.convert_tokens_to_ids(["eins", "neunzig", "zwei"])
    texts = [without_preparation.decode(tokens, skip_special_tokens=skip) for skip in (True, False)]
    assert "<unk>" not in texts[0] and "<unk>" in texts[1]


@pytest.mark.parametrize("name", ["no/such/model", "nobody/nothing"])
def test_a_missing_folder_is_one_sentence(name, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for model in (convs2s.hf.Convs2sForConditionalGeneration, convs2s.hf.Convs2sTokenizer):
        with pytest.raises(UserError, match=f"There is no folder {name}, and it cannot be fetched"):
            model.from_pretrained(name, local_files_only=True)


def test_a_dictionary_of_another_model_is_one_sentence(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    words = tmp_path / "copy" / "dict.en.txt"
    text = words.read_text(encoding="utf-8")
    for changed in (text.replace("eins-th", "one"), text + "more 1\n"):
        words.write_text(changed, encoding="utf-8")
        with pytest.raises(UserError, match="target dictionary|dict.en.txt"):
            AutoTokenizer.from_pretrained(tmp_path / "copy")


def test_what_a_model_needs_is_asked_for(folder):
    model, tokenizer = load(folder)
    batch = tokenizer(SHORT[:1], return_tensors="pt")
    with pytest.raises(UserError, match="no target text: give decoder_input_ids or labels"):
        model(**batch)
    with pytest.raises(UserError, match="no source text: give input_ids or encoder_outputs"):
        model(labels=batch["input_ids"])


def test_unknown_options_are_refused(folder):
    with pytest.raises(UserError, match="revison is not an option of from_pretrained .did you"):
        AutoModelForSeq2SeqLM.from_pretrained(folder, revison="main")
