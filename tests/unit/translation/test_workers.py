"""Worker processes: the same results in the same order, and their errors."""

import os
import signal
from dataclasses import replace

import pytest
import torch

from convs2s.common.errors import UserError
from convs2s.common.programs import available_threads
from convs2s.translation import workers
from convs2s.translation.buffers import translate_in_buffers
from convs2s.translation.workers import WorkerError, Workers, devices_of_workers
from tests.unit.translation.made_up import Reversal, Words

LINES = [f"{'w ' * (1 + i % 7)}{i}" if i % 5 else "" for i in range(60)]


def translate(number, translate_batch, lines=LINES, size=8):
    search = Reversal(limit=5)
    with Workers([translate_batch or search.translate] * number) as workers:
        return list(translate_in_buffers(lines, size, Words(), search, workers.do))


@pytest.mark.parametrize("number", [1, 3])
def test_the_same_translations_in_the_same_order(number):
    search = Reversal(limit=5)
    expected = list(translate_in_buffers(LINES, 8, Words(), search, search.do))
    assert translate(number, None) == expected


def test_large_batches_and_results():
    """More than a pipe holds, in both directions."""
    lines = ["word " * 5 * n for n in range(1, 400)]
    search = Reversal(limit=5000, batch=40)
    with Workers([search.translate] * 2) as workers:
        found = list(translate_in_buffers(lines, 200, Words(), search, workers.do))
    assert [translation.num_tokens for translation in found] == [5 * n for n in range(1, 400)]


def failing(sentences):
    if any("17" in tokens for tokens in sentences):
        raise UserError("The sentence 17.")
    return Reversal(limit=5).translate(sentences)


def broken(sentences):
    raise KeyError("seventeen")


def killed(sentences):
    os.kill(os.getpid(), signal.SIGKILL)


def exiting(sentences):
    os._exit(3)


@pytest.mark.parametrize(
    ("translate_batch", "kind", "message"),
    [
        (failing, UserError, "The sentence 17."),
        (broken, WorkerError, "KeyError: 'seventeen'"),
        (killed, WorkerError, r"was ended by signal 9 \(SIGKILL\)"),
        (exiting, WorkerError, "ended with exit code 3"),
    ],
)
def test_errors(translate_batch, kind, message):
    with pytest.raises(kind, match=message):
        translate(2, translate_batch)


def threads(sentences):
    matrix = torch.ones(600, 600)
    assert float((matrix @ matrix).mean()) == 600.0
    return [[replace(candidate, score=float(torch.get_num_threads()))] for (candidate, *_) in
            Reversal(limit=5).translate(sentences)]  # fmt: skip


def test_threads_are_shared_and_usable_after_a_fork(monkeypatch):
    """The parent has used its threads; GNU OpenMP would hang in a fork that used them again."""
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert available_threads() == 4
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        matrix = torch.ones(600, 600)
        assert float((matrix @ matrix).mean()) == 600.0
        found = translate(2, threads, ["a b"] * 20)
    finally:
        torch.set_num_threads(before)
    assert {translation.score for translation in found} == {2.0}


def test_reading_stops_early_without_an_error():
    search = Reversal(limit=5)
    with Workers([search.translate] * 2) as workers:
        results = translate_in_buffers(LINES, 8, Words(), search, workers.do)
        assert next(results).text == ""


GPUS = ["cuda:0", "cuda:1", "cuda:2"]


@pytest.mark.parametrize(
    ("workers", "gpus", "expected"),
    [
        (None, GPUS, GPUS),
        (2, GPUS, GPUS[:2]),
        (3, GPUS, GPUS),
        (None, GPUS[:1], []),
        (None, [], []),
        # Of the CPU, which has as many as are asked for.
        (8, [], []),
    ],
)
def test_one_process_for_each_gpu(workers, gpus, expected):
    assert devices_of_workers(workers, gpus) == expected


def test_more_processes_than_gpus():
    with pytest.raises(UserError, match="--workers is 4, but there are 3 GPUs"):
        devices_of_workers(4, GPUS)


def test_no_process_is_left_if_one_cannot_start(monkeypatch):
    """As with too many processes."""
    start = workers.multiprocessing.context.ForkProcess.start
    started = []

    def start_two(process):
        if len(started) == 2:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        start(process)
        started.append(process)

    monkeypatch.setattr(workers.multiprocessing.context.ForkProcess, "start", start_two)
    before = set(workers._connections)
    with pytest.raises(BlockingIOError), Workers([Reversal(limit=5).translate] * 3):
        pass
    assert len(started) == 2 and not any(process.is_alive() for process in started)
    assert workers._connections == before
