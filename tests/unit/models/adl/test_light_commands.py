"""``convs2s adl`` starts at once: it imports neither torch nor fairseq nor numpy."""

import pytest

from tests.support.light import HEAVY, max_seconds, run


def assert_light(*arguments):
    """Run ``convs2s adl``, and return its output."""
    code, output, errors, modules, seconds, megabytes = run("adl", *arguments)
    assert code == 0, errors
    assert output and not modules & {*HEAVY, "numpy"}
    assert seconds < max_seconds() and megabytes < 78
    return output


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "adl_transformer_wmt"),
        (
            "explain",
            "pos -> res_nd(birnn)",
            "concat(rnn(lngru), mlp_att) -> linear -> highway(qrnn)",
        ),
        ("explain", "cnn->linear", "mh_dot_att", "--dialect", "sockeye", "--json"),
        ("import", "*-*-*-"),
        ("list",),
        ("layers",),
    ],
    ids=lambda arguments: " ".join(arguments)[:30],
)
def test_little_is_imported(arguments):
    assert_light(*arguments)


def test_drawing_imports_little(tmp_path):
    picture = str(tmp_path / "model.svg")
    assert assert_light("draw", "adl_transformer", "-o", picture) == picture


def test_layers_of_a_user_that_need_no_torch(tmp_path):
    folder = tmp_path / "light_layers"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from convs2s.models.adl import POSITION, register_layer\n"
        "@register_layer('mine', 'nothing much', reach=POSITION, parameters=7)\n"
        "class Mine: pass\n"
    )
    output = assert_light("explain", "mine", "mlp_att", "--user-dir", str(folder))
    assert ["mine", "S", "x", "512", "7"] in [line.split() for line in output.splitlines()]
