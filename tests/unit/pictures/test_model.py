"""The drawing of a model in ADL has what ``convs2s adl explain`` prints."""

import re
from collections import Counter
from xml.etree import ElementTree

import pytest

from convs2s.models.adl import Settings, resolve
from convs2s.models.adl.architectures import ARCHITECTURES
from convs2s.models.adl.explain import as_text
from convs2s.models.adl.language.parser import MAX_DEPTH
from convs2s.models.adl.outline import outline
from convs2s.pictures.model import draw
from convs2s.pictures.svg import CHARACTER, SMALL_CHARACTER, plain
from tests.support.adl_random import random_definition

SVG = "{http://www.w3.org/2000/svg}"
SETTINGS = Settings(model_dim=24, attention_heads=4)
V, LENGTH = 12345, 17
LONG = " -> ".join(f"cnn -> rnn -> norm -> qrnn(k={k})" for k in range(1, 301))
NAMES = "let a = res_nd(cnn); let b = a -> res(bi(rnn(d=12))); pos -> cycle(7, a, b, norm) -> b"
SHARED = "let a = res_nd(rnn) -> res(mlp_att(block=-2)); repeat(4, share(a)) -> norm -> share(a)"
DEEP = "res(" * (MAX_DEPTH - 2) + "cnn" + ")" * (MAX_DEPTH - 2)
PARALLEL = "concat(cnn, res(norm -> rnn), concat(id, mlp_att(block=-2) -> ff)) -> linear"


def drawn(spec, words=V, length=LENGTH):
    """The root of a drawing, which must be well-formed, and its texts."""
    root = ElementTree.fromstring(draw(spec, words, length))
    return root, [text.text or "" for text in root.iter(f"{SVG}text")]


def assert_as_explained(spec):
    """Every layer with its numbers, and every number of the sentences."""
    _, texts = drawn(spec)
    found = Counter(texts)
    explained = as_text(spec, V, LENGTH)
    table, _, sentences = explained.partition("\n\n")
    expected = Counter()
    for line in table.splitlines()[1:]:
        label, *cells = re.split(r" {2,}", line.strip())
        times = re.fullmatch(r"(\d+) times", label)
        expected[f"x {times[1]}" if times else label] += label != "all layers"
        for number in re.findall(r"[\d,]*\d", " ".join(cells)):
            assert any(number in re.findall(r"[\d,]*\d", text) for text in texts), line
    assert not expected - found
    flowing = " ".join(" ".join(texts).split())
    # Without the lines of definitions that warnings quote.
    for sentence in re.findall(r"^\w.*", sentences, re.MULTILINE):
        assert sentence in flowing


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_named_architectures(name):
    assert_as_explained(ARCHITECTURES[name].resolve())


@pytest.mark.parametrize(
    "encoder, decoder",
    [
        (LONG, "mlp_att"),
        ("id", f"{LONG} -> mlp_att"),
        (DEEP, DEEP.replace("cnn", "highway(concat(mlp_att, id) -> linear)")),
        (f"repeat(3, {PARALLEL.replace('mlp_att(block=-2)', 'rnn')}) -> norm", PARALLEL),
        ("pos -> repeat(4, cnn) -> norm", "repeat(4, cnn -> res(mlp_att(block=-i)))"),
        ("rnn -> cnn", "rnn"),
        ("repeat(2000, id)", "repeat(2, mlp_att(block=0)) -> dot_src_att"),
        (NAMES, SHARED),
        (NAMES, "cycle(7, res(mlp_att(block=i)), rnn)"),
    ],
    ids=[
        "long",
        "long decoder",
        "deep",
        "parallel",
        "blocks",
        "no attention",
        "2,000 layers",
        "names",
        "cycles",
    ],
)
def test_other_definitions(encoder, decoder):
    assert_as_explained(resolve(encoder, decoder, SETTINGS))


def test_random_definitions():
    for seed in range(60):
        found = random_definition(seed)
        spec = resolve(
            found.encoder, found.decoder, found.settings, input_feeding=found.input_feeding
        )
        assert_as_explained(spec)


def boxes(root):
    return [
        tuple(float(rect.get(name)) for name in ("x", "y", "width", "height"))
        for rect in root.iter(f"{SVG}rect")
        if rect.get("class", "").startswith("box") and float(rect.get("width")) != 22
    ]


