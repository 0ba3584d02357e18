"""Tables of made-up results: exact text, escapes, and files read back."""

import csv
import json
import statistics

import pytest

from convs2s.common.errors import UserError
from convs2s.common.tables import Table, escape_latex, escape_markdown
from convs2s.evaluation.scores import score
from convs2s.experiments import report
from convs2s.experiments.file import DataSettings, Experiment, System

REFERENCES = ["a dog runs over the grass .", "two men watch a small dog play .", "it is green ."]
WORSE = ["a dog runs on the grass .", "two men watch a dog play .", "it is red ."]
BETTER = ["a dog runs over the grass .", "two men watch a small dog play .", "it is red ."]


class Folder:
    """An experiment's folder with made-up results."""

    def __init__(self, out, tests=("test",)):
        self.out, self.tests, self.results, self.systems = out, tests, [], {}
        (out / "references").mkdir()
        for name in ("valid", *tests):
            self.lines(out / "references" / name, REFERENCES)

    def lines(self, path, lines):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def system(self, name, title=None, trials=()):
        self.systems[name] = System(name, title or name, trials=trials)

    def result(self, system, number, splits, **values):
        self.results.append(
            {
                **{"system": system, **number, "options": {}, "updates": 2000},
                **{"parameters": 3_456_789, "parameters_without_embeddings": 1_234_567},
                **{"train_minutes": 10.04, "cpu_minutes": 19.96, "tokens_per_second": 2345.6},
                **{"valid_loss": 2.5, "splits": splits, **values},
            }
        )

    def run(self, system, seed, bleu, hypotheses, **values):
        splits = {"valid": {"bleu": bleu - 1}}
        for index, name in enumerate(self.tests):
            splits[name] = {"bleu": bleu + index, **score(hypotheses, REFERENCES)}
            folder = f"{self.systems[system].folder_name}.{seed}"
            self.lines(self.out / "runs" / folder / f"{name}.hyp", hypotheses)
        self.result(system, {"seed": seed}, splits, **values)

    def trial(self, system, number, bleu, loss, **options):
        trials = (*self.systems[system].trials, options)
        self.system(system, self.systems[system].title, trials)
        options = {"arch": "small", **options}
        self.result(
            system,
            {"trial": number},
            {"valid": {"bleu": bleu}},
            **{"valid_loss": loss, "options": options, "updates": 500},
        )

    def write(self, baseline=None, limit=None, **runs):
        experiment = Experiment(
            title="Small test",
            data=DataSettings(),
            systems=self.systems,
            baseline=baseline,
            limit_updates=limit,
        )
        return report.write(self.out, self.results, experiment, **runs)


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path)
    folder.system("base", "Baseline")
    folder.system("my net", "My net")
    folder.system("later", "Later")
    folder.run("base", 1, 30, WORSE)
    folder.run("my net", 2, 33, BETTER, train_minutes=12)
    folder.run("my net", 1, 32, WORSE, train_minutes=20)
    return folder


def tables(text):
    """The tables of a report, as lists of rows of cells."""
    blocks = [block.strip().splitlines() for block in text.split("\n\n") if block.startswith("|")]
    return [
        [[cell.strip() for cell in line.strip("|").split(" | ")] for line in (head, *rows)]
        for head, _, *rows in blocks
    ]


def test_one_line_a_system_in_the_order_of_the_file(folder):
    assert folder.write("base").split("\n\n")[:2] == [
        "# Small test",
        """\
| System   | Parameters without embeddings (M) | Parameters (M) | Training (minutes) | Tokens/s \
| Sentences/s |   BLEU valid |    BLEU test |     sacreBLEU |          chrF |         Difference \
| Seeds |
| -------- | --------------------------------: | -------------: | -----------------: | -------: \
| ----------: | -----------: | -----------: | ------------: | ------------: | -----------------: \
| ----: |
| Baseline |                              1.23 |           3.46 |               10.0 |    2,346 \
|           – |        29.00 |        30.00 |         38.50 |         63.58 |           baseline \
|     1 |
| My net   |                              1.23 |           3.46 |               16.0 |    2,346 \
|           – | 31.50 ± 0.71 | 32.50 ± 0.71 | 63.82 ± 35.81 | 76.71 ± 18.58 | +25.32 (p = 0.001) \
|     2 |
| Later    |                                 – |              – |                  – |        – \
|           – |            – |            – |             – |             – |                  – \
|     0 |""",
    ]


