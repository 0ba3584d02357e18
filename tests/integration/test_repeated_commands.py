"""Commands that are killed and run again, and two that write the same files at once.

CONVS2S_KILLS is the number of kills of each command; ``make faults`` sets it to 50, and tries all
commands.
"""

import os
import random
import shutil
import subprocess
import time

import pytest

from tests.support.commands import kill_forks, server
from tests.support.translation import DATA, FIXTURES, LINES

KILLS = int(os.environ.get("CONVS2S_KILLS", "1"))
MODEL = f"--path {FIXTURES / 'convs2s.pt'} --data {DATA} --raw --device cpu"
# Name -> the arguments; the files that a command writes are in the folder out.
COMMANDS = {
    "prepare": "prepare --train corpus.de corpus.en --out out/prepared --tokenizer none "
    "--bpe-size 200 --workers 2",
    "lexicon": "lexicon --source corpus.de --target corpus.en --output out/lexicon.txt "
    "--reverse-output out/reverse.txt",
    "translate": f"translate {MODEL} --input input --output out/output --report out/report "
    "--alignment out/alignment --workers 2",
    "score": f"score {MODEL} --input input --target-input input --output out/scores",
    "evaluate": f"evaluate ours={FIXTURES / 'convs2s.pt'} --data {DATA} --raw --source input "
    "--references input --output out/scores.json --translations out/translations",
    "rerank": "rerank lists --utility bleu --output out/chosen",
    "average": f"average {FIXTURES / 'convs2s.pt'} {FIXTURES / 'convs2s.pt'} --output out/a.pt",
    "quantize": f"quantize {FIXTURES / 'adl_recurrent.pt'} out/small.pt",
    "clean-checkpoint": f"clean-checkpoint {FIXTURES / 'pervasive.pt'} out/clean.pt",
    "plot-attention": f"plot-attention {MODEL.removesuffix(' --device cpu')} --input few "
    "--output out/page.html",
}
TRIED = COMMANDS if KILLS > 1 else ("prepare", "translate")


@pytest.fixture
def folder(tmp_path):
    for language in ("de", "en"):
        lines = (f"{language}{i % 31} wort{i % 17} {language}{i % 7}\n" for i in range(3000))
        (tmp_path / f"corpus.{language}").write_text("".join(lines), encoding="utf-8")
    for name, number in (("input", 300), ("few", 3)):
        lines = (LINES * 300)[:number]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    entries = (
        f"S-{i}\ta\n" + "".join(f"H-{i}\t-0.{j}\tb c{j} d\n" for j in range(4)) for i in range(500)
    )
    (tmp_path / "lists").write_text("".join(entries), encoding="utf-8")
    (tmp_path / "out").mkdir()
    return tmp_path


def start(name, folder):
    """Start a command, in a fork of the server, which has done the imports."""
    return subprocess.Popen(
        [server().programs / "convs2s", *COMMANDS[name].split()],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def written(folder):
    """Path -> content of the files that a command has written, and an empty folder."""
    out = folder / "out"
    found = {
        str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()
    }
    shutil.rmtree(out)
    out.mkdir()
    return found


def undisturbed(name, folder):
    """The files that a command writes, and the seconds that it takes."""
    began = time.monotonic()
    process = start(name, folder)
    errors = process.communicate()[1]
    assert process.returncode == 0, errors
    return written(folder), time.monotonic() - began


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIED)
def test_a_command_that_is_killed_can_be_run_again(name, folder):
    expected, seconds = undisturbed(name, folder)
    assert expected
    for seed in range(KILLS):
        moment = seconds * random.Random(seed).uniform(0.1, 1.0)
        process = start(name, folder)
        time.sleep(moment)
        kill_forks()
        process.communicate()
        again = start(name, folder)
        errors = again.communicate()[1]
        assert again.returncode == 0, (moment, errors)
        found = written(folder)
        partial = {path for path in found if path.endswith(".partial")}
        assert {path: found[path] for path in found.keys() - partial} == expected, moment


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIED)
def test_two_at_once_write_the_same_or_one_is_refused(name, folder):
    expected, _ = undisturbed(name, folder)
    processes = [start(name, folder) for _ in range(2)]
    errors = [process.communicate()[1] for process in processes]
    codes = [process.returncode for process in processes]
    assert 0 in codes and set(codes) <= {0, 2}, errors
    for code, text in zip(codes, errors):
        if code:
            assert text.startswith(f"convs2s {name}: error: ") and text.count("\n") == 1
    assert written(folder) == expected
