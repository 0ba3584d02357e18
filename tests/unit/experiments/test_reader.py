"""Reading an experiment file, and the errors in one."""

import pytest

from convs2s.common.errors import UserError
from convs2s.experiments.file import Averaging, Experiment, System
from convs2s.experiments.options import arguments, with_updates
from convs2s.experiments.reader import read_experiment, schema
from convs2s.experiments.runs import all_runs

SMALL = """
data: {source: de, target: en}
train: {optimizer: adam, lr: 0.1, flag: true}
systems:
  a: {updates: 8, train: {arch: some, flag: null}}
"""


@pytest.fixture
def read(tmp_path):
    """Reads an experiment from text."""

    def read(text):
        path = tmp_path / "file.yaml"
        path.write_text(text, encoding="utf-8")
        return read_experiment(path)

    return read


def test_defaults(read, tmp_path):
    experiment = read(SMALL + '  b: {title: "The b", runs_of: a, generate: {beam: 3}}\n')
    assert experiment.title == "file" and experiment.baseline is None
    assert experiment.data.train == ("train",) and experiment.data.test == ("test*",)
    assert experiment.systems["a"].seeds == (1,) and experiment.systems["a"].average == Averaging(1)
    assert experiment.systems["b"].title == "The b"
    assert experiment.systems["b"].generate == {"beam": 3}
    assert [run.name for run in all_runs(experiment)] == ["a.1", "b.1"]
    assert read(SMALL.replace("en}", "en, text: here}")).data.text == tmp_path / "here"
    prepared = read(SMALL.replace("source: de, target: en", "prepared: here")).data
    assert prepared.prepared == tmp_path / "here" and prepared.text is None


def test_names_that_yaml_reads_as_numbers(read):
    systems = read(SMALL + "  2017: {updates: 8, reverse: true, train: {arch: some}}\n").systems
    assert systems["2017"].reverse and systems["2017"].searches == ()


def test_trials_alone(read):
    experiment = read(SMALL.replace("updates: 8", "updates: 8, seeds: [], trials: {lr: [1, 2]}"))
    assert [run.name for run in all_runs(experiment)] == ["a.trial1", "a.trial2"]


def test_outer_options_and_trials(read):
    text = SMALL + "    trials: {lr: [1, 2], dropout: [0, 0.5]}\n"
    experiment = read(text.replace("  a: {updates: 8, train: {arch: some, flag: null}}", BLOCK))
    runs = all_runs(experiment)
    assert [run.name for run in runs] == [f"a.trial{n}" for n in (1, 2, 3, 4)] + ["a.1"]
    assert [(run.train["lr"], run.train["dropout"]) for run in runs[:4]] == [
        (1, 0), (1, 0.5), (2, 0), (2, 0.5)
    ]  # fmt: skip
    assert [run.updates for run in runs] == [2, 2, 2, 2, 8]
    assert arguments(runs[0].train) == (
        "--optimizer adam --lr 1 --arch some --warmup 2 --dropout 0".split()
    )


BLOCK = """  a:
    updates: 8
    train: {arch: some, flag: null, warmup: "{updates}"}"""


@pytest.mark.parametrize(
    "value, expected",
    [("{updates}", "50"), ("{80% of updates}", "40"), ("{1% of updates}", "0")]
    + [("-{100% of updates},{50% of updates}", "-50,25"), (0.1, 0.1), (True, True), (None, None)]
    + [(text, text) for text in ("{101% of updates}", "{% of updates}", "{-1% of updates}", "80%")],
)
def test_numbers_of_updates(value, expected):
    assert with_updates(value, 50) == expected


def test_arguments():
    options = {"a": True, "b": False, "c": None, "d": 0, "e": 1e-05, "f": "-x y", "g": ""}
    assert arguments(options) == ["--a", "--d", "0", "--e", "1e-05", "--f=-x y", "--g", ""]