def test_the_same_columns_in_latex(folder):
    folder.write("base")
    assert (
        (folder.out / "table.tex").read_text(encoding="utf-8")
        == r"""\begin{tabular}{lrrrrrrrrrrr}
\toprule
System & Parameters without embeddings (M) & Parameters (M) & Training (minutes) & Tokens/s & \
Sentences/s & BLEU valid & BLEU test & sacreBLEU & chrF & Difference & Seeds \\
\midrule
Baseline & 1.23 & 3.46 & 10.0 & 2,346 & -- & 29.00 & 30.00 & 38.50 & 63.58 & baseline & 1 \\
My net & 1.23 & 3.46 & 16.0 & 2,346 & -- & 31.50 $\pm$ 0.71 & 32.50 $\pm$ 0.71 & \
63.82 $\pm$ 35.81 & 76.71 $\pm$ 18.58 & $+$25.32 (p = 0.001) & 2 \\
Later & -- & -- & -- & -- & -- & -- & -- & -- & -- & -- & 0 \\
\bottomrule
\end{tabular}
""".replace("& \\\n", "& ")
    )


def test_the_legend_explains_columns_and_names_signatures(folder):
    text = folder.write("base")
    assert "Difference: sacreBLEU minus that of Baseline; p: paired bootstrap" in text
    assert "sacreBLEU: `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in text
    assert "chrF: `nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:" in text
    assert (folder.out / "table.md").read_text(encoding="utf-8") == text


def test_without_a_baseline_there_is_no_difference(folder):
    text = folder.write()
    assert tables(text)[0][0][-2:] == ["chrF", "Seeds"]
    assert "ifference" not in text
    assert json.loads((folder.out / "results.json").read_text())["differences"] == []


def test_a_baseline_without_runs_gives_no_differences(folder):
    assert [row[-2] for row in tables(folder.write("later"))[0]] == [
        "Difference",
        "–",
        "–",
        "baseline",
    ]


def test_no_results_at_all(tmp_path):
    folder = Folder(tmp_path)
    folder.system("base")
    (table,) = tables(folder.write("base"))
    assert table[1] == ["base", *"–" * 8, "baseline", "0"]
    assert (tmp_path / "runs.csv").read_text() == "\n"
    assert (tmp_path / "table.csv").read_text().splitlines()[1].startswith("base,base,0,,,")


def test_several_test_sets_get_a_table(tmp_path):
    folder = Folder(tmp_path, ("test_a", "test_b"))
    folder.system("base")
    folder.system("new")
    folder.run("base", 1, 30, WORSE)
    folder.run("new", 1, 33, BETTER)
    main, tests = tables(folder.write("base"))
    assert main[0][6:-1] == [
        "BLEU valid",
        "BLEU test_a",
        "BLEU test_b",
        "sacreBLEU test_a",
        "chrF test_a",
        "Difference",
    ]
    assert tests == [
        ["System", "test_a", "Difference", "test_b", "Difference"],
        ["base", "38.50", "baseline", "38.50", "baseline"],
        ["new", "89.14", tests[2][2], "89.14", tests[2][2]],
    ]
    assert tests[2][2].startswith("+50.64 (p = ")


def test_without_a_test_set_the_scores_are_those_on_valid(tmp_path):
    folder = Folder(tmp_path, ())
    folder.system("base")
    folder.result("base", {"seed": 1}, {"valid": {"bleu": 29.0, **score(WORSE, REFERENCES)}})
    assert tables(folder.write())[0][1][6:9] == ["29.00", "38.50", "63.58"]


