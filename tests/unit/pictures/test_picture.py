"""Heat maps with matplotlib."""

from itertools import combinations

import pytest

from convs2s.pictures.figures import import_pyplot
from convs2s.pictures.picture import plot
from tests.support.attention import made_up_document

pytest.importorskip("matplotlib")


def test_the_titles_of_two_models_do_not_overlap():
    words = list("abcdefg")
    content = made_up_document((words, words), models=2)
    content["models"] = [f"checkpoints/{name}/checkpoint_best.pt" for name in ("convs2s", "hybrid")]
    (sentence,) = content["sentences"]
    sentence["maps"] = [entry for entry in sentence["maps"] if entry["name"] == "source.mean"]
    figure = plot(import_pyplot(), content)
    figure.canvas.draw()
    titles = [axis.title for axis in figure.axes if axis.get_title()]
    assert [title.get_text().split("\n")[0] for title in titles] == content["models"]
    for one, other in combinations(titles, 2):
        assert not one.get_window_extent().overlaps(other.get_window_extent())
