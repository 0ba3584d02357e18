"""Lines of several requests are translated together, in order, and fail alone."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from convs2s.common.errors import UserError
from convs2s.serving.batching import MAX_LINES, Batcher, QueueFull


class Translator:
    """Translates to upper case when it may go on; ``calls`` has the lines of each call."""

    def __init__(self):
        self.calls, self.nbest = [], []
        self.go_on, self.has_begun = threading.Event(), threading.Event()

    def with_options(self, nbest):
        self.nbest.append(nbest)
        return self

    def translate(self, lines):
        self.calls.append(lines)
        self.has_begun.set()
        assert self.go_on.wait(60)
        if "bad" in lines:
            raise UserError("It is bad.")
        return [line.upper() for line in lines]


@pytest.fixture
def translator():
    return Translator()


@pytest.fixture
def run(translator):
    """Runs a function of a batcher of at most 10,000 waiting lines."""

    def run(work, limit=10_000):
        async def main():
            with ThreadPoolExecutor(1) as executor:
                try:
                    return await work(Batcher(translator, executor, limit))
                finally:
                    translator.go_on.set()

        return asyncio.run(main())

    return run


async def begin(batcher, translator, *requests):
    """Start a request, and further ones while the first is translated."""
    first = asyncio.create_task(batcher.translate(["first"], 1))
    while not translator.has_begun.is_set():
        await asyncio.sleep(0.001)
    tasks = [asyncio.create_task(batcher.translate(*request)) for request in requests]
    await asyncio.sleep(0.01)
    return first, tasks


def test_lines_that_wait_go_together(translator, run):
    requests = [([f"{i} a", f"{i} b"], i) for i in (1, 3, 2)]

    async def work(batcher):
        first, tasks = await begin(batcher, translator, *requests)
        translator.go_on.set()
        return await asyncio.gather(first, *tasks)

    assert run(work) == [["FIRST"], ["1 A", "1 B"], ["3 A", "3 B"], ["2 A", "2 B"]]
    assert translator.calls == [["first"], ["1 a", "1 b", "3 a", "3 b", "2 a", "2 b"]]
    assert translator.nbest == [1, 3]


def test_many_lines_go_in_turns(translator, run):
    lines = [str(number) for number in range(2 * MAX_LINES + 5)]
    translator.go_on.set()

    async def work(batcher):
        return await batcher.translate(lines, 1)

    assert run(work) == lines
    assert [len(call) for call in translator.calls] == [MAX_LINES, MAX_LINES, 5]


def test_a_line_fails_only_its_request(translator, run):
    async def work(batcher):
        _, tasks = await begin(batcher, translator, (["a"], 1), (["b", "bad", "c"], 1), (["d"], 1))
        translator.go_on.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    before, failed, after = run(work)
    assert (before, after) == (["A"], ["D"])
    assert isinstance(failed, UserError) and str(failed) == "It is bad."


def test_lines_of_a_request_that_has_ended_are_left_out(translator, run):
    async def work(batcher):
        _, (gone, other) = await begin(batcher, translator, (["a", "b"], 1), (["c"], 1))
        gone.cancel()
        await asyncio.sleep(0.01)
        translator.go_on.set()
        return await other

    assert run(work) == ["C"]
    assert translator.calls == [["first"], ["c"]]


def test_the_queue_has_an_end(translator, run):
    async def work(batcher):
        _, tasks = await begin(batcher, translator, (["a", "b"], 1))
        with pytest.raises(
            QueueFull, match="2 lines are waiting to be translated, and at most 3 may"
        ):
            await batcher.translate(["c", "d"], 1)
        other = asyncio.create_task(batcher.run(lambda: "done"))
        await asyncio.sleep(0.01)
        with pytest.raises(QueueFull, match="3 lines are waiting"):
            await batcher.run(lambda: "never")
        with pytest.raises(UserError, match="has 4 lines, but at most 3 may wait"):
            await batcher.translate(["e"] * 4, 1)
        assert batcher.is_working
        translator.go_on.set()
        return [await other, *await asyncio.gather(*tasks), await batcher.translate(["e"], 1)]

    assert run(work, limit=3) == ["done", ["A", "B"], ["E"]]
