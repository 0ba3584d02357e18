"""Names for chains, shared weights, cycles and both directions, before anything is built."""

import pytest

from convs2s.common.errors import TextError
from convs2s.models.adl import Settings, resolve
from convs2s.models.adl.explain import as_dict, as_text
from convs2s.models.adl.figures import figures
from convs2s.models.adl.language.parser import MAX_DEPTH, parse
from convs2s.models.adl.language.registry import receptive_field
from convs2s.models.adl.language.tree import Definition, write
from convs2s.models.adl.language.writer import definition
from tests.support.work import at_most_calls

SMALL = Settings(model_dim=16, attention_heads=4)
INF = float("inf")


def encoder(text):
    return resolve(text, "id", SMALL).encoder


def decoder(text, source="repeat(2, rnn)", **options):
    return resolve(source, text, SMALL, **options).decoder


@pytest.mark.parametrize(
    "text, same",
    [
        ("let a = rnn; a", "rnn"),
        ("let a = rnn -> id; res(a) -> a", "res(rnn -> id) -> rnn -> id"),
        ("let a = rnn;\nlet b = res(a -> a);\nrepeat(2, b)", "repeat(2, res(rnn -> rnn))"),
        ("let a = repeat(2, rnn); id -> a -> norm", "id -> repeat(2, rnn) -> norm"),
        ("let a = repeat(2, rnn); a -> a", "repeat(2, rnn) -> repeat(2, rnn)"),
        ("let a = dropout -> cnn(k=i); repeat(2, a)", "repeat(2, dropout -> cnn(k=i))"),
        # Only a layer can be named: the values of arguments are what they are without names.
        ("let gru = rnn(gru); let relu = cnn(relu); gru -> relu", "rnn(gru) -> cnn(relu)"),
        ("let res_block = res_nd(rnn); res_block()", "res_nd(rnn)"),
        (
            "cycle(5, rnn, cnn)",
            "repeat(1, rnn) -> repeat(1, cnn) -> repeat(1, rnn) -> repeat(1, cnn) -> "
            "repeat(1, rnn)",
        ),
        ("res(cycle(3, rnn, norm))", "res(rnn -> norm -> rnn)"),
        ("cycle(2, cnn(k=i), cnn(k=i))", "repeat(2, cnn(k=i))"),
    ],
)
def test_the_same_without_names(text, same):
    assert encoder(text) == encoder(same)


@pytest.mark.parametrize(
    "text, plain",
    [
        ("let a = rnn; repeat(2, a)", "repeat(2, rnn)"),
        ("cycle(5, rnn, cnn)", "cycle(5, rnn, cnn)"),
        ("cycle(4, rnn, cnn) -> norm", "cycle(4, rnn, cnn) -> norm"),
        ("id -> cycle(7, rnn, cnn, cnn) -> norm", "id -> cycle(7, rnn, cnn, cnn) -> norm"),
        ("cycle(3, rnn, cnn)", "rnn -> cnn -> rnn"),
        ("cycle(6, rnn, rnn, cnn)", "cycle(6, rnn, rnn, cnn)"),
        ("bi(rnn(d=8))", "bi(rnn(d=8))"),
        ("res(bi(rnn(d=8) -> norm) -> id)", "res(bi(rnn(d=8) -> norm) -> id)"),
        ("let a = rnn; share(a) -> share(a)", "let a = rnn; repeat(2, share(a))"),
        (
            "let a = rnn; let b = res(share(a)) -> norm; repeat(3, share(b)) -> share(a)",
            "let a = rnn; let b = res(share(a)) -> norm; repeat(3, share(b)) -> share(a)",
        ),
        (
            "let a = rnn; let b = res(share(a)); share(a) -> share(b) -> id",
            "let a = rnn; let b = res(share(a)); share(a) -> share(b) -> id",
        ),
    ],
)
def test_text_of_a_specification(text, plain):
    assert definition(encoder(text)) == plain
    assert encoder(plain) == encoder(text)


