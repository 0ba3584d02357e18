"""The command line of ``convs2s``, and the error of an import without fairseq."""

import shutil
import subprocess
import sys
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import pytest
import torch

from convs2s.cli import flops, main
from convs2s.common.tables import Table
from tests.support.commands import PLUGIN


def test_path_is_a_user_dir(capsys):
    assert main(["path"]) == 0
    printed = Path(capsys.readouterr().out.strip())
    assert printed == PLUGIN and (printed / "__init__.py").is_file()


@pytest.mark.parametrize("name", ["path", "doctor"])
def test_ctrl_c_ends_every_command_without_a_traceback(name, monkeypatch, capsys):
    def interrupt(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module(f"convs2s.cli.{name}"), "run", interrupt)
    assert main([name]) == 130
    assert capsys.readouterr() == ("", "")


def test_too_little_memory_of_a_gpu_is_a_sentence(monkeypatch, capsys):
    def allocate(args):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    monkeypatch.setattr(import_module("convs2s.cli.doctor"), "run", allocate)
    assert main(["doctor"]) == 2
    assert "convs2s doctor: error: There is not enough memory" in capsys.readouterr().err


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "convs2s", "path"],
        check=True,
        capture_output=True,
        text=True,
        cwd=PLUGIN.parent,
    )
    assert done.stdout.strip() == str(PLUGIN)


def test_former_names_of_commands(monkeypatch, capsys):
    monkeypatch.setattr(flops, "convs2s_table", lambda words: Table(["convs2s"], [[str(words)]]))
    monkeypatch.setattr(flops, "pervasive_table", lambda words: Table(["other"], [[str(words)]]))
    assert main(["architectures", "--words", "123"]) == 0
    assert capsys.readouterr().out.split().count("123") == 2
    assert main(["flops", "--named", "--arch", "convs2s"]) == 2
    assert "omit it or --arch" in capsys.readouterr().err


def test_without_fairseq_its_models_are_refused_in_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr("convs2s.cli.plugin.missing_fairseq", lambda: "fairseq is missing.")
    assert main(["flops", "--arch", "transformer"]) == 2
    assert capsys.readouterr().err == "convs2s flops: error: fairseq is missing.\n"


def refusal_of_the_plugin(folder):
    """What a failed import of the plugin says, in an interpreter without any other package."""
    code = f"import sys; sys.path.append({str(folder)!r}); import convs2s_plugin"
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


def test_import_without_fairseq_says_what_to_install():
    last = refusal_of_the_plugin(PLUGIN.parent)
    assert last.startswith("ImportError: convs2s_plugin needs fairseq, which is not installed")
    assert 'pip install "convs2s-plugin[fairseq]"' in last


@pytest.mark.parametrize("kind", ["missing", "cut", "other", "plain", "foreign"])
def test_errors_of_average(kind, tmp_path, capsys):
    good, bad = tmp_path / "good.pt", tmp_path / "bad.pt"
    torch.save({"model": {"w": torch.ones(2, 3)}}, good)
    messages = {
        "missing": "There is no file",
        "cut": "is not a complete checkpoint",
        "other": "has weights with other names, shapes or types",
        "plain": "is not a checkpoint",
        "foreign": "holds an object of fractions.Fraction, which is not plain data",
    }
    if kind == "cut":
        bad.write_bytes(good.read_bytes()[:100])
    elif kind == "other":
        torch.save({"model": {"w": torch.ones(3, 3)}}, bad)
    elif kind == "plain":
        torch.save([1, 2], bad)
    elif kind == "foreign":
        torch.save({"model": {"w": torch.ones(2, 3)}, "best": Fraction(1, 3)}, bad)
    assert (
        main(["average", "--inputs", str(good), str(bad), "--output", str(tmp_path / "out.pt")])
        == 2
    )
    assert messages[kind] in capsys.readouterr().err
    assert not (tmp_path / "out.pt").exists()


def test_a_copy_of_the_plugin_alone_says_what_is_missing(tmp_path):
    shutil.copytree(PLUGIN, tmp_path / PLUGIN.name)
    last = refusal_of_the_plugin(tmp_path)
    assert last.startswith("ImportError: convs2s_plugin needs the library convs2s")