A = "  a: {updates: 8, train: {arch: some, flag: null}}"
TRIALS_ALONE = "{updates: 1, seeds: [], trials: [{lr: 1}], train: {arch: x}}"
ERRORS = [
    ("data: {source: de, target: en}", "", "data is missing"),
    ("en}", "en", "is not valid YAML"),
    (A, f"{A}\n{A}", "the key 'a' occurs twice"),
    (
        "data: {",
        "date: {}\ndata: {",
        r"unknown key 'date' \(did you mean 'data'\?\); allowed: title, data",
    ),
    (
        "en}",
        "en, texts: x}",
        r"data has an unknown key 'texts' \(did you mean 'text'",
    ),
    ("source: de", "source: no", r"data.source is False: it must be text \(put it in quotes\)"),
    ("source: de, ", "", "data has no source or no target language"),
    ("source: de, ", "prepared: x, text: y, ", "data has both prepared and text: omit one of"),
    (
        "source: de, target: en}",
        "prepared: x}\ngenerate: {remove-bpe: true}",
        "systems.a has the option remove-bpe, but data.prepared knows how its sub-words are",
    ),
    ("en}", "en, bpe_merges: -1}", "data.bpe_merges is -1: it must be an integer of at least 0"),
    ("en}", "en, joined_dictionary: 1}", "data.joined_dictionary is 1: it must be true or false"),
    ("en}", "en, test: 5}", "data.test is 5: it must be a list of names"),
    ("en}", "en, download: x}", "data.download has no '{name}'"),
    ("en}", "en, download_names: {dev: x}}", "data.download_names has an unknown key 'dev'"),
    ("lr: 0.1", "lr: [0.1]", r"train.lr is \[0.1\]: it must be text, a number, true, false or"),
    ("lr: 0.1", "--lr: 0.1", "train has the option '--lr': write its name without '--'"),
    ("lr: 0.1", '"\\ud800": 0.1', "line 3, column .* the text has half a character"),
    ("data: {", '"\\ud800": 1\ndata: {', "line 2, column 1 .* the text has half a character"),
    ("lr: 0.1", "save-dir: x", "train has the option save-dir, which `convs2s experiment` sets"),
    ("lr: 0.1", "max_update: 1", "train has the option max_update, which"),
    ("lr: 0.1", "user-di: x", "train has the option user-di, an abbreviation of user-dir, which"),
    (
        "source: de, target: en}",
        "source: de, target: en}\ngenerate: {scoring: chrf}",
        "generate has the option scoring, but `convs2s experiment` reads the BLEU of fairseq-gen",
    ),
    ("lr: 0.1", "User_Dir: x", "train has the option User_Dir, which"),
    ("lr: 0.1", "u: x", "train has the option u, an abbreviation of use-plasma-view, which"),
    ("lr: 0.1", "user-dir=x: 1", "train has the option 'user-dir=x': write its name without"),
    ("lr: 0.1", "tensorboard-logd: x", "an abbreviation of tensorboard-logdir, which writes"),
    ("updates: 8", "updates: 8, trials: {USER_DI: [x]}", "trials.* an abbreviation of user-dir"),
    ("updates: 8", "updates: 8, trials: [{user-d: x}]", "trials.* an abbreviation of user-dir"),
    ("updates: 8", "updates: 8, searches: [{user-d: x}]", "searches.* an abbreviation of user-dir"),
    ("updates: 8", "updates: 8, smoke: {train: {user-d: x}}", "smoke.* an abbreviation of user-di"),
    ("updates: 8", "updates: 8, generate: {results-pat: x}", "an abbreviation of results-path"),
    ("source: de", "source: ../../de", "data.source is '../../de': it must be a name of at most"),
    ("target: en", "target: /tmp/en", "data.target is '/tmp/en': it must be a name of at most"),
    ("source: de", 'source: "--user-dir=x"', "data.source is '--user-dir=x': it must be a name"),
    ("source: de", "source: ..", "data.source is '..': it must be a name of at most"),
    ("en}", "en, test: [a, ../b]}", "data.test has '../b', which is not a name"),
    ("en}", 'en, train: "a\\\\b"}', r"data.train has 'a\\\\b', which is not a name"),
    (
        "en}",
        "en, download_names: {train: ../../.bashrc}}",
        "data.download_names.train has '../../.bashrc', which is not a name",
    ),
    ("en}", "en, download_names: {test: [/tmp/x]}}", "download_names.test has '/tmp/x', which"),
    (A, "  -a: {updates: 1}", "systems has the name '-a': only letters, digits"),
    (A, f"  {'a' * 201}: {{updates: 1}}", "systems has the name 'aaa.*: only letters, digits"),
    (
        "updates: 8",
        f"updates: {10**12}",
        "systems.a.updates is 1000000000000: .* at most 12 digits",
    ),
    (
        "updates: 8",
        f"updates: 8, seeds: [{'9' * 400}]",
        "seeds is .*: it must be an integer of at least 0, or a list",
    ),
    (
        "updates: 8",
        f"updates: 8, trials: {{{', '.join(f'o{n}: [1, 2]' for n in range(10))}}}",
        "systems.a.trials has 1,024 variants: at most 1,000 are allowed",
    ),
    (
        "updates: 8",
        f"updates: 8, seeds: [{', '.join(map(str, range(10_001)))}]",
        "it has 10,001 runs and searches of runs: at most 10,000 are allowed",
    ),
    ("lr: 0.1", ", ".join(f"o{n}: 1" for n in range(1001)), "train has 1,0.. options: at most 1,0"),
    ("updates: 8", "updates: !!int 8", r"the tag 'tag:yaml.org,2002:int' is not allowed"),
    ("updates: 8", "updates: !!python/name:os.system", "the tag '.*' is not allowed"),
    ("updates: 8", "updates: !!bool x", "the tag '.*' is not allowed"),
    ("updates: 8", f"updates: {'9' * 5000}", "the number has more than 400 characters"),
    ("source: de", r'source: "d\0e"', r"the text has a NUL character"),
    (A, "  a: {updates: 8, train: {arch: x}, generate: {path: y}}", "a.generate has the option pa"),
    (A, f"{A}\ntuning: {{samples: 2}}", r"tuning has .* key 'samples' \(.*'sample'"),
    (
        "updates: 8",
        "updates: 8, average: {checkpoint: 2}",
        r"systems.a.average has an unknown key 'checkpoint' \(.*'checkpoints'",
    ),
    ("updates: 8", "updates: 8, smoke: {trian: {}}", r"smoke has .* 'trian' \(.*'train'"),
    (A, f"{A}\n  b: {{runs_off: a}}", r"systems.b has .* 'runs_off' \(.*'runs_of'"),
    ("updates: 8", "updates: 0", "systems.a.updates is 0: it must be an integer of at least 1"),
    ("updates: 8", "updates: many", "systems.a.updates is 'many'"),
    (
        "updates: 8",
        "trial: 8",
        r"systems.a has an unknown key 'trial' \(did you mean 'trials'",
    ),
    ("updates: 8, ", "", "systems.a has neither updates nor the training option max-epoch"),
    ("updates: 8", "trials: [{lr: 1}]", "systems.a has trials but no updates"),
    (
        "updates: 8",
        "updates: 8, trials: {lr: {from: 1}}",
        "systems.a.trials.lr.to is empty: it must be a number",
    ),
    (
        "updates: 8",
        "updates: 8, trials: {lr: {from: 1e-3, to: 1}}",
        "systems.a.trials.lr.from is '1e-3': .* such as 0.001",
    ),
    ("updates: 8", "updates: 8, trials: {lr: {from: .nan, to: 1}}", "lr.from is nan: it must be"),
    ("updates: 8", "updates: 8, trials: {lr: {from: 1, to: .inf}}", "lr.to is inf: it must be a n"),
    ("updates: 8", "updates: 8, trials: {lr: {from: 2, to: 1}}", "lr is from 2 to 1: 'from' must"),
    (
        "updates: 8",
        "updates: 8, trials: {lr: {from: 0, to: 1, log: true}}",
        "systems.a.trials.lr.from is 0: with log, it must be above 0",
    ),
    (
        "updates: 8",
        "updates: 8, trials: {lr: {from: 1, to: 2, log: 1}}",
        "trials.lr.log is 1: it must be true or false",
    ),
    (
        "updates: 8",
        "updates: 8, trials: {lr: {from: 1, to: 2, step: 1}}",
        "systems.a.trials.lr has an unknown key 'step'; allowed: from, to, log",
    ),
    (
        "updates: 8",
        "updates: 8, trials: {lr: {from: 1, to: 2}, dropout: 0}",
        "systems.a.trials.dropout is 0: it must be a list of values, or a range",
    ),
    (
        "updates: 8",
        "updates: 8, trials: {seed: {from: 1, to: 2}}",
        "systems.a.trials.* has the option seed, which",
    ),
    (
        "updates: 8",
        "updates: 8, trials: {updates: {from: 0.5, to: 2}}",
        "systems.a.trials has updates 0.5: it must be an integer",
    ),
    (
        "updates: 8",
        "updates: 8, trials: {lr: {from: 1, to: 2}}",
        "systems.a.trials has a range, but tuning.sample, the number of trials, is 0: it must",
    ),
    (
        A,
        f"{A.replace('updates: 8', 'updates: 8, trials: {lr: {from: 1, to: 2}}')}\n"
        f"tuning: {{sample: {10**11}}}",
        "tuning.sample, the number of trials, is 100,000,000,000: it must be from 1 to 1,000",
    ),
    (
        A,
        f"{A.replace('updates: 8', 'updates: 8, trials: [{lr: 1}]')}\n"
        "tuning: {sampler: tpe, sample: 2}",
        "tuning.sampler is 'tpe', but systems.a.trials is a list: give a list or a range for each",
    ),
    (
        A,
        f"{A.replace('updates: 8', 'updates: 8, trials: {lr: [1, 2]}')}\ntuning: {{sampler: tpe}}",
        "tuning.sampler is 'tpe', but tuning.sample, the number of trials, is 0",
    ),
    (A, f"{A}\ntuning: {{sampler: grid}}", "tuning.sampler is 'grid': it must be random or tpe"),
    (A, f"{A}\ntuning: {{parallel: 0}}", "tuning.parallel is 0: it must be an integer of at least"),
    (
        "updates: 8",
        "updates: 8, searches: {beam: {from: 1, to: 2}}",
        "systems.a.searches.beam is {.*}: it must be a list of values",
    ),
    ("updates: 8", "trials: 1, updates: 8", "systems.a.trials is 1: it must be a list of options"),
    ("updates: 8", "updates: 8, trials: {lr: 1}", "systems.a.trials.lr is 1: it must be a list of"),
    ("updates: 8", "updates: 8, trials: [{seed: 1}]", r"systems.a.trials\[1\] has the option seed"),
    (
        "updates: 8",
        "updates: 8, seeds: [one]",
        r"systems.a.seeds is \['one'\]: it must be an integer",
    ),
    ("updates: 8", "updates: 8, seeds: []", "systems.a has no seeds and no trials"),
    ("updates: 8", "updates: 8, seeds: [1, 1]", "or a list of different integers"),
    ("updates: 8", "updates: 8, average: x", "systems.a.average is 'x'"),
    ("updates: 8", "updates: 8, average: {every: 0.1}", "systems.a.average.checkpoints is missing"),
    (
        "updates: 8",
        "updates: 8, average: {checkpoints: 2, every: 3}",
        "systems.a.average.every is 3: it must be a share of the updates",
    ),
    (
        "updates: 8, train: {",
        "average: {checkpoints: 2, every: 0.1}, train: {max-epoch: 2, ",
        "systems.a has no updates, but average.every is a share of them",
    ),
    ("arch: some, ", "", "systems.a.train has no arch"),
    (
        "updates: 8, train: {",
        'train: {max-epoch: 2, warmup: "{updates}", ',
        "systems.a has no updates, but its training option warmup is '{updates}'",
    ),
    (
        "updates: 8, train: {",
        'train: {max-epoch: 2, warmup: "{5% of updates}", ',
        "systems.a has no updates, but its training option warmup is '{5% of updates}'",
    ),
    (
        "updates: 8, train: {",
        'updates: 8, train: {warmup: "{update}", ',
        "systems.a has '{update}' in its training option warmup: only '{updates}' and a share",
    ),
    (
        "updates: 8, train: {",
        'updates: 8, trials: [{warmup: "1,{101% of updates}"}], train: {',
        "systems.a has '{101% of updates}' in its training option warmup: only",
    ),
    (
        "updates: 8, train: {",
        "updates: 8, average: {checkpoints: 4, every: 0.5}, train: {",
        "systems.a has an average of 4 checkpoints, one every 0.5 of the updates.* below 0.333",
    ),
    (A, "", "systems is empty: it must be at least one system"),
    (A, "  a/b: {updates: 1}", "systems has the name 'a/b': only letters, digits"),
    (A, f"{A.replace('a:', 'a b:')}\n{A.replace('a:', 'a_b:')}", "'a b' and 'a_b', whose results"),
    (A, f"{A}\nsmoke: {{lr: 1}}", "smoke has an unknown key 'lr'; allowed: train, generate"),
    ("updates: 8", "updates: 8, smoke: {train: 1}", "systems.a.smoke.train is 1: it must be opt"),
    (A, f"{A}\nbaseline: b", "baseline is 'b', which is not a system; choose a"),
    (A, f"{A}\ntuning: {{updates: 2}}", "tuning.updates is 2: it must be a share"),
    (A, f"{A}\n  b: {{runs_of: c}}", "systems.b.runs_of is 'c', which is not a system; choose a"),
    (A, f"{A}\n  b: {{runs_of: a, updates: 1}}", "b, a system with runs_of, has an unknown key"),
    (
        A,
        f"{A}\n  b: {{runs_of: a}}\n  c: {{runs_of: b}}",
        "systems.c.runs_of is 'b', which uses the runs of others; choose a",
    ),
    (A, f"{A}\n  b: {{updates: 1, continues: c, train: {{arch: x}}}}", "is not a system above it"),
    (
        A,
        f"{A}\n  b: {TRIALS_ALONE}\n  c: {{runs_of: b}}",
        "systems.c.runs_of is 'b', which has no seeds, and so no final runs",
    ),
    (
        "updates: 8, train: {",
        "updates: 8, average: best, train: {validate-interval: 9, validate-interval-updates: 4, ",
        "systems.a has average 'best', but fairseq saves no checkpoint where it validates",
    ),
    (
        "updates: 8, train: {",
        "updates: 8, average: {checkpoints: 2, every: 0.5}, train: {save-interval-updates: 9, ",
        "systems.a has average.every, which saves checkpoints, and the training option",
    ),
    (
        A,
        f"{A}\n  b: {{updates: 1, continues: a, train: {{arch: x, finetune-from-model: y}}}}",
        "systems.b has both continues and the training option finetune-from-model",
    ),
    (
        "updates: 8",
        "updates: 8, train_on: {translation: {a: 1}}",
        r"systems.a.train_on has an unknown key 'translation' \(.*'translations'",
    ),
    ("updates: 8", "updates: 8, train_on: {text: false}", "train_on has neither text nor transl"),
    (
        "updates: 8",
        "updates: 8, train_on: {translations: {a: 1}}",
        "train_on.translations has 'a', which is not a system above it; there is none",
    ),
    (
        A,
        f"{A}\n  b: {{updates: 1, train: {{arch: x}}, train_on: {{translations: {{a: 2}}}}}}",
        "systems.b.train_on.translations has 'a', which has no run with the seed 2; its seeds: 1",
    ),
    (
        A,
        f"{A}\n  b: {{updates: 1, train: {{arch: x}}, train_on: {{translations: {{a: []}}}}}}",
        "systems.b.train_on.translations has 'a', which has no seeds",
    ),
    (
        "updates: 8",
        "updates: 8, train_on: {back_translations: {a: 1}}",
        "systems.a.train_on has back_translations, but data has no monolingual text",
    ),
    ("updates: 8", "updates: 8, train_on: {tag: true}", "has tag, but no back_translations to put"),
    (
        "updates: 8",
        "updates: 8, reverse: true, trials: {lr: [1, 2]}",
        "systems.a has trials, but translates to the source language, which has no scores",
    ),
    (
        "updates: 8",
        "updates: 8, reverse: true, searches: {lenpen: [1, 2]}",
        "systems.a has searches, but translates to the source language, which has no scores",
    ),
    (
        A,
        f"{A}\n  b: {{updates: 1, train: {{arch: x}}, reverse: true}}\nbaseline: b",
        "baseline is 'b', which is a system without scores; choose a",
    ),
    (
        A,
        f"{A}\n  b: {{updates: 1, train: {{arch: x}}, reverse: true}}\n"
        "  c: {ensemble: {a: 1, b: 1}}",
        "systems.c.ensemble has systems of both directions",
    ),
]


