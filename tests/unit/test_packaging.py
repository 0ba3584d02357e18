"""pyproject.toml, Makefile, constraints and the other files of the project agree."""

import ast
import fnmatch
import re
import subprocess
import sys

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from convs2s import __version__
from tests import ROOT

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
HUBCONF = (ROOT / "hubconf.py").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CONSTRAINTS = {"3.10": "constraints-py310.txt", "3.11": "constraints.txt"}
OLDEST, *_ = VERSIONS = [
    classifier.rpartition(" ")[2]
    for classifier in PROJECT["classifiers"]
    if re.match(r"Programming Language :: Python :: 3\.\d+", classifier)
]


def pins(name):
    """A file of constraints: package -> version."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pinned = [line.partition("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(package): version for package, _, version in pinned}


def read_yaml(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_extras_of_the_makefile_exist():
    named = re.findall(r"'\.\[([a-z,]+)\]'", MAKEFILE)
    assert named and {extra for extras in named for extra in extras.split(",")} <= set(EXTRAS)


def test_extras_of_extras_exist():
    requirements = [Requirement(text) for texts in EXTRAS.values() for text in texts]
    own = [one for one in requirements if one.name == PROJECT["name"]]
    assert {extra for one in own for extra in one.extras} <= set(EXTRAS)


def test_every_extra_is_on_the_page_about_installation():
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE)) >= set(EXTRAS)


def test_every_dependency_is_on_its_page():
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ")]
    named = {canonicalize_name(name.strip()) for cell in cells for name in cell.split(",")}
    texts = [*PROJECT["dependencies"], *(text for extra in EXTRAS.values() for text in extra)]
    needed = {canonicalize_name(Requirement(text).name) for text in texts}
    assert needed - {PROJECT["name"]} <= named


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "arm64", "AMD64"])
@pytest.mark.parametrize("system", ["linux", "darwin"])
@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_one_distribution_of_fairseq(version, system, machine):
    """They overwrite one another; no distribution is for Python 3.13 and later."""
    where = {"python_version": version, "sys_platform": system, "platform_machine": machine}
    needed = [one for one in map(Requirement, EXTRAS["fairseq"]) if one.marker.evaluate(where)]
    chosen = [one for one in needed if "fairseq" in one.name]
    assert len(chosen) == (0 if version == "3.13" else 1)


@pytest.mark.parametrize("version", CONSTRAINTS)
def test_every_dependency_is_pinned(version):
    pinned = pins(CONSTRAINTS[version])
    texts = [*PROJECT["dependencies"], *(text for extra in EXTRAS.values() for text in extra)]
    for one in map(Requirement, texts):
        if one.name == PROJECT["name"]:
            continue
        if one.marker is None or one.marker.evaluate({"python_version": version}):
            assert one.specifier.contains(pinned[canonicalize_name(one.name)]), one


@pytest.mark.parametrize("name", CONSTRAINTS.values())
def test_the_makefile_installs_the_pinned_torch(name):
    assert re.findall(r"torch==(\S+)", MAKEFILE) == [pins(name)["torch"]]


def test_the_wheel_has_every_file_of_the_package():
    """setuptools packs Python files, and of the others those that package-data names."""
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"]["convs2s_plugin"]
    folder = ROOT / "convs2s_plugin"
    packed = {path for pattern in patterns for path in folder.glob(pattern)}
    others = {
        path
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc") and "__pycache__" not in path.parts
    }
    assert others == packed


def test_one_minimum_version_of_python():
    assert PROJECT["requires-python"] == f">={OLDEST}"
    assert PYPROJECT["tool"]["mypy"]["python_version"] == OLDEST


def test_every_target_is_phony_and_the_documented_ones_exist():
    phony = set(re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE).group(1).split())
    assert phony == TARGETS
    assert set(re.findall(r"make ([a-z-]+) ", MAKEFILE)) <= TARGETS
    assert {"demo", "test", "test-fast", "lint", "format", "docs", "bench", "wheel"} <= TARGETS


def test_output_of_the_examples_is_ignored_and_removed():
    dry = subprocess.run(["make", "--dry-run", "clean"], cwd=ROOT, capture_output=True, text=True)
    clean = dry.stdout.split()
    assert "mine_out" not in clean and "*_out" not in clean
    named = [clean]
    # What is only for git and Docker is not in the source archive.
    named += [
        [line.strip("/") for line in (ROOT / name).read_text().splitlines()]
        for name in (".gitignore", ".dockerignore")
        if (ROOT / name).exists()
    ]
    written = {
        f"{path.stem}_{kind}"
        for path in (ROOT / "examples").rglob("*.yaml")
        for kind in ("out", "smoke")
    }
    for path in (ROOT / "examples").rglob("*.py"):
        written |= set(re.findall(r'"(\w+_out|iwslt14_text)"', path.read_text(encoding="utf-8")))
    assert {"demo_out", "iwslt14_text", "pronunciation_out"} <= written
    for patterns in named:
        assert [
            name for name in written if not any(fnmatch.fnmatch(name, each) for each in patterns)
        ] == []


def test_a_folder_with_a_space():
    done = subprocess.run(
        ["make", "--dry-run", "models", "SIGMORPHON=a folder", f"PYTHON={sys.executable}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert "--sigmorphon 'a folder'" in done.stdout


def test_torch_hub_names_what_hubconf_imports():
    """torch.hub checks that packages are there, which are named as they are imported."""
    pytest.importorskip("fairseq")
    names = {"pyyaml": "yaml", "backports-zstd": "backports", "subword-nmt": "subword_nmt"}
    needed = {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}
    code = "import sys; hidden = sys.argv[1:]; sys.modules.update(dict.fromkeys(hidden)); "
    (listed,) = (
        ast.literal_eval(node.value)
        for node in ast.parse(HUBCONF).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "dependencies"
    )
    hidden = {names.get(name, name) for name in needed} - set(listed)
    command = [sys.executable, "-c", f"{code} import hubconf", *hidden]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert hidden and done.returncode == 0, done.stderr[-1000:]


@pytest.mark.parametrize("path", [ROOT / ".ci" / "run", *WORKFLOWS], ids=lambda path: path.name)
def test_continuous_integration_runs_targets_of_the_makefile(path):
    called = re.findall(r"^\s*(?:- run: )?make ([a-z-]+)", path.read_text(), re.MULTILINE)
    assert called and set(called) <= TARGETS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_few_rights_limits_of_time_and_pinned_actions(path):
    workflow = read_yaml(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 360, name
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), step
    used = re.findall(r"uses: (.*)", path.read_text(encoding="utf-8"))
    version = r"v\d+\.\d+\.\d+"
    for action in used:
        assert re.fullmatch(rf"[\w/-]+@([0-9a-f]{{40}} # {version}|{version})", action), action


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_steps_of_workflows_name_files_and_extras_that_exist(path):
    steps = [step for job in read_yaml(path)["jobs"].values() for step in job["steps"]]
    for command in (step["run"] for step in steps if "run" in step):
        assert all((ROOT / name).exists() for name in re.findall(r"\btests/[\w./]+", command))
        named = [
            extra for extras in re.findall(r"'\.\[(.+)\]'", command) for extra in extras.split(",")
        ]
        assert set(named) <= set(EXTRAS), command
    for pattern in {step.get("with", {}).get("cache-dependency-path", "") for step in steps}:
        assert all(list(ROOT.glob(line)) for line in pattern.splitlines())


def test_workflows_cover_every_version_of_python():
    jobs = read_yaml(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == VERSIONS


def test_the_nightly_workflow_fuzzes_every_target():
    jobs = read_yaml(ROOT / ".github" / "workflows" / "nightly.yml")["jobs"]
    targets = (ROOT / "tests" / "fuzz" / "targets.py").read_text(encoding="utf-8")
    (listed,) = re.findall(r"for target in \((.*?)\)", targets, re.DOTALL)
    assert jobs["fuzz"]["strategy"]["matrix"]["target"] == re.findall(r"\w+", listed)


def test_the_nightly_workflow_installs_the_oldest_versions():
    steps = read_yaml(ROOT / ".github" / "workflows" / "nightly.yml")["jobs"]["oldest"]["steps"]
    commands = "\n".join(step["run"] for step in steps if "run" in step)
    used = [extra for extra in EXTRAS if re.search(rf"[\[,]{extra}[\],]", commands)]
    texts = [*PROJECT["dependencies"], *(text for extra in used for text in EXTRAS[extra])]
    lowest = {text for text in texts if re.fullmatch(r"[\w-]+>=[\d.]+", text)}
    # A build needs a recent setuptools in any case.
    stated = {text.replace(">=", "==") + ".*" for text in lowest if "setuptools" not in text}
    assert set(re.findall(r"'([\w-]+==[\d.]+\*)'", commands)) == stated


def test_hooks_have_the_pinned_versions():
    hooks = read_yaml(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    texts = [text for hook in hooks for text in hook.get("additional_dependencies", [])]
    pinned = pins("constraints.txt")
    versions = {one.name: str(one.specifier) for one in map(Requirement, texts)}
    del versions["pre-commit-hooks"]
    assert versions == {name: f"=={pinned[name]}" for name in ("ruff", "codespell")}


def test_addresses_of_the_project_have_one_form():
    paths = [*ROOT.glob("*"), *(ROOT / ".github").rglob("*"), *(ROOT / "convs2s").rglob("*.json")]
    found = {}
    for path in paths:
        if path.suffix in (".md", ".toml", ".cff", ".yml", ".json"):
            text = path.read_text(encoding="utf-8")
            found[path.name] = re.findall(r"https://(?:github\.com/convs2s|convs2s)[\w./-]*", text)
    addresses = {address for listed in found.values() for address in listed}
    form = (
        r"https://(github\.com/convs2s-plugin|convs2s-plugin\.github\.io)(/convs2s-plugin(/.*)?)?"
    )
    assert addresses and all(re.fullmatch(form, address) for address in addresses)


def test_every_published_file_states_the_same_version():
    citation = read_yaml(ROOT / "CITATION.cff")
    assert citation["version"] == __version__
    assert citation["title"] == PROJECT["name"] and citation["license"] == PROJECT["license"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[?(\d+\.\d+)", changelog, re.MULTILINE)
    assert __version__.startswith(released[0])


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "RELEASING.md", "SECURITY.md"])
def test_paths_in_the_pages_for_contributors_exist(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    paths = re.findall(r"\b(?:convs2s_plugin|docs|tests)/[\w./-]*\w", text)
    missing = [path for path in set(paths) if not (ROOT / path).exists() and "NAME" not in path]
    assert paths and not missing
    assert set(re.findall(r"`make ([a-z-]+)", text)) <= TARGETS