def test_trials_show_options_that_differ_and_the_best(folder):
    folder.trial("my net", 2, 21.5, 3.25, lr=0.002)
    folder.trial("my net", 1, 21.5, 3.0, lr=0.001, dropout=0.3)
    folder.trial("my net", 3, 20, 2.75, lr=0.002, dropout=0.3)
    text = folder.write("base")
    assert text.endswith("""\
## Trials

### My net

| Trial |    lr | dropout | Updates | Valid loss | BLEU valid | Chosen |
| ----- | ----: | ------: | ------: | ---------: | ---------: | -----: |
| 1     | 0.001 |     0.3 |     500 |      3.000 |      21.50 |    yes |
| 2     | 0.002 |       – |     500 |      3.250 |      21.50 |        |
| 3     | 0.002 |     0.3 |     500 |      2.750 |      20.00 |        |
""")
    assert tables(text)[0][2][-1] == "2"  # trials are no seeds


def test_no_trial_is_chosen_before_all_are_finished(folder):
    folder.trial("my net", 1, 21.5, None, lr=0.001)
    folder.system("my net", "My net", ({"lr": 0.001}, {"lr": 0.002}))
    assert tables(folder.write())[1] == [
        ["Trial", "Updates", "Valid loss", "BLEU valid", "Chosen"],
        ["1", "500", "–", "21.50", ""],
    ]


