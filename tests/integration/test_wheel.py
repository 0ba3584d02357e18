"""The wheel, installed into an environment of its own, trains and translates from any folder.

The wheel is built from the source archive, as `make wheel` builds both. torch, fairseq and the
other dependencies are those of this environment, since installing them takes minutes.
"""

import os
import platform
import re
import site
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from convs2s_plugin import __version__
from tests import ROOT
from tests.support.commands import TINY, hypotheses
from tests.support.repository import copy_repository, repository_files

PACKAGES = ("convs2s", "convs2s_plugin")
# What setuptools adds to the source archive, and what is only for git and Docker.
ADDED = {"PKG-INFO", "setup.cfg"}
LEFT_OUT = {".dockerignore", ".gitignore"}


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
def archive(tmp_path_factory):
    """The source archive, built from a copy of the repository."""
    folder = tmp_path_factory.mktemp("archive")
    copy_repository(folder / "sources")
    run(
        *(sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", folder / "dist"),
        cwd=folder / "sources",
    )
    (built,) = (folder / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(archive, tmp_path_factory):
    """The wheel, built from the source archive."""
    folder = tmp_path_factory.mktemp("wheel")
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


def test_the_source_archive_holds_the_repository_and_nothing_else(archive):
    with tarfile.open(archive) as file:
        names = {each.name.partition("/")[2] for each in file if each.isfile()}
    packed = {name for name in names if not name.startswith("convs2s_plugin.egg-info/")}
    assert packed == ADDED | set(repository_files()) - LEFT_OUT


def test_every_link_of_the_description_leads_to_a_file_of_this_version(wheel):
    (name,) = (name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("/METADATA"))
    metadata = zipfile.ZipFile(wheel).read(name).decode("utf-8")
    assert "\nDescription-Content-Type: text/markdown\n" in metadata
    links = re.findall(r"(!?)\[[^]]*\]\(([^)]*)\)", metadata)
    ours = r"https://github\.com/convs2s-plugin/convs2s-plugin/(blob|raw)/v(.+?)/([^#]+)"
    found = [(sign, re.match(ours, link)) for sign, link in links]
    assert all(match or link.startswith("https://") for (_, match), (_, link) in zip(found, links))
    ways = {(sign, match[1], match[2]) for sign, match in found if match}
    assert ways == {("", "blob", __version__), ("!", "raw", __version__)}
    assert all((ROOT / match[3]).is_file() for _, match in found if match)


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
