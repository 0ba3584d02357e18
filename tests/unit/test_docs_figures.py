"""The figures of the pages are those that the code and the results give."""

import re
from xml.etree import ElementTree

import pytest

from convs2s.nn.state import State
from convs2s.pictures.svg import CHARACTER, FILLS, SMALL_CHARACTER
from docs import fields, figures, recorded, small_models, step_figures, training_figures
from tests.support.doc_blocks import DOCS, ROOT, blocks, pages

pytestmark = pytest.mark.docs
SVG = "{http://www.w3.org/2000/svg}"
# Their circles have no texts inside.
CHARTS = ("quality.svg", "hybrids_speed.svg")


def texts_of(drawing: str) -> list[str]:
    """The texts of a drawing, in the order in which they are painted."""
    return [element.text or "" for element in ElementTree.fromstring(drawing).iter(f"{SVG}text")]


def edges(text: ElementTree.Element) -> tuple[float, float]:
    """x of the left and the right edge of a text."""
    small = "small" in (text.get("class") or "")
    width = len(text.text or "") * (SMALL_CHARACTER if small else CHARACTER)
    share = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor")]
    left = float(text.get("x")) - share * width
    return left, left + width


@pytest.mark.parametrize("name", figures.FIGURES)
def test_a_figure_is_current(name):
    text = (DOCS / name).read_text(encoding="utf-8")
    assert text == figures.FIGURES[name](), f"{name} is not current: run `make docs-tables`"
    root = ElementTree.fromstring(text)
    assert root.get("viewBox") and "prefers-color-scheme: dark" in text
    shown = [page.name for page in pages() if f"]({name})" in page.read_text(encoding="utf-8")]
    assert len(shown) == 1
    texts = [*root.iter(f"{SVG}text")]
    assert max(float(text.get("y")) for text in texts) < float(root.get("height"))
    assert min(edges(text)[0] for text in texts) >= 0
    assert max(edges(text)[1] for text in texts) <= float(root.get("width"))


@pytest.mark.parametrize("name", [name for name in figures.FIGURES if name not in CHARTS])
def test_texts_neither_leave_their_boxes_nor_overlap(name):
    root = ElementTree.parse(DOCS / name).getroot()
    texts = [(*edges(text), float(text.get("y")), text.text) for text in root.iter(f"{SVG}text")]
    boxes = [
        [float(box.get(key)) for key in ("x", "y", "width", "height")]
        for box in root.iter(f"{SVG}rect")
        if "box" in box.get("class")
    ]
    for left, right, y, text in texts:
        for x, top, width, height in boxes:
            if top < y < top + height and x <= (left + right) / 2 <= x + width:
                assert x <= left + 1 and right - 1 <= x + width, text
        for other_left, other_right, other_y, other in texts:
            if abs(other_y - y) < 8 and (left, y, text) < (other_left, other_y, other):
                assert right <= other_left + 1 or other_right <= left, (text, other)


def test_every_drawing_of_the_pages_has_its_code():
    assert {path.name for path in DOCS.glob("*.svg")} == {*figures.FIGURES}


@pytest.mark.parametrize("hybrid", figures.HYBRIDS.values(), ids=lambda hybrid: hybrid.page)
def test_a_hybrid_is_that_of_its_page(hybrid):
    page = (DOCS / hybrid.page).read_text(encoding="utf-8")
    given = f'--encoder-adl "{hybrid.encoder}" \\\n  --decoder-adl "{hybrid.decoder}"'
    assert given in page
    command = f"adl draw --model-dim {hybrid.dim} --words {hybrid.words} -o hybrid.svg"
    assert f'{command} \\\n  "{hybrid.encoder}" \\\n  "{hybrid.decoder}"\n' in page


def test_the_chart_has_the_numbers_of_the_table():
    page = (DOCS / "results.md").read_text(encoding="utf-8").partition("## Findings")[0]
    chart = ElementTree.parse(DOCS / "quality.svg").getroot()
    texts = [element.text for element in chart.iter("{http://www.w3.org/2000/svg}text")]
    rows = re.findall(r"^\| ([^|]+?) +\| +(\d\d\.\d\d)(?: ± [\d.]+)? \|", page, re.MULTILINE)
    assert len(rows) == 10
    for system, bleu in rows:
        # The search without length normalization has no speed.
        if "no length normalization" in system:
            assert system not in texts
        else:
            assert texts[texts.index(system) + 1].startswith(f"{bleu}, ")