def test_options_of_the_search_are_in_the_csv(folder):
    folder.results[0]["generate"] = {"beam": 5, "lenpen": None}
    folder.write()
    with open(folder.out / "runs.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["generate.beam"] for row in rows] == ["5", "", ""]


def test_measured_speeds_replace_those_of_the_runs(folder):
    speeds = {
        "sentences_per_second": {"median": 98.76, "min": 90, "max": 101.2},
        "tokens_per_second": {"median": 3000.4, "min": 2900, "max": 3100},
    }
    (folder.out / "speed.json").write_text(json.dumps({"my net": speeds}))
    main = tables(folder.write())[0]
    assert [row[4:6] for row in main[1:]] == [
        ["2,346", "–"],
        ["3,000 (2,900–3,100)", "98.8 (90.0–101)"],
        ["–", "–"],
    ]


def test_a_speed_that_was_not_measured_with_the_others_is_missing(folder):
    speeds = {"sentences_per_second": {"median": 98.76, "min": 90, "max": 101.2}}
    (folder.out / "speed.json").write_text(json.dumps({"base": speeds}))
    main = tables(folder.write())[0]
    # The training of the first system is logged with 2,346 tokens/s.
    assert main[1][4:6] == ["–", "98.8 (90.0–101)"]


def test_trainings_on_a_cpu_show_cpu_minutes(folder):
    for result in folder.results:
        result["device"] = "CPU, 4 cores, AVX2"
    text = folder.write()
    main = tables(text)[0]
    assert "Device: CPU, 4 cores, AVX2." in text
    assert [row[3] for row in main] == ["Training (CPU minutes)", "20.0", "20.0", "–"]


def test_unfinished_and_failed_runs_and_the_limit_are_named(folder):
    text = folder.write(limit=40, unfinished=["later.1", "later.2"], failed=["my_net.3"])
    assert "\nUnfinished: later.1, later.2.\n" in text
    assert "\nFailed: my_net.3.\n" in text
    assert "\nNo run has more than 40 updates.\n" in text


def test_a_missing_translation_is_named(folder):
    (folder.out / "runs" / "my_net.2" / "test.hyp").unlink()
    with pytest.raises(UserError, match="There is no file .*my_net.2/test.hyp"):
        folder.write("base")


def test_csv_read_back(folder):
    folder.trial("my net", 1, 21.5, 3.0, lr=0.001, fp16=True, arch='a, "b"')
    folder.write()
    with open(folder.out / "runs.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["system"], row["seed"], row["trial"]) for row in rows] == [
        ("base", "1", ""),
        ("my net", "", "1"),
        ("my net", "1", ""),
        ("my net", "2", ""),
    ]
    assert float(rows[3]["test.sacrebleu"]) == score(BETTER, REFERENCES)["sacrebleu"]
    assert float(rows[3]["test.length_ratio"]) == 1
    assert int(rows[0]["parameters_without_embeddings"]) == 1_234_567
    assert [rows[1][name] for name in ("train.lr", "train.fp16", "train.arch", "test.bleu")] == [
        "0.001",
        "true",
        'a, "b"',
        "",
    ]


def test_csv_of_systems_has_means_deviations_and_differences(folder):
    folder.write("base")
    with open(folder.out / "table.csv", encoding="utf-8", newline="") as file:
        base, net, later = csv.DictReader(file)
    assert [row["runs"] for row in (base, net, later)] == ["1", "2", "0"]
    scores = [float(result["splits"]["test"]["bleu"]) for result in folder.results[1:3]]
    assert float(net["test.bleu.mean"]) == statistics.mean(scores)
    assert float(net["test.bleu.deviation"]) == statistics.stdev(scores)
    assert base["test.bleu.deviation"] == "" and later["test.bleu.mean"] == ""
    (found,) = json.loads((folder.out / "results.json").read_text())["differences"]
    assert float(net["test.sacrebleu.difference"]) == found["difference"]
    assert float(net["test.sacrebleu.p"]) == found["p"] and base["test.sacrebleu.p"] == ""
    assert float(net["tokens_per_second"]) == folder.results[1]["tokens_per_second"]
    speeds = {"tokens_per_second": {"median": 3000.4, "min": 2900, "max": 3100}}
    (folder.out / "speed.json").write_text(json.dumps({"my net": speeds}))
    folder.write("base")
    with open(folder.out / "table.csv", encoding="utf-8", newline="") as file:
        assert [row["tokens_per_second"] for row in csv.DictReader(file)][1] == "3000.4"


def test_a_system_with_other_test_sets_has_no_difference(folder):
    folder.write("base")
    folder.results[0]["splits"]["other"] = folder.results[0]["splits"].pop("test")
    text = folder.write("base")
    assert json.loads((folder.out / "results.json").read_text())["differences"] == []
    assert "## sacreBLEU by test set" in text
    latex = (folder.out / "table.tex").read_text()
    assert latex.count("tabular}{") == 2 and "System & other & Difference & test" in latex


def test_a_trial_that_diverged_is_not_chosen(folder):
    folder.trial("my net", 1, 21.5, 3.0, lr=0.001)
    folder.trial("my net", 2, 0, 3.0, lr=1)
    folder.results[-1] |= {"diverged": True, "splits": {}, "updates": 7}
    assert tables(folder.write())[1][1:] == [
        ["1", "0.001", "500", "3.000", "21.50", "yes"],
        ["2", "1", "7", "3.000", "diverged", ""],
    ]


def test_json_has_all_results_in_order(folder):
    folder.trial("my net", 1, 21.5, 3.0)
    folder.write("base")
    content = json.loads((folder.out / "results.json").read_text(encoding="utf-8"))
    first, last_run, run, trial = folder.results
    assert content["results"] == [first, trial, run, last_run]
    assert (content["title"], content["baseline"]) == ("Small test", "base")
    assert content["systems"] == {"base": "Baseline", "my net": "My net", "later": "Later"}
    assert set(content["signatures"]) == {"sacreBLEU", "chrF"}
    assert [(each["system"], each["split"]) for each in content["differences"]] == [
        ("my net", "test")
    ]


@pytest.mark.parametrize(
    "text, markdown, latex",
    [
        ("a|b", r"a\|b", r"a\textbar{}b"),
        ("snake_case & 5%", "snake_case & 5%", r"snake\_case \& 5\%"),
        ("_a_ *b* `c` <d> [e]", r"\_a\_ \*b\* \`c\` \<d\> \[e\]", None),
        ("#1 $x^2$ ~ {y}", None, r"\#1 \$x\textasciicircum{}2\$ \textasciitilde{} \{y\}"),
        ("a\\b", r"a\\b", r"a\textbackslash{}b"),
        ("line\nbreak", "line break", None),
        ("-0.5 ± 0.1 (1–2), IWSLT-14", None, r"$-$0.5 $\pm$ 0.1 (1--2), IWSLT-14"),
    ],
)
def test_special_characters_are_escaped(text, markdown, latex):
    assert markdown is None or escape_markdown(text) == markdown
    assert latex is None or escape_latex(text) == latex


def test_titles_with_special_characters_keep_the_columns():
    table = Table(["System", "BLEU"], [["a|b & c_d", "1.00"]])
    assert table.markdown().splitlines()[2] == r"| a\|b & c_d | 1.00 |"
    assert r"a\textbar{}b \& c\_d & 1.00 \\" in table.latex().splitlines()