@pytest.mark.parametrize("decoder", [PARALLEL, "repeat(6, res_nd(cnn) -> res_nd(mlp_att))"])
def test_everything_is_inside_and_apart(decoder):
    root, texts = drawn(resolve("pos -> repeat(2, res_nd(cnn))", decoder, SETTINGS))
    width, height = (float(root.get(name)) for name in ("width", "height"))
    found = boxes(root)
    for number, (x, y, w, h) in enumerate(found):
        assert 0 <= x and x + w <= width and 0 <= y and y + h <= height
        for other in found[:number]:
            apart = x + w <= other[0] or other[0] + other[2] <= x
            assert apart or y + h <= other[1] or other[1] + other[3] <= y
    for text in root.iter(f"{SVG}text"):
        # The fonts are monospaced.
        character = SMALL_CHARACTER if "small" in text.get("class") else CHARACTER
        x, room = float(text.get("x")), character * len(text.text or "")
        before = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor")]
        assert x - before * room >= 0 and x + (1 - before) * room <= width, text.text
        assert 0 < float(text.get("y")) < height
    for path in root.iter(f"{SVG}path"):
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", path.get("d"))]
        assert all(0 <= x <= width for x in numbers[::2])
        assert all(0 <= y <= height for y in numbers[1::2])


def ends(root, kind):
    """The last points of the lines of a class."""
    lines = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("class") == kind]
    return [tuple(map(float, line.rpartition("L")[2].split())) for line in lines]


def box_of(root, label):
    """The box around a label that occurs once."""
    (text,) = [text for text in root.iter(f"{SVG}text") if text.text == label]
    x, y = float(text.get("x")), float(text.get("y"))
    (box,) = [b for b in boxes(root) if b[0] < x < b[0] + b[2] and b[1] < y < b[1] + b[3]]
    return box


def test_arrows_lead_from_encoder_blocks_to_layers_that_attend():
    spec = resolve(
        "repeat(3, cnn) -> norm", "mlp_att(block=0) -> res(dot_src_att(block=1)) -> rnn", SETTINGS
    )
    root, _ = drawn(spec)
    # Each block has a line to its lane, and one from there to a layer.
    found = ends(root, "attention")
    assert len(found) == 4
    for label in ("mlp_src_att(block=0)", "mh_dot_src_att(h=1, block=1)"):
        x, y, _, height = box_of(root, label)
        assert (x, y + height / 2) in found
    x, y, _, height = box_of(root, "rnn")
    assert (x, y + height / 2) not in found


def test_the_input_of_a_residual_connection_goes_around_its_chain():
    root, _ = drawn(resolve("res(cnn)", "mlp_att", SETTINGS))
    x, y, _, height = box_of(root, "res")
    assert (x, y + height / 2) in ends(root, "")
    assert box_of(root, "cnn")[1] > y + height
    root, _ = drawn(resolve("concat(cnn)", "mlp_att", SETTINGS))
    x, y, _, height = box_of(root, "concat")
    assert (x, y + height / 2) not in ends(root, "")


def test_equal_blocks_are_drawn_once():
    _, texts = drawn(resolve("repeat(6, cnn -> rnn) -> cnn", "mlp_att", SETTINGS))
    assert (texts.count("x 6"), texts.count("cnn"), texts.count("rnn")) == (1, 2, 1)


def test_each_block_belongs_to_one_part():
    for seed in range(60):
        drawn_definition = random_definition(seed)
        spec = resolve(drawn_definition.encoder, "id", drawn_definition.settings)
        found = outline(spec, V, LENGTH).encoder
        blocks = [block for _, part in found.walk() for block in part.blocks if block]
        assert sorted(blocks) == list(range(1, spec.encoder.blocks + 1)), seed
    found = outline(resolve(NAMES, "id", SETTINGS), V, LENGTH).encoder
    of_blocks = {part.label: part.blocks for _, part in found.walk() if len(part.blocks) > 1}
    assert of_blocks == {"res": (2, 5), "norm": (3, 6)}


def test_both_schemes():
    text = draw(resolve("cnn", "mlp_att", SETTINGS), V, LENGTH)
    light, dark = text.split("@media (prefers-color-scheme: dark)")
    for name in ("svg", ".paper", ".near", ".source", ".frame"):
        rule = rf"{re.escape(name)} {{ \w+: (#\w+); }}"
        assert re.search(rule, light)[1] != re.search(rule, dark)[1]
    assert "fill: currentColor" in light
    assert "var(" not in text and "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_text_is_never_markup(tmp_path):
    (tmp_path / "<a> & 'b'.adl").write_text("rnn")
    spec = resolve("rnn", f"@\"{tmp_path}/<a> & 'b'.adl\"", SETTINGS)
    _, texts = drawn(spec)
    assert "<a> & 'b'.adl" in " ".join(texts)
    root = ElementTree.fromstring(f"<a>{plain(chr(1) + chr(0xDC80) + '</a>')}</a>")
    assert root.text == "\ufffd\ufffd</a>"


@pytest.mark.parametrize(
    "text, fields",
    [
        ("cnn(k=4) -> id", ["-1 to +2", ""]),
        ("birnn -> rnn", ["all", "all earlier"]),
        ("res(rnn -> cnn)", ["all earlier to +1"]),
        ("cnn(padding=causal)", ["-2 to 0"]),
    ],
)
def test_receptive_fields(text, fields):
    found = outline(resolve(text, "mlp_att", SETTINGS), V, LENGTH)
    assert [part.field for part in found.encoder.parts] == fields