@pytest.mark.parametrize("family", small_models.FAMILIES)
def test_shapes_are_those_of_the_network(family):
    network, data = small_models.build(family), small_models.batch()
    encoded = network.encode(data.source)
    features, _ = network.decode(data.previous, encoded)
    texts = texts_of(getattr(training_figures, family)())
    for shape in (data.source.shape, encoded["encoder_out"].shape, features.shape):
        assert recorded.times(shape) in texts
    state = State()
    features, _ = network.decode(data.previous[:, :1], encoded, state)
    rows = small_models.batch().source.size(0) * recorded.BEAM
    texts = texts_of(getattr(step_figures, family)())
    assert recorded.times((rows, *network.logits(features).shape[1:])) in texts
    for part in state.walk():
        for tensor in part.rows.values():
            assert recorded.times((rows, *tensor.shape[1:])) in texts


def test_a_figure_follows_the_network(monkeypatch):
    family = small_models.FAMILIES["convs2s"]
    layers = {f"{side}_layers": "[(26, 3)] * 3" for side in ("encoder", "decoder")}
    options = type(family.options)(**{**vars(family.options), **layers})
    sizes = {**family.sizes, "C": 26}
    changed = family._replace(options=options, sizes=sizes)
    monkeypatch.setitem(small_models.FAMILIES, "convs2s", changed)
    for drawing in (training_figures.convs2s(), step_figures.convs2s()):
        texts = texts_of(drawing)
        assert texts.count("causal convolution, GLU") == 3
        assert any(text.endswith(" × 26") for text in texts)
        assert not any(text.endswith(" × 24") for text in texts)
    assert texts_of(fields.convs2s()).count("layer 3") == 2


def test_a_size_has_one_letter():
    assert recorded.letters((3, 1, 7), {"B": 3, "S": 7}) == "B × 1 × S"
    with pytest.raises(KeyError):
        recorded.letters((3, 8), {"B": 3, "S": 7})
    with pytest.raises(AssertionError, match="equal"):
        recorded.letters((3, 7), {"B": 3, "S": 7, "T": 7})


@pytest.mark.parametrize("family", small_models.FAMILIES)
def test_a_step_shows_what_is_kept(family):
    run = recorded.step(family)
    texts = texts_of(getattr(step_figures, family)())
    kept = {one.path.rpartition(".")[2] for one in run.kept}
    if family == "adl":
        # Keys and values are computed from it in the first step.
        kept.remove("encoder_out")
    # It says which positions count.
    kept.discard("encoder_padding_mask")
    assert kept == {name for text in texts for name in text.split(", ")} & kept
    for one in run.kept:
        of_hypotheses = one.shape[0] == run.sizes["R"]
        assert one.is_reordered == of_hypotheses
        assert one.is_written == (of_hypotheses or run.sizes["(b t)"] in one.shape)


def test_fields_grow_as_the_kernels_say():
    chart = ElementTree.parse(DOCS / "pervasive.svg").getroot()
    texts = [element.text for element in chart.iter(f"{SVG}text")]
    before = 0
    for layer in range(1, fields.LAYERS + 1):
        cells = (1 + layer) * (1 + 2 * layer)
        assert texts.count(str(layer)) == cells - before
        before = cells
    chart = ElementTree.parse(DOCS / "convs2s.svg").getroot()
    kinds = [element.get("class") for element in chart.iter(f"{SVG}rect")]
    # A layer adds two positions, on each side of the figure; the legend has a box too.
    assert kinds.count("box near") == 2 * (3 + 5) + 1


def test_an_animation_needs_leave_and_ends():
    text = (DOCS / "pervasive.svg").read_text(encoding="utf-8")
    allowed, _, rest = text.partition("@media (prefers-reduced-motion: no-preference) {")[
        2
    ].partition("\n}")
    assert allowed.count("@keyframes") == fields.LAYERS
    assert re.findall(r"animation: layer\d \d+s (\w+);", allowed) == ["3"] * fields.LAYERS
    assert "animation" not in rest


@pytest.mark.parametrize("family", small_models.FAMILIES)
def test_the_files_to_read_are_there(family):
    page = (DOCS / f"{family}.md").read_text(encoding="utf-8")
    section = page.partition("## The code\n")[2].partition("\n## ")[0]
    (folder,) = re.findall(r"files of `([\w/]+)`", section)
    files = re.findall(r"^\* `([\w/.]+)`", section, re.MULTILINE)
    assert len(files) == 3
    assert all((ROOT / folder / file).is_file() for file in files)


def test_the_definitions_of_the_page_are_those_of_the_figure():
    found = [block.code.strip() for block in blocks(DOCS / "adl.md") if block.language == "adl"]
    assert found == [small_models.ENCODER, small_models.DECODER]


def test_quiet_text_is_readable_on_every_box():
    def luminance(color: str) -> float:
        parts = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
        red, green, blue = (x / 12.92 if x <= 0.04 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    for kind in ("paper", "single", "near", "far", "source", "moved"):
        for text, box in zip(FILLS["quiet"], FILLS[kind]):
            dark, light = sorted((luminance(text), luminance(box)))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (kind, box)