def test_syntax_trees_with_names_are_written(tmp_path):
    (tmp_path / "block.adl").write_text("let cell = rnn(gru); # a comment\nres(cell)\n")
    text = f"let block = @{tmp_path}/block.adl; let two = block -> block; cycle(3, two, id)"
    tree = parse(text)
    assert [let.name for let in tree.lets] == ["cell", "block", "two"]
    expected = (
        "let cell = rnn(gru); let block = res(cell); let two = block -> block; cycle(3, two, id)"
    )
    assert write(tree) == expected and parse(expected) == tree
    # A file that is included twice has its names once.
    twice = parse(f"@{tmp_path}/block.adl -> @{tmp_path}/block.adl")
    assert write(twice) == "let cell = rnn(gru); res(cell) -> res(cell)"
    assert parse("rnn") == Definition((), parse("rnn").chain)
    (tmp_path / "other.adl").write_text("let cell = rnn(lstm); cell")
    with pytest.raises(TextError, match="'cell' is already defined") as error:
        parse(f"@{tmp_path}/block.adl -> @{tmp_path}/other.adl")
    assert "other.adl, line 1, column 5" in str(error.value)


def test_copies_of_a_cycle_are_blocks():
    side = encoder("pos -> cycle(5, rnn(d=8), linear(12) -> norm, linear(16)) -> norm")
    assert side.starts == (1, 2, 4, 5, 6) and side.blocks == 5
    assert [side.block_width(block) for block in range(6)] == [16, 8, 12, 16, 8, 12]
    named = "let a = rnn(d=8); let all = cycle(5, a, linear(12) -> norm, linear(16)); "
    assert encoder(named + "pos -> all -> norm") == side


INVALID = [
    ("let rnn = cnn; rnn", 5, "'rnn' is a layer, and cannot be the name of a chain"),
    ("let share = cnn; share", 5, "'share' is a layer"),
    ("let bi = cnn; bi", 5, "'bi' is a layer"),
    ("let a = rnn; id", 5, "'a' is never used: use it, or omit this 'let'"),
    ("let a = rnn; let b = a; id", 18, "'b' is never used"),
    ("let gru = rnn; rnn(gru)", 5, "'gru' is never used"),
    ("let a = res(a); a", 13, "'a' is used in its own chain: a chain can only use names that are"),
    ("let a = b; let b = rnn; a", 9, "'b' is used before it is defined"),
    ("let a = b; let b = a; a", 9, "'b' is used before it is defined"),
    ("let a = rnn; a(3)", 16, "'a' is the name of a chain, which takes no arguments"),
    ("let a = rnn; a(d=3)", 16, "'a' is the name of a chain, which takes no arguments"),
    ("let block = rnn; blok", 18, "there is no layer 'blok' (did you mean 'block'?)"),
    ("let a = dropout -> cnn(k=i); a", 24, "'i' is the number of a repetition, but no repeat"),
    ("let a = res(linear(8)); a", 13, "the input has 16 channels and 'linear' outputs 8"),
    ("cycel(3, rnn, cnn)", 1, "there is no layer 'cycel' (did you mean 'cycle'?)"),
    (
        "share(rnn)",
        7,
        "'share' takes the name of a 'let' before it, and there is none with",
    ),
    ("let a = rnn; share(b) -> a", 20, "there is none with the name 'b'"),
    ("let block = rnn; share(blok) -> block", 24, "name 'blok' (did you mean 'block'?)"),
    ("share", 1, "'share' needs its argument 'name', the name of a 'let'"),
    ("share(3)", 7, "'share': 'name' must be the name of a 'let', found '3'"),
    ("let a = rnn; share(a -> a)", 20, "must be the name of a 'let', found 'a -> a'"),
    ("let a = rnn; share(a(3))", 20, "must be the name of a 'let', found 'a(3)'"),
    ("let a = rnn; share(repeat(2, a))", 20, "the name of a 'let', found 'repeat(2, a)'"),
    ("let a = rnn; share(a, a)", 23, "'share' takes only the argument name"),
    ("let a = res(share(a)); a", 19, "'share' takes the name of a 'let' before it"),
    ("let a = share(b); let b = rnn; share(b) -> a", 15, "'share' takes the name of a 'let' bef"),
    (
        "let a = rnn; share(a) -> linear(8) -> share(a)",
        39,
        "'share(a)' has 8 input channels here and 16 at its first use (line 1, column 14), but",
    ),
    ("let a = cnn(k=i); repeat(2, share(a))", 13, "but 'share' has the same layers everywhere"),
    ("bi(rnn, cnn)", 9, "'bi' takes only the argument chain"),
    ("bi", 1, "'bi' needs its argument 'chain', a chain of layers"),
    ("res(bi(rnn))", 5, "the input has 16 channels and 'bi' outputs 32"),
    ("repeat(33, bi(linear(65536)))", 12, "'bi' has 131072 output channels, more than 65536"),
]


