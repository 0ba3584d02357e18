"""The alignment error rate."""

import pytest

from convs2s.common.errors import UserError
from convs2s.evaluation.links import alignment_scores, parse_gold, read_gold, read_links


def test_error_rate_by_hand():
    gold = [parse_gold("0-0 1-1 2p1", "gold", 1), parse_gold("0?0", "gold", 2)]
    links = [{(0, 0), (2, 1), (2, 2)}, {(0, 0)}]
    # 4 links, 3 of them possible; 1 of 2 sure ones found.
    scores = alignment_scores(links, gold)
    assert scores == pytest.approx((75, 50, 100 * (1 - (1 + 3) / (4 + 2))))


def test_perfect_links():
    gold = [parse_gold("0-0 1p1", "gold", 1)]
    assert alignment_scores([{(0, 0)}], gold).error_rate == 0
    assert alignment_scores([{(0, 0), (1, 1)}], gold).error_rate == 0


def test_without_links_or_without_sure_ones():
    assert alignment_scores([set()], [parse_gold("0-0", "gold", 1)]) == (100, 0, 100)
    assert alignment_scores([{(0, 0)}], [parse_gold("0p0", "gold", 1)]) == (100, 100, 0)


def test_positions_from_one(tmp_path):
    file = tmp_path / "gold"
    file.write_text("1-1 2p3\n\n")
    (first, second) = read_gold(str(file), first=1)
    assert first.sure == {(0, 0)} and first.possible == {(0, 0), (1, 2)}
    assert second == (set(), set())
    file.write_text("0-1\n")
    with pytest.raises(UserError, match="gold, line 1: .* found '0-1'"):
        read_gold(str(file), first=1)


@pytest.mark.parametrize("line", ["0:0", "0-", "a-1", "0-0-0", "-1-0"])
def test_malformed_links(line):
    with pytest.raises(UserError, match="gold, line 7: expected links such as 0-0"):
        parse_gold(line, "gold", 7)


def test_one_line_for_each_sentence_pair(tmp_path):
    links, gold = tmp_path / "links", tmp_path / "gold"
    links.write_text("0-0 1-2\n\n")
    gold.write_text("0-0\n1-1\n")
    assert read_links(str(links), str(gold)) == [{(0, 0), (1, 2)}, set()]
    gold.write_text("0-0\n")
    with pytest.raises(UserError, match="links, line 2: .*gold has no such line"):
        read_links(str(links), str(gold))


def test_no_links_at_all():
    with pytest.raises(UserError, match="There are no links to score"):
        alignment_scores([set()], [parse_gold("0p0", "gold", 1)])
