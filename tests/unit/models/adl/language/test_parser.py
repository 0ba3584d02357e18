"""The grammar of ADL: valid and invalid definitions, the places of errors, and hostile text."""

import tracemalloc

import pytest

from convs2s.common.errors import TextError
from convs2s.models.adl.language.parser import MAX_DEPTH, parse
from convs2s.models.adl.language.tree import (
    Call,
    Definition,
    Index,
    Item,
    Number,
    Repeat,
    write,
)
from tests.support.work import at_most_calls


def call(name, *positional, **named):
    items = [Item(None, value, None) for value in positional]
    items += [Item(key, value, None) for key, value in named.items()]
    return Call(name, tuple(items), None)


def number(value):
    return Number(value, None)


def word(name):
    return (call(name),)


RNN = call("rnn")

VALID = [
    ("rnn", (RNN,)),
    ("rnn()", (RNN,)),
    ("  rnn  ->\n\trnn # and that is all -> rnn\n", (RNN, RNN)),
    ("rnn→rnn", (RNN, RNN)),
    ("# first line\nrnn", (RNN,)),
    ("linear(512)", (call("linear", number(512)),)),
    ("linear ( d = 512 , )", (call("linear", d=number(512)),)),
    ("cnn(glu, 3)", (call("cnn", word("glu"), number(3)),)),
    ("cnn(glu, k=5)", (call("cnn", word("glu"), k=number(5)),)),
    ("a(-1, 2.5, .5, 1e-3, 2.)", (call("a", *map(number, (-1, 2.5, 0.5, 0.001, 2.0))),)),
    ("res(norm->rnn)", (call("res", (call("norm"), RNN)),)),
    (
        "concat(id, rnn -> ff(8), res(rnn))",
        (call("concat", word("id"), (RNN, call("ff", number(8))), (call("res", (RNN,)),)),),
    ),
    ("repeat(2, rnn -> id)", (Repeat(2, ((RNN, call("id")),), None),)),
    ("cycle(3, rnn -> id, id)", (Repeat(3, ((RNN, call("id")), word("id")), None),)),
    ("share(a)", (call("share", word("a")),)),
    (
        "a(block=i, k=-i)",
        (call("a", block=Index(1, None), k=Index(-1, None)),),
    ),
    ("res(i -> rnn)", (call("res", (call("i"), RNN)),)),
]


@pytest.mark.parametrize("text, expected", VALID)
def test_syntax_tree(text, expected):
    assert parse(text) == Definition((), expected)


@pytest.mark.parametrize("text", [text for text, _ in VALID])
def test_a_written_tree_parses_to_the_same_tree(text):
    tree = parse(text)
    assert parse(write(tree)) == tree and "\n" not in write(tree) and "#" not in write(tree)


INVALID = [
    ("", 1, 1, "expected a layer, found the end"),
    ("  # nothing", 1, 12, "expected a layer, found the end"),
    ("rnn ->", 1, 7, "expected a layer, found the end"),
    ("-> rnn", 1, 1, "expected a layer, found '->'"),
    ("rnn rnn", 1, 5, "expected '->' or the end, found 'rnn'"),
    ("rnn -> 3", 1, 8, "expected a layer, found '3'"),
    ("rnn)", 1, 4, "expected '->' or the end, found ')'"),
    ("res(rnn", 1, 8, "expected '->', ',' or ')' after the '(' of line 1, column 4, found the end"),
    ("res(rnn rnn)", 1, 9, "expected '->', ',' or ')', found 'rnn'"),
    ("a(1 2)", 1, 5, "expected ',' or ')', found '2'"),
    ("a(5 -> id)", 1, 5, "expected ',' or ')', found '->'"),
    ("a(k=-i -> id)", 1, 8, "expected ',' or ')', found '->'"),
    ("a(,1)", 1, 3, "expected an argument, found ','"),
    ("a(k=)", 1, 5, "expected an argument, found ')'"),
    ("a(k=b=1)", 1, 6, "expected '->', ',' or ')', found '='"),
    ("rnn - > rnn", 1, 5, "found '-', which has no meaning here"),
    ("sum(cnn | rnn)", 1, 9, "found '|', which has no meaning here: commas separate chains, as in"),
    ("rnn; rnn", 1, 4, "expected '->' or the end, found ';'"),
    ("rnn;", 1, 4, "expected '->' or the end, found ';'"),
    ("let", 1, 4, "expected a name for the chain after 'let', found the end"),
    ("let repeat = rnn; rnn", 1, 5, "'repeat' has its own meaning in ADL: choose another name"),
    ("let i = rnn; i", 1, 5, "'i' has its own meaning in ADL: choose another name"),
    ("let 3 = rnn; rnn", 1, 5, "expected a name for the chain after 'let', found '3'"),
    ("let a rnn", 1, 7, "expected '=' after the name of a 'let', found 'rnn'"),
    ("let a = rnn\na", 2, 1, "expected '->' or ';' after the chain of a 'let', found 'a'"),
    ("let a = ; a", 1, 9, "expected a layer, found ';'"),
    ("let a = rnn;", 1, 13, "expected a layer, found the end"),
    ("let a = rnn; let a = id; a", 1, 18, "'a' is already defined: choose another name"),
    ("let a = rnn; let a = rnn; a", 1, 18, "'a' is already defined: choose another name"),
    ("rnn -> let a = rnn; a", 1, 8, "'let' belongs at the beginning of a definition"),
    ("res(let)", 1, 5, "'let' belongs at the beginning of a definition"),
    ("cycle", 1, 6, "expected '(' and the number of repetitions, found the end"),
    ("cycle(0, a, b)", 1, 7, "expected the number of repetitions, from 1 to 2000, found '0'"),
    ("cycle(3, a)", 1, 11, "expected '->' or ',' and another chain ('repeat' has a single one)"),
    ("cycle(2, a, b, id)", 1, 16, "'cycle' has 2 copies in all, so it never reaches this"),
    ("cycle(2, a, 3)", 1, 13, "expected a layer, found '3'"),
    ("cycle(2, a, b", 1, 14, "after the '(' of line 1, column 6, found the end"),
    ("cycle(2, a b)", 1, 12, "expected '->', ',' or ')', found 'b'"),
    ("rnn ->\n  cnn ->\n  $", 3, 3, "found '$', which has no meaning here"),
    ("__import__('os')", 1, 12, "found '''"),
    ("repeat", 1, 7, "expected '(' and the number of repetitions, found the end"),
    ("repeat(rnn, 2)", 1, 8, "expected the number of repetitions, from 1 to 2000, found 'rnn'"),
    ("repeat(0, rnn)", 1, 8, "expected the number of repetitions, from 1 to 2000, found '0'"),
    ("repeat(1.5, rnn)", 1, 8, "from 1 to 2000, found '1.5'"),
    ("repeat(-1, rnn)", 1, 8, "from 1 to 2000, found '-1'"),
    ("repeat(2 rnn)", 1, 10, "expected ',', found 'rnn'"),
    ("repeat(2, rnn, rnn)", 1, 14, "expected '->' or ')', found ','"),
    ("repeat(2, 3)", 1, 11, "expected a layer, found '3'"),
    ("repeat(2, rnn", 1, 14, "after the '(' of line 1, column 7, found the end"),
    ("linear(" + "9" * 30 + ")", 1, 8, "has too many digits"),
    ("dropout(1e99)", 1, 9, "the number 1e99 is too large"),
    ("cycle(1, a, b)", 1, 13, "'cycle' has 1 copy in all, so it never reaches this"),
    ("@", 1, 1, "'@' needs the name of a file, as in '@encoder.adl'"),
    ("rnn -> @no/such.adl", 1, 8, "there is no file 'no/such.adl'"),
]


