"""The wheel, installed into an environment of its own, trains and translates from any folder.

The wheel is built from the source archive, as `make wheel` builds both. torch, fairseq and the
other dependencies are those of this environment, since installing them takes minutes.
"""

import os
import platform
import shutil
import site
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from convs2s_plugin import __version__
from tests import ROOT
from tests.support.commands import TINY, hypotheses

PACKAGES = ("convs2s", "convs2s_plugin")
PACKAGING = ("setup.py", "pyproject.toml", "README.md", "LICENSE")


def start(*command, cwd):
    """Run a command that does not see the checkout."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True
    )


def run(*command, cwd):
    """Run such a command, which must succeed, and return its standard output."""
    done = start(*command, cwd=cwd)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a source archive of a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    caches = shutil.ignore_patterns("__pycache__")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, sources / package, ignore=caches)
    for name in PACKAGING:
        shutil.copy(ROOT / name, sources)
    run(sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", folder / "dist", cwd=sources)
    (archive,) = (folder / "dist").iterdir()
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        "dist",
        archive,
        cwd=folder,
    )
    (built,) = (folder / "dist").glob("*.whl")
    return built


def environment_with(wheel, folder):
    """The folder of the programs of a new environment with the wheel and nothing else."""
    venv.create(folder, symlinks=True)
    programs = folder / "bin"
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        programs / "python",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        wheel,
        cwd=folder,
    )
    return programs


def test_without_fairseq_one_sentence_says_what_to_install(wheel, tmp_path):
    alone = environment_with(wheel, tmp_path / "environment")
    versions = f"convs2s {__version__}\nPython {platform.python_version()}\n"
    missing = "torch not installed\nfairseq not installed\n"
    assert run(alone / "convs2s", "--version", cwd=tmp_path) == versions + missing
    done = start(alone / "convs2s", "doctor", cwd=tmp_path)
    assert done.returncode == 1 and "torch is not installed" in done.stdout
    done = start(alone / "python", "-c", "import convs2s_plugin", cwd=tmp_path)
    assert done.returncode == 1
    sentence = done.stderr.strip().splitlines()[-1]
    assert "needs fairseq, which is not installed here" in sentence
    assert 'pip install "convs2s-plugin[fairseq]"' in sentence


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The folder of the programs of an environment with the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("environment")
    programs = environment_with(wheel, folder)
    # The dependencies are those of this environment. Folders that a .pth file names are searched,
    # but the .pth files in them, such as that of an editable install, are not read.
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return programs


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*")]
    files = [path for path in paths if path.is_file() and path.suffix != ".pyc"]
    assert names == {path.relative_to(ROOT).as_posix() for path in files}


def test_train_and_translate_from_another_folder(installed, corpus, tmp_path):
    user_dir = run(installed / "convs2s", "path", cwd=tmp_path).strip()
    assert Path(user_dir).is_relative_to(installed.parent.resolve())

    def fairseq(name, *arguments):
        code = f"from fairseq_cli.{name} import cli_main; cli_main()"
        everywhere = (corpus / "bin", "--user-dir", user_dir, "--cpu")
        return run(installed / "python", "-c", code, *everywhere, *arguments, cwd=tmp_path)

    fairseq("train", *TINY, "--max-update", "2", "--save-dir", "checkpoints", "--num-workers", "0")
    checkpoint = "checkpoints/checkpoint_last.pt"
    printed = fairseq("generate", "--path", checkpoint, "--max-len-b", "10", "--beam", "2")
    assert len(hypotheses(printed)) == 24


def test_the_metadata_states_the_version_of_the_package(installed, tmp_path):
    code = "from importlib.metadata import version; print(version('convs2s-plugin'))"
    stated = run(installed / "python", "-c", code, cwd=tmp_path)
    assert run(installed / "convs2s", "--version", cwd=tmp_path).startswith(f"convs2s {stated}")


def test_a_command_that_imports_fairseq(installed, tmp_path):
    assert "mh_dot_src_att" in run(installed / "convs2s", "adl", "layers", cwd=tmp_path)
