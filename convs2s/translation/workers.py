"""Worker processes that share the weights of one ensemble, or have a GPU each.

The processes are forks of the one that loaded the models. No process writes to the weights, so the
operating system keeps one copy of them for all. With GPUs, each process loads the models
once more, since a fork cannot use a GPU that its parent has used.
"""

import multiprocessing
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, cast

import torch

from ..common.errors import UserError
from ..common.programs import available_threads
from ..common.signals import begin_child, without_stopped_children
from .buffers import Done, Job
from .results import Hypothesis

# The connections of all workers of this process, which threads may start and end at the same time.
# A process that holds those of others would keep them open. The lock is held while one is forked,
# so that it inherits nothing that is half open.
_connections: set[Connection] = set()
_forking = threading.Lock()

CAN_FORK = "fork" in multiprocessing.get_all_start_methods()


def devices_of_workers(workers: int | None, gpus: Sequence[str]) -> list[str]:
    """The devices of processes that load their own models.

    Args:
        workers: the number of processes that was asked for; None for one on each GPU.
        gpus: the GPUs that can be used.
    Returns:
        The device of each process; none unless there are several GPUs.
    Raises:
        UserError: if more processes than GPUs are asked for.
    """
    if len(gpus) < 2:
        return []
    if workers is not None and workers > len(gpus):
        raise UserError(
            f"--workers is {workers}, but there are {len(gpus)} GPUs, for one process each: omit "
            "it, or give --device cpu."
        )
    return [*gpus[:workers]]


def usable_gpus() -> list[str]:
    """The GPUs that processes forked from this one can use."""
    # Asking whether CUDA is available would make them unusable.
    if not CAN_FORK or torch.cuda.is_initialized():
        return []
    return [f"cuda:{number}" for number in range(torch.cuda.device_count())]


Translate = Callable[[Sequence[Sequence[str]]], Sequence[Sequence[Hypothesis]]]


class WorkerError(RuntimeError):
    """A worker process ended, or failed with an error that the user cannot correct."""


class Workers:
    """Processes that translate batches; a context manager.

    Args:
        translate: for each process, what translates its batches; it inherits everything that this
            refers to. Each process uses an equal share of the threads of this one.
    """

    def __init__(self, translate: Sequence[Translate]):
        self._translate, self._number = translate, len(translate)
        self._processes: list[Any] = []
        self._connections: list[Connection] = []
        self._watch = ExitStack()
        self._killed: set[int] = set()

    def __enter__(self) -> "Workers":
        if not CAN_FORK:
            raise UserError(
                f"--workers {self._number} needs an operating system that can fork a process: omit "
                "it."
            )
        context = multiprocessing.get_context("fork")
        threads = max(1, available_threads() // self._number)
        try:
            for translate in self._translate:
                with _forking:
                    ours, theirs = context.Pipe()
                    self._connections.append(ours)
                    _connections.add(ours)
                    process = context.Process(
                        target=_work,
                        args=(translate, theirs, list(_connections), threads),
                        daemon=True,
                    )
                    with theirs:
                        process.start()
                self._processes.append(process)
        except BaseException:
            # There may be too many processes, or too little memory for one more.
            self.__exit__(*sys.exc_info())
            raise
        pids = [process.pid for process in self._processes]
        self._killed = self._watch.enter_context(without_stopped_children(lambda: pids))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with _forking:
            for connection in self._connections:
                connection.close()
            _connections.difference_update(self._connections)
        for process in self._processes:
            if kind is not None:
                process.terminate()
            process.join()
        self._watch.close()

    def do(self, jobs: Iterator[Job]) -> Iterator[Done]:
        """Do jobs, and return each as soon as it is done.

        Raises:
            UserError: if a job fails with one.
            WorkerError: if a job fails with another error, or if a process ends.
        """
        idle = list(self._connections)
        held: dict[Connection, Job] = {}
        # Taken ahead, so that no process waits for text to be read and made into tokens.
        upcoming = next(jobs, None)
        done: Done | None = None
        while True:
            while upcoming is not None and idle:
                connection = idle.pop()
                self._send(connection, upcoming)
                held[connection] = upcoming
                upcoming = next(jobs, None)
            if done is not None:
                yield done
            if not held:
                return
            (connection, *_) = cast(list[Connection], wait(list(held)))
            job = held.pop(connection)
            done = job, self._receive(connection, job)
            idle.append(connection)

    def _send(self, connection: Connection, job: Job) -> None:
        try:
            connection.send(job.sentences)
        except OSError as error:
            raise self._ended(connection, job) from error

    def _receive(self, connection: Connection, job: Job) -> Any:
        try:
            kind, result = connection.recv()
        except (EOFError, OSError) as error:
            raise self._ended(connection, job) from error
        if kind is UserError:
            raise UserError(result)
        if kind is WorkerError:
            raise WorkerError(f"A worker process failed:\n{result}")
        return result

    def _ended(self, connection: Connection, job: Job) -> WorkerError:
        """The error if a process has ended."""
        number = self._connections.index(connection)
        process = self._processes[number]
        process.join(timeout=10)
        code = process.exitcode
        if process.pid in self._killed:
            how = "was stopped by a signal, and then killed,"
        elif code is not None and code < 0:
            how = f"was ended by signal {-code} ({signal.Signals(-code).name})"
        else:
            how = f"ended with exit code {code}"
        longest = max(map(len, job.sentences), default=0)
        return WorkerError(
            f"Worker process {number + 1} of {self._number} {how} during a batch of "
            f"{len(job.sentences):,} sentences of up to {longest:,} tokens. If the machine does "
            "not have enough memory, use a smaller --max-tokens or fewer --workers."
        )


def _work(
    translate: Translate, connection: Connection, inherited: list[Connection], threads: int
) -> None:
    """Translate batches until the connection is closed; the main function of a process."""
    for other in inherited:
        other.close()
    begin_child()
    # GNU OpenMP cannot use the thread pool of the parent in a fork: a new thread makes its own.
    thread = threading.Thread(target=_serve, args=(translate, connection, threads))
    thread.start()
    thread.join()


def _serve(translate: Translate, connection: Connection, threads: int) -> None:
    torch.set_num_threads(threads)
    while True:
        try:
            sentences = connection.recv()
        except (EOFError, OSError):
            return
        answer: tuple[Any, Any]
        try:
            answer = None, translate(sentences)
        except UserError as error:
            answer = UserError, str(error)
        except Exception:
            answer = WorkerError, traceback.format_exc()
        try:
            connection.send(answer)
        except OSError:
            return
