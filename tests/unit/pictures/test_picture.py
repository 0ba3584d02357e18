"""Heat maps with matplotlib."""

from itertools import combinations
from xml.etree import ElementTree

import pytest

from convs2s.common.errors import UserError
from convs2s.pictures import picture
from convs2s.pictures.figures import import_pyplot, save_figure
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


def test_a_picture_that_is_too_large(monkeypatch):
    monkeypatch.setattr(picture, "MAX_INCHES", 5)
    message = r"would be \d+ x \d+ inches: choose fewer sentences, .*--output FILE.html"
    with pytest.raises(UserError, match=message):
        plot(import_pyplot(), made_up_document((list("abcdefg"), list("abcdefg"))))


def test_tokens_with_control_characters_are_written_as_xml(tmp_path):
    content = made_up_document((["a\x01", "<b>&", "$x^$"], ["\x00", "\ufffe--"]))
    (sentence,) = content["sentences"]
    sentence["maps"] = sentence["maps"][:1]
    content["models"] = ["a\x02"]
    pyplot = import_pyplot()
    figure = plot(pyplot, content)
    pyplot.close(figure)
    labels = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert labels == ["a\ufffd", "<b>&", "$x^$", "</s>"]
    save_figure(figure, str(tmp_path / "picture.svg"))
    assert ElementTree.parse(tmp_path / "picture.svg").getroot().tag.endswith("svg")