@pytest.mark.parametrize("old, new, message", ERRORS)
def test_errors(read, old, new, message):
    assert old in SMALL
    with pytest.raises(UserError, match=message) as error:
        read(SMALL.replace(old, new, 1))
    assert "file.yaml" in str(error.value)


BACK_TRANSLATIONS = """
data: {source: de, target: en, monolingual: mono.en}
systems:
  forward: {updates: 8, train: {arch: x}}
  backward: {updates: 8, train: {arch: x}, reverse: true, generate: {beam: 1, num-workers: 0}}
  more: {updates: 8, train: {arch: x}, train_on: {back_translations: {backward: 1}, tag: true}}
"""


@pytest.mark.parametrize(
    "old, new, message",
    [
        (
            "{backward: 1}",
            "{forward: 1}",
            "has 'forward', which is not a system above it that has reverse; choose backward",
        ),
        ("{backward: 1}", "{backward: 2}", "has no run with the seed 2; its seeds: 1"),
        (
            "beam: 1",
            "sampling: true",
            "systems.backward has the option sampling, but translates text for systems.more.train_",
        ),
        ("en, mono", "en, bin: b, mono", "data has both monolingual and bin, which does not say"),
        ("mono.en", "'{set}'", "data has no sets, but '{set}' in monolingual"),
        ("monolingual: mono.en", "monolingual: 1", r"data.monolingual is 1: it must be text \(put"),
    ],
)
def test_back_translations(old, new, message, read, tmp_path):
    assert read(BACK_TRANSLATIONS).data.monolingual == tmp_path / "mono.en"
    assert old in BACK_TRANSLATIONS
    with pytest.raises(UserError, match=message):
        read(BACK_TRANSLATIONS.replace(old, new, 1))


