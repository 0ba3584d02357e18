"""Lines of random bytes: one output for each line, in order.

CONVS2S_LINES is the number of lines; ``make random-bytes`` sets it to 100,000.
"""

import os
import random
import subprocess

from tests.support.commands import PLUGIN, TASK, hypotheses, quick_command, server

LINES = int(os.environ.get("CONVS2S_LINES", "2000"))
# Lines with a place of their own: their translations are known.
EVERY = 100
PIECES = (
    "eins",
    "zwei",
    " ",
    "\t",
    "\r",
    "\x00",
    "\x1c",
    "\x85",
    "\u2028",
    "\u200b",
    "<unk>",
    "@@ ",
)
# A seventh of the first 65,536 characters, without surrogates.
CHARACTERS = [*range(32, 0xD800), *range(0xE000, 0x11000)][::7]


def random_lines(valid):
    """Lines of random characters, or bytes if they need not be valid UTF-8."""
    numbers = random.Random(1)
    for number in range(LINES):
        if number % EVERY == 0:
            yield b"eins zwei drei"
        elif not valid and numbers.random() < 0.5:
            yield numbers.randbytes(numbers.randrange(40)).replace(b"\n", b"")
        else:
            kinds = (
                lambda: numbers.choice(PIECES),
                lambda: chr(numbers.choice(CHARACTERS)),
            )
            count = numbers.randrange(12)
            text = "".join(numbers.choice(kinds)() for _ in range(count)).replace("\n", "")
            yield text.encode()


def test_convs2s_translate(corpus, trained, tmp_path):
    """Invalid UTF-8 is refused with its line, after the lines before it; all else is translated."""
    lines = list(random_lines(valid=True))
    (tmp_path / "text").write_bytes(b"".join(line + b"\n" for line in lines))
    base = (
        *(server().programs / "convs2s", "translate", "--path", trained / "checkpoint_last.pt"),
        *("--data", corpus / "bin", "--device", "cpu", "--raw", "--beam", "1"),
    )
    with open(tmp_path / "text", "rb") as text:
        done = subprocess.run(list(map(str, base)), stdin=text, capture_output=True)
    assert done.returncode == 0, done.stderr[-2000:]
    outputs = done.stdout.split(b"\n")
    assert outputs.pop() == b"" and len(outputs) == LINES
    assert len({outputs[number] for number in range(0, LINES, EVERY)}) == 1
    invalid = b"eins\n\xff\xfe\nzwei\n"
    done = subprocess.run([*map(str, base), "--line-by-line"], input=invalid, capture_output=True)
    assert done.returncode == 2 and b"line 2: byte 0xff" in done.stderr
    assert done.stdout.count(b"\n") == 1


def test_fairseq_interactive(corpus, trained, tmp_path):
    """Any bytes, since the locale lets invalid ones through."""
    lines = list(random_lines(valid=False))
    (tmp_path / "text").write_bytes(b"".join(line + b"\n" for line in lines))
    program = quick_command(
        "interactive",
        *(corpus / "bin", "--user-dir", PLUGIN, "--path", trained / "checkpoint_last.pt"),
        *("--cpu", "--source-lang", "de", "--target-lang", "en", "--beam", "1", *TASK),
        *("--buffer-size", "100", "--max-tokens", "2000", "--max-len-b", "20"),
    )
    setup = (
        "import sys; sys.stdin.reconfigure(errors='surrogateescape'); "
        "from fairseq_cli.interactive import cli_main; cli_main()"
    )
    program = [server().programs / "python", "-c", setup, *program[1:]]
    with open(tmp_path / "text", "rb") as text:
        done = subprocess.run(program, stdin=text, capture_output=True)
    assert done.returncode == 0, done.stderr[-2000:]
    printed = done.stdout.decode("utf-8", "surrogateescape")
    found = hypotheses(printed)
    assert list(found) == list(range(LINES))
    assert len({found[number][0][1] for number in range(0, LINES, EVERY)}) == 1