@pytest.mark.parametrize("text, column, message", INVALID)
def test_invalid_encoders(text, column, message):
    with pytest.raises(TextError) as error:
        encoder(text)
    assert message in str(error.value) and error.value.column == column


@pytest.mark.parametrize(
    "text, column, message",
    [
        ("bi(rnn)", 1, "'bi' sees all positions to its right, but a decoder must not see"),
        ("res(bi(id -> linear(8)))", 5, "'bi' reads the sentence from its end, but a decoder"),
        ("let a = bi(linear); a", 9, "'bi' reads the sentence from its end"),
        ("let a = birnn; share(a)", 9, "'birnn' sees all positions to its right"),
    ],
)
def test_invalid_decoders(text, column, message):
    with pytest.raises(TextError) as error:
        decoder(text)
    assert message in str(error.value) and error.value.column == column


@pytest.mark.parametrize(
    "text, column, message",
    [
        ("let a = cnn; a", 5, "Sockeye's dialect has no 'let': write the chain out"),
        ("cycle(3, cnn, cnn)", 1, "there is no layer 'cycle'"),
        ("share(cnn)", 1, "there is no layer 'share'"),
        ("bi(cnn)", 1, "there is no layer 'bi'"),
    ],
)
def test_the_dialect_of_sockeye_stays_as_it_is(text, column, message):
    with pytest.raises(TextError) as error:
        resolve(text, "cnn", SMALL, "sockeye")
    assert message in str(error.value) and error.value.column == column


def test_input_feeding_with_shared_weights():
    # The widths of the output are computed for other inputs first.
    text = "let a = linear(16) -> linear(32); share(a) -> linear(32) -> share(a) -> linear(16)"
    assert decoder(text, input_feeding=True).width == 16


def doubling(form, count):
    """Definitions in which each chain contains the one before twice."""
    lets = []
    for number in range(1, count):
        inner = form.format(f"a{number - 1}")
        lets.append(f"let a{number} = {inner} -> {inner}; ")
    return f"let a0 = rnn; {''.join(lets)}{form.format(f'a{count - 1}')}"


TOO_LARGE = [
    doubling("{}", 40),
    doubling("share({})", 40),
    doubling("res({})", 24),
    "let a = repeat(2000, rnn); let b = repeat(2000, a); repeat(2000, b)",
    "let a = repeat(60, id); let b = repeat(60, share(a)); repeat(60, share(b))",
    "cycle(2000, rnn, repeat(2000, rnn))",
    "let a = repeat(1000, id); bi(a) -> id",
]


@pytest.mark.parametrize("text", TOO_LARGE, ids=range(len(TOO_LARGE)))
def test_too_many_layers_take_little_work(text):
    with at_most_calls(1_000_000):
        with pytest.raises(TextError, match="the encoder has more than 2000 layers"):
            encoder(text)


def nested(form, count):
    """Definitions in which each chain contains the one before."""
    lets = "".join(f"let a{n} = {form.format(f'a{n - 1}')}; " for n in range(1, count))
    return f"let a0 = rnn; {lets}"


TOO_DEEP = [
    nested("{}", 200) + "a199",
    nested("res({})", 200) + "a199",
    nested("res(" * 40 + "{}" + ")" * 40, 4) + "a3",
    nested("share({})", 200) + "share(a199)",
    nested("share({})", 60) + " -> ".join(f"share(a{n})" for n in range(60)),
    nested("res(" * 20 + "share({})" + ")" * 20, 30)
    + " -> ".join(f"share(a{n})" for n in range(30)),
]


@pytest.mark.parametrize("text", TOO_DEEP, ids=range(len(TOO_DEEP)))
def test_too_deep_definitions(text):
    message = f"with the chains of each 'let' written out, layers are nested more than {MAX_DEPTH}"
    with at_most_calls(1_000_000):
        with pytest.raises(TextError, match=message):
            encoder(text)


