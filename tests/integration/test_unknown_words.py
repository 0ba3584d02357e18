"""``--replace-unk``: the source word with the most attention, or its translation."""

import re
import sys

import pytest
import torch

from tests.support.commands import (
    PLUGIN,
    TASK,
    TINY,
    alignments,
    command,
    fairseq,
    generate,
    hypotheses,
    run,
)


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """A corpus with a unique name in every sentence, and a model trained on it."""
    folder = tmp_path_factory.mktemp("names")
    numbers = torch.Generator().manual_seed(1)
    for split, size in (("train", 400), ("valid", 20), ("test", 20)):
        source, target = [], []
        for i in range(size):
            draw = torch.randint(4, (3,), generator=numbers).tolist()
            place = int(torch.randint(4, (1,), generator=numbers))
            words = [f"s{d}" for d in draw]
            source.append([*words[:place], f"{split}{i}", *words[place:]])
            target.append([w.replace("s", "t") if w[0] == "s" else w for w in source[-1]])
        for language, lines in (("de", source), ("en", target)):
            text = "".join(" ".join(line) + "\n" for line in lines)
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")
    common = ("--source-lang", "de", "--target-lang", "en")
    common += tuple(f"--{name}pref={folder / name}" for name in ("train", "valid", "test"))
    common += ("--thresholdsrc", "2", "--thresholdtgt", "2")
    fairseq("preprocess", *common, "--destdir", folder / "bin")
    fairseq("preprocess", *common, "--destdir", folder / "raw", "--dataset-impl", "raw")
    fairseq(
        "train",
        folder / "bin",
        "--user-dir",
        PLUGIN,
        "--save-dir",
        folder,
        "--cpu",
        *TINY,
        "--max-epoch",
        "16",
        "--no-epoch-checkpoints",
        "--num-workers",
        "0",
    )
    return folder


def sources(names):
    return (names / "test.de").read_text(encoding="utf-8").splitlines()


def name_of(line):
    (name,) = re.findall(r"test\d+", line)
    return name


def test_raw_data_in_generate(names):
    """Hypotheses contain the name, S lines show the raw text, and BLEU counts the replacements."""
    arguments = (names, names / "checkpoint_last.pt", *TASK, "--beam", "3")
    raw = ("--dataset-impl", "raw", "--replace-unk")
    printed = generate(*arguments, *raw, data="raw")
    found = hypotheses(printed)
    for i, line in enumerate(sources(names)):
        assert found[i][0][1].count(name_of(line)) == found[i][0][1].count("test") >= 1
        assert "<unk>" not in found[i][0][1]
        assert f"S-{i}\t{line}" in printed
    plain = generate(*arguments, "--dataset-impl", "raw", data="raw")
    scores = [float(re.search(r"BLEU4 = ([\d.]+)", text).group(1)) for text in (printed, plain)]
    assert scores[0] > scores[1] + 10
    # The search and its scores are the same.
    for i, best in hypotheses(plain).items():
        assert best[0][0] == found[i][0][0]
        assert best[0][1] == found[i][0][1].replace(name_of(sources(names)[i]), "<unk>")


def test_an_unknown_word_becomes_the_word_with_the_most_attention(names):
    arguments = (names, names / "checkpoint_last.pt", *TASK, "--dataset-impl", "raw")
    replaced = hypotheses(generate(*arguments, "--replace-unk", data="raw"))
    soft = alignments(generate(*arguments, "--print-alignment", "soft", data="raw"))
    plain = hypotheses(generate(*arguments, data="raw"))
    for i, line in enumerate(sources(names)):
        rows = [[float(p) for p in row.split(",")] for row in soft[i].split()]
        words = line.split()
        for place, word in enumerate(plain[i][0][1].split()):
            if word == "<unk>":
                best = max(range(len(words)), key=rows[place].__getitem__)
                assert replaced[i][0][1].split()[place] == words[best]


def as_a_module(name, *arguments):
    """``python -m fairseq_cli.NAME``."""
    return [sys.executable, "-m", f"fairseq_cli.{name}", *map(str, arguments)]


@pytest.mark.parametrize("start", [command, as_a_module])
def test_binarized_data_in_generate(names, tmp_path, start):
    """Words of the dictionary are replaced; the others stay unknown, with one warning."""
    translations = tmp_path / "translations"
    translations.write_text("s0 zero 1.0\ns1 one 1.0\n", encoding="utf-8")
    printed = fairseq(
        *("generate", names / "bin", "--user-dir", PLUGIN, "--path", names / "checkpoint_last.pt"),
        *("--cpu", *TASK, "--replace-unk", translations, "--beam", "3", "--max-tokens", "200"),
        start=start,
    )
    found = hypotheses(printed)
    assert sorted(found) == list(range(20))
    assert any("<unk>" in best[0][1] for best in found.values())
    assert printed.count("binarized data does not keep their text") == 1


def test_fairseqs_own_task_still_needs_raw_text(names):
    done = run(
        *("generate", names / "bin", "--user-dir", PLUGIN, "--path", names / "checkpoint_last.pt"),
        *("--cpu", "--task", "translation", "--replace-unk", "--beam", "3"),
    )
    assert done.returncode != 0 and "--replace-unk requires a raw text dataset" in done.stderr


def test_interactive_with_and_without_a_dictionary(names, tmp_path):
    translations = tmp_path / "translations"
    translations.write_text("Anna Ann\n", encoding="utf-8")
    for more, expected in (((), "Anna"), ((translations,), "Ann")):
        printed = fairseq(
            "interactive",
            names / "bin",
            "--user-dir",
            PLUGIN,
            "--path",
            names / "checkpoint_last.pt",
            "--cpu",
            *TASK,
            "--beam",
            "3",
            "--buffer-size",
            "2",
            "--max-tokens",
            "99",
            "--replace-unk",
            *more,
            text="s0 Anna s1 s2\ns1 s2 s3 Otto\n",
        )
        found = hypotheses(printed)
        assert found[0][0][1].split().count(expected) == 1
        assert found[1][0][1].split().count("Otto") == 1
        assert "S-0\ts0 Anna s1 s2" in printed


def test_among_candidates_the_lexicon_translates(names, tmp_path):
    lexicon = tmp_path / "lexicon"
    lexicon.write_text(
        "".join(f"s{i} t{i} 0.9\n" for i in range(4)) + "Anna Ann 0.9\n", encoding="utf-8"
    )
    printed = fairseq(
        "interactive",
        names / "bin",
        "--user-dir",
        PLUGIN,
        "--path",
        names / "checkpoint_last.pt",
        "--cpu",
        *TASK,
        "--beam",
        "3",
        "--lexicon",
        lexicon,
        "--replace-unk",
        text="s0 Anna s1 s2\n",
    )
    assert hypotheses(printed)[0][0][1].split().count("Ann") == 1