@pytest.mark.parametrize("text, line, column, message", INVALID)
def test_errors_show_the_place(text, line, column, message):
    with pytest.raises(TextError) as error:
        parse(text, "--encoder-adl")
    assert message in str(error.value)
    assert (error.value.line, error.value.column) == (line, column)
    assert str(error.value).startswith(f"--encoder-adl, line {line}, column {column}: ")
    assert str(error.value).splitlines()[-1].strip() == "^"


HOSTILE = [
    ("rnn->" * 10**6, "characters are more than"),
    ("res(" * 4000, f"nested more than {MAX_DEPTH} deep"),
    ("repeat(2, " * 1500, f"nested more than {MAX_DEPTH} deep"),
    ("repeat(99999999999999999999, rnn)", "expected the number of repetitions"),
    ("repeat(" + "9" * 19000 + ", rnn)", "too many digits"),
    ("a" * 19000 + "(", "found the end"),
    ("(" * 19000, "expected a layer"),
    ("a(" + "1," * 9000, "found the end"),
    ("@" + "/" * 19000, "the name of a file has more than 400 characters"),
    ("@a\0b", "which has no meaning here"),
]


@pytest.mark.parametrize("text, message", HOSTILE, ids=[message for _, message in HOSTILE])
def test_hostile_text_takes_little_work_and_memory(text, message):
    tracemalloc.start()
    with at_most_calls(1_000_000):
        with pytest.raises(TextError, match=message.replace("(", "\\(")) as error:
            parse(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30e6 and len(str(error.value)) < 1000


def test_definitions_in_files(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "model.adl").write_text("pos -> # here\n  @deep/block.adl ->\n  norm\n")
    (tmp_path / "deep" / "block.adl").write_text('repeat(2, @"a cell.adl" -> id)')
    (tmp_path / "deep" / "a cell.adl").write_text("rnn", encoding="utf-8-sig")
    expected = parse("pos -> repeat(2, rnn -> id) -> norm")
    assert parse(f"@{tmp_path}/model.adl") == expected
    assert parse(f"res(@{tmp_path}/model.adl -> id)") == parse(f"res({write(expected)} -> id)")


def test_an_error_in_a_file_names_the_file(tmp_path):
    (tmp_path / "model.adl").write_text("pos ->\n  cnn(,")
    with pytest.raises(TextError) as error:
        parse(f"@{tmp_path}/model.adl")
    assert str(error.value).startswith(f"{tmp_path}/model.adl, line 2, column 7: expected an arg")


def test_files_that_cannot_be_included(tmp_path):
    def message(name, content):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(TextError) as error:
            parse(f"id -> @{tmp_path}/{name}")
        return str(error.value)

    assert "includes itself" in message("self", b"rnn -> @self")
    (tmp_path / "pong").write_text("@ping")
    assert "includes itself" in message("ping", b"@pong")
    assert "it is not UTF-8" in message("latin", b"rnn # \xe9")
    assert "is longer than 20000 characters" in message("long", b" " * 30000)
    assert "expected a layer, found the end" in message("empty", b"")
    assert "there is no file" in message("folder", b"@..")
    (tmp_path / "one").write_text("id")
    assert "more than 100 files are included" in message("many", b"id" + b"->@one" * 200)
    for number in range(60):
        (tmp_path / f"n{number}").write_text(f"@n{number + 1}")
    assert "nested more than 50 deep" in message("n60", b"@n0")
    with pytest.raises(TextError, match="there is no file"):
        parse("@/dev/zero")
