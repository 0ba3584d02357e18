"""Every command on files that would take all memory or time: a sentence, within 2 GB and 60 s."""

import re
import subprocess

import pytest
import torch

from tests.support.commands import server
from tests.support.hostile import ARCHIVES, CHECKPOINTS, JSON, TEXTS, YAML, pipe
from tests.support.translation import DATA, FIXTURES

SECONDS = 60
# The command, in a fork of the server, which has imported torch: with 2 GB more than that takes.
LIMITED = """
import re, resource, sys
from pathlib import Path
taken = re.search(r"VmData:\\s+(\\d+)", Path("/proc/self/status").read_text())
limit = 1024 * int(taken[1]) + 2**31
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
from convs2s.cli import main
sys.exit(main(sys.argv[1:]))
"""
MODEL = f"--path {FIXTURES / 'convs2s.pt'} --data {DATA} --raw --device cpu"
OF_CHECKPOINTS = {
    "average": "average --inputs FILE --output NEW",
    "clean-checkpoint": "clean-checkpoint FILE NEW",
    "convert-fconv": "convert-fconv FILE NEW",
    "convert-lightconv": "convert-lightconv FILE NEW",
    "convert-attn2d": "convert-attn2d FILE NEW",
    "export-transformer": "export-transformer FILE NEW",
    "quantize": "quantize FILE NEW",
    "score": f"score --path FILE --data {DATA} --raw --input TEXT --target-input TEXT",
    "translate": f"translate --path FILE --data {DATA} --raw --device cpu --input TEXT",
}
OF_YAML = {
    "experiment": "experiment FILE --dry-run",
    "translate": f"translate --path {FIXTURES / 'convs2s.pt'} --preparation FILE --input TEXT",
    "convert-attn2d": "convert-attn2d WEIGHTS NEW --params FILE",
}
OF_JSON = {
    "lengths": "plot lengths FILE --output NEW.svg",
    "sweep": "plot sweep FILE --output NEW.svg",
    "rerank": "rerank TEXT --weights FILE",
}
OF_TEXTS = {
    "evaluate": "evaluate FILE --references FILE",
    "lexicon": "lexicon --source FILE --target TEXT --alignments TEXT --output NEW",
    "prepare": "prepare --train FILE TEXT --source-lang de --target-lang en --out NEW --workers 1",
    "translate": f"translate {MODEL} --input FILE --output NEW",
    "--lexicon": f"translate {MODEL} --input TEXT --lexicon FILE",
    "--bpe-codes": f"translate {MODEL.replace('--raw', '--bpe-codes FILE')} --input TEXT",
    "rerank": "rerank FILE",
    "training": "plot training FILE --output NEW.svg",
}


@pytest.fixture
def refused(tmp_path):
    """Runs a command on a file, which must be refused in one sentence and leave nothing."""

    def refused(command, write, name="FILE"):
        file = tmp_path / name
        write(file)
        torch.save({"weight": torch.ones(2)}, tmp_path / "WEIGHTS")
        (tmp_path / "TEXT").write_text("eins\n", encoding="utf-8")
        before = sorted(tmp_path.iterdir())
        places = {each: str(tmp_path / each) for each in ("NEW", "TEXT", "WEIGHTS")}
        places["FILE"] = str(file)
        words = [
            re.sub("FILE|NEW|TEXT|WEIGHTS", lambda found: places[found[0]], word)
            for word in command.split()
        ]
        done = subprocess.run(
            [server().programs / "python", "-c", LIMITED, *words],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 2 and not done.stdout, (done.stdout, done.stderr[-2000:])
        lines = done.stderr.strip().splitlines()
        sentence = lines[-1]
        assert ": error: " in sentence and "Traceback" not in done.stderr, done.stderr[-2000:]
        assert len(sentence) < 1000
        assert sorted(tmp_path.iterdir()) == before
        return sentence

    return refused


@pytest.mark.parametrize("kind", [*CHECKPOINTS, "pipe"])
@pytest.mark.parametrize("command", OF_CHECKPOINTS)
def test_checkpoints(command, kind, refused):
    sentence = refused(OF_CHECKPOINTS[command], {**CHECKPOINTS, "pipe": pipe}[kind], "FILE.pt")
    # What is no plain data is left out, and what remains is no model with options.
    assert "FILE.pt" in sentence or "There is no file of options" in sentence


@pytest.mark.parametrize("kind", ARCHIVES)
def test_archives(kind, refused):
    assert "FILE.tar.gz is not " in refused("convert-fconv FILE NEW", ARCHIVES[kind], "FILE.tar.gz")


@pytest.mark.parametrize("kind", YAML)
@pytest.mark.parametrize("command", OF_YAML)
def test_yaml(command, kind, refused):
    assert "FILE.yaml" in refused(OF_YAML[command], YAML[kind], "FILE.yaml")


@pytest.mark.parametrize("kind", JSON)
@pytest.mark.parametrize("command", OF_JSON)
def test_json(command, kind, refused):
    refused(OF_JSON[command], JSON[kind], "FILE.json")


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("command", OF_TEXTS)
def test_texts(command, kind, refused):
    refused(OF_TEXTS[command], TEXTS[kind])