def test_the_deepest_definition():
    text = nested("res({})", MAX_DEPTH // 2) + f"a{MAX_DEPTH // 2 - 1}"
    assert sum(1 for _ in encoder(text).walk()) == MAX_DEPTH // 2
    text = nested("{}", MAX_DEPTH) + "res_nd(" * (MAX_DEPTH - 1) + "rnn" + ")" * (MAX_DEPTH - 1)
    spec = resolve(f"{text} -> a0 -> share(a{MAX_DEPTH - 1})", "id", SMALL)
    assert resolve(definition(spec.encoder), "id", SMALL) == spec
    assert as_text(spec, 10, 10) and as_dict(spec, 10, 10)


def test_parameters_of_shared_weights_count_once_and_their_cost_each_time():
    once, cell = figures(encoder("rnn").layers, 7), "let a = rnn; "
    text = "repeat(2, share(a)) -> res(share(a))"
    shared = figures(encoder(cell + text).layers, 7)
    assert shared.parameters == once.parameters
    assert shared.multiply_adds == 3 * once.multiply_adds
    inside = "let b = res(share(a) -> share(a)); share(b) -> share(a) -> share(b)"
    both = figures(encoder(cell + inside).layers, 7)
    assert both == once._replace(multiply_adds=5 * once.multiply_adds)
    # Both directions have the same weights only where they are shared.
    assert figures(encoder(cell + "bi(share(a))").layers, 7).parameters == once.parameters
    assert figures(encoder("bi(rnn)").layers, 7).parameters == 2 * once.parameters


@pytest.mark.parametrize(
    "text, expected",
    [
        ("bi(linear)", (0, 0)),
        ("bi(cnn)", (1, 1)),
        ("bi(cnn(k=4))", (2, 2)),
        ("bi(cnn(k=4, padding=causal)) -> cnn(k=3)", (3 + 1, 3 + 1)),
        ("bi(rnn)", (INF, INF)),
        ("bi(rnn -> cnn)", (INF, INF)),
        ("let a = cnn; repeat(3, share(a))", (3, 3)),
    ],
)
def test_receptive_field(text, expected):
    assert receptive_field(encoder(text).layers) == expected


def test_explain_shows_names_and_shared_weights():
    spec = resolve(
        "let block = res_nd(cnn) -> norm; pos -> cycle(5, block, res(rnn)) -> bi(rnn(d=8))",
        "let cell = res(rnn); rnn -> repeat(3, share(cell)) -> norm -> share(cell) -> mlp_att",
        SMALL,
    )
    lines = as_text(spec, 100, 10).splitlines()
    shown = [line.split("  ")[0] if line[0] != " " else line.rstrip() for line in lines if line]
    labels = [line.strip().split("  ")[0] for line in shown]
    expected = ["pos", "2 times", "block", "res", "norm", "cnn", "dropout", "norm", "res", "rnn"]
    assert labels[2:12] == expected
    assert labels[12:14] == ["block", "res"]
    assert "from left to right" in labels and "from right to left" in labels
    rows = [line.split() for line in lines if line.strip().startswith("share(cell)")]
    assert [row[-2:] for row in rows] == [["2,176", "2,048"], ["earlier", "2,048"]]
    assert "The weights of 'cell' are used 4 times in the decoder." in lines
    facts = as_dict(spec, 100, 10)
    assert [part["lets"] for part in facts["encoder"]["layers"][:4]] == [
        [], ["block"], ["block"], []
    ]  # fmt: skip
    for side in ("encoder", "decoder"):
        parts = facts[side]["layers"]
        assert facts[side]["parameters"] == sum(part["parameters"] for part in parts)
    assert facts["decoder"]["layers"][1]["arguments"] == {"name": "cell"}


def test_a_name_of_copies_is_not_shown_in_each_of_them():
    spec = resolve("let all = repeat(3, norm -> rnn); all", "id", SMALL)
    labels = [line.split("  ")[0] for line in map(str.strip, as_text(spec, 9, 9).splitlines())]
    assert labels[1:5] == ["encoder", "3 times", "norm", "rnn"]