def test_the_schema_has_the_keys_that_are_allowed():
    content = schema()
    assert list(content["properties"]) == Experiment.keys() and "limit_updates" not in content
    assert list(content["$defs"]["System"]["properties"]) == System.keys()
    assert "name" not in System.keys() and content["required"] == ["data", "systems"]
    assert content["additionalProperties"] is False
    average = content["properties"]["average"]["anyOf"]
    assert {"type": "integer"} in average and {"const": "best", "type": "string"} in average


def test_long_values_are_shortened(read):
    with pytest.raises(UserError) as error:
        read(SMALL.replace("source: de", f"source: [{', '.join(['word'] * 1000)}]"))
    assert len(str(error.value)) < 1000


def test_aliases_are_counted(read):
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n"
    for one, other in ("ab", "bc", "cd", "de", "ef", "fg", "gh"):
        bomb += f"{other}: &{other} [{', '.join([f'*{one}'] * 9)}]\n"
    with pytest.raises(UserError, match="there are more than 100,000 values"):
        read(bomb + SMALL)
    with pytest.raises(UserError, match="the value contains itself"):
        read("a: &a [*a]\n" + SMALL)


def test_a_home_folder_that_does_not_exist(read, monkeypatch):
    monkeypatch.setenv("HOME", "/nonexistent")
    data = read(SMALL.replace("en}", 'en, text: "~/text"}')).data
    assert str(data.text) == "/nonexistent/text"
    assert read(SMALL.replace("en}", 'en, text: "~nobody_here/text"}')).data.text is not None


def test_there_is_no_such_file(tmp_path):
    with pytest.raises(UserError, match="There is no file"):
        read_experiment(tmp_path / "file.yaml")


def test_the_file_is_not_utf8(tmp_path):
    (tmp_path / "file.yaml").write_bytes("title: über\n".encode("latin1"))
    with pytest.raises(UserError, match=r"file.yaml, line 1: byte 0xfc at offset 7"):
        read_experiment(tmp_path / "file.yaml")
