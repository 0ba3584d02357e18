"""The pages do what they say: their commands and Python run, and the site builds.

README.md and docs/tutorial.md begin in a folder of their own. Every other page runs in a copy of a
folder with a model on the data that docs/prepare.md binarizes with fairseq-preprocess. If it names
``prepared``, it finds there what README.md has left.
"""

import importlib.util
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import NEEDS_FAIRSEQ, hypotheses, server
from tests.support.doc_blocks import DOCS, README, ROOT, Block, blocks, pages

pytestmark = [NEEDS_FAIRSEQ, pytest.mark.docs, pytest.mark.slow]

WORDS = "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf hunde rennen".split()
# What is read where its text stands, and not run.
INSTALLING = {"make", "pip"}
PREPARE = DOCS / "prepare.md"
TUTORIAL = DOCS / "tutorial.md"
PAGES = [page for page in pages() if page not in (README, TUTORIAL)]
# It learns to end sentences: other models translate to the maximum length, which is slow.
TRAINING = """
fairseq-train data-bin --user-dir "$(convs2s path)" \\
  --arch convs2s_iwslt_de_en --share-all-embeddings \\
  --task convs2s_translation --criterion convs2s_cross_entropy --label-smoothing 0.1 \\
  --optimizer adam --lr 0.002 --clip-norm 1.0 --max-tokens 500 --max-epoch 4
"""


def write_corpus(folder: Path, name: str, size: int) -> None:
    """Parallel text in which the target is the source backwards, in other words."""
    numbers = random.Random(name)
    sources = [numbers.choices(WORDS, k=numbers.randint(2, 7)) for _ in range(size)]
    targets = [[f"{word}-th" for word in reversed(words)] for words in sources]
    for language, lines in (("de", sources), ("en", targets)):
        text = "".join(" ".join(line) + "\n" for line in lines)
        (folder / f"{name}.{language}").write_text(text, encoding="utf-8")


def runs(block: Block) -> bool:
    installs = block.language == "sh" and block.code.split()[0] in INSTALLING
    code = block.language in ("sh", "python") or bool(block.title)
    return block.run and code and not installs


def with_options(code: str, options: str) -> str:
    """Shell code with further options behind those of each training, experiment or corpus."""
    if not options:
        return code
    programs = "fairseq-train|convs2s train|convs2s experiment|make_corpus.py"
    changed = re.sub(rf"((?:{programs})(?:[^\n]*\\\n)*[^\n]*)", rf"\1 {options}", code)
    assert changed != code, "a block without a training or a corpus takes no options"
    return changed


def run(block: Block, folder: Path) -> str:
    """Run a block, or write it down if it is a file; what it printed."""
    if block.title:
        (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
        (folder / block.title).write_text(block.code, encoding="utf-8")
        return ""
    code = with_options(block.code, block.options)
    if block.language == "python":
        (folder / "block.py").write_text(block.code, encoding="utf-8")
        code = "python block.py"
    done = server().bash(code, folder)
    assert done.returncode == 0, f"{block.place}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
    return done.stdout


def run_all(page: Path, folder: Path, fewer: tuple[str, str] = ("", "")) -> list[str]:
    """Run the blocks of a page, and drop the checkpoints of its epochs.

    Args:
        fewer: a text of the page, and what is run in its place.
    Returns:
        What each block printed.
    """
    found = [block._replace(code=block.code.replace(*fewer)) for block in blocks(page)]
    assert any(fewer[1] in block.code for block in found)
    printed = [run(block, folder) for block in found if runs(block)]
    for path in folder.rglob("checkpoint[0-9]*.pt"):
        path.unlink()
    return printed


@pytest.fixture(scope="module")
def readme(tmp_path_factory):
    """The folder that the commands of README.md leave, and what each block printed."""
    pytest.importorskip("sacremoses")
    folder = tmp_path_factory.mktemp("readme")
    write_corpus(folder, "corpus", 160)
    return folder, run_all(README, folder, fewer=("--max-epoch 20", "--max-epoch 4"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with text, the data that docs/prepare.md makes of it, and a model in checkpoints."""
    folder = tmp_path_factory.mktemp("trained")
    for name, size in (("corpus", 160), ("train", 152), ("valid", 8), ("test", 5)):
        write_corpus(folder, name, size)
    (binarize,) = (block for block in blocks(PREPARE) if "fairseq-preprocess" in block.code)
    run(binarize, folder)
    run(binarize._replace(code=TRAINING), folder)
    for path in folder.rglob("checkpoint[0-9]*.pt"):
        path.unlink()
    return folder


def test_readme_goes_from_text_to_a_translation(readme):
    folder, (prepare, _, translate, fairseq) = readme
    translation = translate.splitlines()[-1]
    # Two epochs teach little, but the same in Python.
    assert "-th" in translation
    assert translated_in_python("Zwei Hunde rennen.", folder) == translation
    text, translated = (
        path.read_text(encoding="utf-8").splitlines()
        for path in (folder / "prepared" / "text" / "test.de", folder / "translation.en")
    )
    assert len(text) == len(translated) > 0
    # Both of fairseq's commands translate the same test set with the model of fairseq-train.
    options = "--preparation prepared --input prepared/text/test.de"
    code = f"convs2s translate --path checkpoints/checkpoint_best.pt {options}"
    expected = set(server().bash(code, folder).stdout.splitlines())
    for mark in ("H", "D"):
        found = hypotheses(fairseq, mark).values()
        assert {text for of_sentence in found for _, text in of_sentence} == expected
    assert "convs2s train prepared" in prepare


def translated_in_python(sentence: str, folder: Path) -> str:
    """The translation by the block of docs/hub.md that reads the folder of README.md."""
    (block,) = (
        block for block in blocks(DOCS / "hub.md") if 'from_pretrained("prepared")' in block.code
    )
    code = re.sub(r'translate\(".+"\)', f'translate("{sentence}")', block.code)
    return run(block._replace(code=code), folder).splitlines()[-1]


def test_the_tutorial_goes_from_text_to_a_comparison(tmp_path):
    for package in ("sacremoses", "num2words", "babel", "matplotlib"):
        pytest.importorskip(package)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    printed = run_all(TUTORIAL, tmp_path)
    assert any("All of this holds." in text for text in printed)
    assert "| hybrid " in printed[-1] and "p = " in printed[-1]
    for name in ("attention.png", "both.png", "hybrid.svg"):
        assert (tmp_path / name).stat().st_size > 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_says_works(page, trained, tmp_path, request):
    found = [block for block in blocks(page) if runs(block)]
    if not found:
        return
    if page.stem == "generation":
        pytest.importorskip("eflomal")
    if page == PREPARE:
        pytest.importorskip("sacremoses")
        pytest.importorskip("sentencepiece")
    if page.stem in ("export", "generation"):
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    if page.stem == "export":
        pytest.importorskip("transformers")
    folder = tmp_path / "folder"
    # fairseq-preprocess overwrites nothing.
    made = shutil.ignore_patterns("data-bin") if page == PREPARE else None
    shutil.copytree(trained, folder, ignore=made)
    (folder / "examples").symlink_to(ROOT / "examples")
    if page != PREPARE and any("prepared" in block.code for block in found):
        folder_of_readme, _ = request.getfixturevalue("readme")
        (folder / "prepared").symlink_to(folder_of_readme / "prepared")
    for block in found:
        run(block, folder)


@pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None,
    reason="the extra docs is not installed",
)
def test_the_site_builds_without_a_warning(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for page in DOCS.rglob("*.md"):
        assert (tmp_path / page.relative_to(DOCS).with_suffix(".html")).is_file()
