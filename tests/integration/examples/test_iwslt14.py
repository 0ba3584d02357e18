"""examples/iwslt14: preparation of a miniature archive in the layout of the published one."""

import io
import subprocess
import sys
import tarfile
from typing import NamedTuple

import pytest

from tests.integration.examples.conftest import EXAMPLES

pytest.importorskip("sacremoses")

PREPARE = EXAMPLES / "iwslt14" / "prepare.py"
TALKS = 3
SENTENCES = 20
# A title and a description for each talk.
TAGGED = TALKS * (SENTENCES + 2)
# The miniature archive has one pair each of these: empty, too long, of unequal lengths.
UNCLEAN = 3
TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
NUMBERS = {"de": ("eins", "zwei", "drei", "vier"), "en": ("one", "two", "three", "four")}


def sentence(language, number):
    """A sentence with a number's digits to base 4 as words, the units first."""
    words = [NUMBERS[language][number // 4**place % 4] for place in range(3)]
    if language == "de":
        return f"Wir zählen {' '.join(words)}, heute."
    return f"We count {' '.join(words)}, today."


def training_text(language):
    lines = []
    for talk in range(TALKS):
        lines += [
            f"<url>http://example.org/{talk}</url>",
            "<keywords>talks, numbers</keywords>",
            f"<talkid>{talk}</talkid>",
            f"<title>{sentence(language, talk)}</title>",
            f"<description>{sentence(language, talk + 1)}</description>",
        ]
        lines += [f"{sentence(language, talk * SENTENCES + i)} " for i in range(SENTENCES)]
    # Sentences of the first talk are replaced: three unclean pairs, one with the largest ratio
    # that is kept, and one with special characters.
    lines[7] = {"de": "Nur deutsch.", "en": ""}[language]
    lines[8] = " ".join(["Wort" if language == "de" else "word"] * 176)
    lines[9] = {"de": "a b c d", "en": "a b"}[language]
    lines[10] = {"de": "a b c", "en": "a b"}[language]
    special = {"de": "Wir & „ihr“ ’ [so], z.B. hier.", "en": 'We & "you" ’ it\'s, e.g. here.'}
    lines[11] = special[language]
    return "".join(f"{line}\n" for line in lines)


def test_text(language, place):
    segments = "".join(
        f'<seg id="{i + 1}"> {sentence(language, 10 * place + i)} </seg>\n'
        for i in range(place + 1)
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<mteval>\n<doc docid="{place}">\n'
        f"<title>Not a sentence</title>\n<hl>\n{segments}</hl>\n</doc>\n</mteval>\n"
    )


test_text.__test__ = False


def contents():
    """The name of each file of the miniature archive -> its content."""
    files = {"README": b"Made up.\n", "train.en": b"monolingual\n"}
    for language in ("de", "en"):
        files[f"train.tags.de-en.{language}"] = training_text(language).encode()
        for place, name in enumerate(TESTS):
            text = test_text(language, place).encode()
            files[f"IWSLT14.{name}.de-en.{language}.xml"] = text
    return files


def pack(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def archive(tmp_path):
    """The miniature archive."""
    return pack(tmp_path / "mini.tgz", {f"de-en/{k}": v for k, v in contents().items()})


class Done(NamedTuple):
    """The end of a command."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def prepare(load, tmp_path, monkeypatch, capsys):
    """A function that runs prepare.py with options in the test's folder, in this process."""
    monkeypatch.chdir(tmp_path)
    main = load("iwslt14/prepare.py").main

    def prepare(*options):
        monkeypatch.setattr("sys.argv", ["prepare.py", *map(str, ("--jobs", 1, *options))])
        code = 0
        try:
            main()
        except SystemExit as end:
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
            code = end.code if isinstance(end.code, int) else 1
        return Done(code, *capsys.readouterr())

    return prepare


def lines(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_splits(archive, prepare, tmp_path):
    done = prepare("--archive", archive, "--out", "text")
    assert done.returncode == 0, done.stderr
    text = {path.name: lines(path) for path in (tmp_path / "text").iterdir()}
    assert set(text) == {f"{s}.{x}" for s in ("train", "valid", "test") for x in ("de", "en")}
    clean = TAGGED - UNCLEAN
    for language in ("de", "en"):
        assert len(text[f"valid.{language}"]) == clean // 23
        assert len(text[f"train.{language}"]) == clean - clean // 23
        assert len(text[f"test.{language}"]) == sum(range(1, len(TESTS) + 1))
    # The title of the first talk, without its tags.
    assert text["train.de"][0] == "wir zählen eins eins eins , heute ."
    assert text["train.en"][0] == "we count one one one , today ."
    # Special characters become entities, abbreviations keep their periods, and a curly apostrophe
    # of the training text stays.
    assert "wir &amp; „ ihr “ ’ &#91; so &#93; , z.b. hier ." in text["train.de"]
    assert "we &amp; &quot; you &quot; ’ it &apos;s , e.g. here ." in text["train.en"]
    assert not any("nur deutsch" in line or "<" in line for line in text["train.de"])
    # Every 23rd pair is for validation. The first talk has 19 clean pairs, and the 23rd is the
    # second sentence of the second talk, number 21.
    # 21 is 1 1 1 to base 4.
    assert text["valid.de"][0] == "wir zählen zwei zwei zwei , heute ."
    assert text["valid.en"][0] == "we count two two two , today ."
    assert ("a b c", "a b") in zip(text["train.de"], text["train.en"])
    # The test sets follow each other in the order of the script.
    for language in ("de", "en"):
        expected = [
            sentence(language, 10 * place + i) for place in range(5) for i in range(place + 1)
        ]
        found = [line.replace(" ,", ",").replace(" .", ".") for line in text[f"test.{language}"]]
        assert found == [line.lower() for line in expected]
    printed = " ".join(done.stdout.split())
    assert f"training lines {TAGGED} 174,443" in printed
    assert f"after cleaning {clean} 167,522" in printed
    assert f"text/train {clean - clean // 23} 160,239" in printed
    assert "not comparable" in printed
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_files_of_a_folder_give_the_same_text(archive, prepare, tmp_path):
    folder = tmp_path / "orig" / "de-en"
    folder.mkdir(parents=True)
    for name, content in contents().items():
        (folder / name).write_bytes(content)
    for options in (
        ("--archive", archive, "--out", "a"),
        ("--archive", folder, "--out", "b"),
        ("--archive", folder.parent, "--out", "c"),
        ("--address", archive.as_uri(), "--download", "--archive", "copy.tgz", "--out", "d"),
    ):
        done = prepare(*options)
        assert done.returncode == 0, done.stderr
    for name in ("train.de", "valid.en", "test.en"):
        assert len({(tmp_path / out / name).read_bytes() for out in "abcd"}) == 1
    assert (tmp_path / "copy.tgz").read_bytes() == archive.read_bytes()


def test_folders_that_cannot_be_renamed(archive, prepare, tmp_path, monkeypatch):
    """The current folder has no name in its path, and a link is not a folder."""
    for name in ("here", "linked"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("linked")
    done = prepare("--archive", archive, "--out", "link")
    assert done.returncode == 0, done.stderr
    assert "linked/train" in done.stdout
    monkeypatch.chdir(tmp_path / "here")
    done = prepare("--archive", archive, "--out", ".")
    assert done.returncode == 0, done.stderr
    assert "here/train" in done.stdout
    for name in ("here", "linked"):
        assert len(list((tmp_path / name).iterdir())) == 6
    assert {path.name for path in tmp_path.iterdir()} == {"mini.tgz", "here", "link", "linked"}


def test_a_signal_leaves_nothing(archive, tmp_path):
    code = "import os, prepare, sys; from pathlib import Path; "
    code += "prepare.write_splits = lambda *given: os.kill(os.getpid(), 15) or os.sched_yield(); "
    code += (
        f"os.chdir({str(tmp_path)!r}); sys.argv = ['prepare.py', '--archive', {archive.name!r}]; "
    )
    code += "prepare.main()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PREPARE.parent, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (143, "")
    assert [path.name for path in tmp_path.iterdir()] == ["mini.tgz"]


def drop_last_line(files, name):
    files[name] = files[name][: files[name].rindex(b"\n", 0, -1) + 1]


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda f: f.pop("train.tags.de-en.en"), "has no train.tags.de-en.en"),
        (
            lambda f: drop_last_line(f, "train.tags.de-en.en"),
            "train.tags.de-en.de has 66 sentences, but train.tags.de-en.en has 65",
        ),
        (
            lambda f: f.update({"IWSLT14.TED.tst2010.de-en.de.xml": b'<seg id="1"> a </seg>\n'}),
            "IWSLT14.TED.tst2010.de-en.de.xml has 1 sentences, but",
        ),
        (
            lambda f: f.update({"train.tags.de-en.de": "eins\nzwölf\n".encode("latin-1")}),
            "train.tags.de-en.de, line 2: byte 0xf6",
        ),
        (lambda f: f.update({"../../outside": b"x"}), "lies outside the folder of the archive"),
        (lambda f: f.update({"/outside": b"x"}), "lies outside the folder of the archive"),
    ],
    ids=["missing", "lines", "segments", "encoding", "parent", "absolute"],
)
def test_faults_of_the_archive(prepare, tmp_path, change, message):
    files = contents()
    change(files)
    done = prepare("--archive", pack(tmp_path / "mini.tgz", files))
    assert done.returncode == 1
    assert message in done.stderr
    # Nothing is left, neither of the text nor of temporary files.
    assert [path.name for path in tmp_path.iterdir()] == ["mini.tgz"]
    assert not (tmp_path.parent / "outside").exists()


def test_a_link_is_refused(prepare, tmp_path):
    path = tmp_path / "mini.tgz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("de-en/train.tags.de-en.de")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(member)
    done = prepare("--archive", path)
    assert done.returncode == 1 and "'de-en/train.tags.de-en.de' is a link" in done.stderr


def test_faults_of_the_command(archive, prepare, tmp_path):
    cut = tmp_path / "cut.tgz"
    cut.write_bytes(archive.read_bytes()[:500])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    address = (tmp_path / "nothing.tgz").as_uri()
    for options, message in [
        ((), "There is no de-en.tgz: use --download"),
        (("--archive", cut), "cut.tgz is not a complete tar archive"),
        (("--archive", archive, "--out", "full"), "full already exists"),
        (("--archive", archive, "--out", "full/file/text"), "text cannot be written: File exists."),
        (("--archive", archive, "--jobs", "0"), "must be at least 1"),
        (("--download", "--address", address), f"{address} cannot be downloaded: No such file"),
    ]:
        done = prepare(*options)
        assert done.returncode != 0 and message in done.stderr, done.stderr
    assert not (tmp_path / "de-en.tgz.partial").exists()


def test_as_a_program(archive, tmp_path):
    command = [sys.executable, PREPARE, "--archive", archive, "--out", "text", "--jobs", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(lines(tmp_path / "text" / "test.en")) == sum(range(1, len(TESTS) + 1))
