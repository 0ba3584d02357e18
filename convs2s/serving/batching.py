"""Lines of requests that come at the same time are translated together."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple, TypeVar

from ..common.errors import UserError
from ..translation.results import Translation
from ..translation.translator import Translator

# Lines that are translated together, so that a long request does not hold up those after it.
MAX_LINES = 256


class QueueFull(UserError):
    """More lines are waiting than are allowed."""


class _Waiting(NamedTuple):
    line: str
    nbest: int
    future: "asyncio.Future[Translation]"


Result = TypeVar("Result")


class Batcher:
    """Translates lines in the order in which they arrive; lines that are waiting are batched.

    All methods are for the thread of one event loop.

    Args:
        translator: translates.
        executor: where it does so; several translators may share one.
        max_waiting: largest number of lines that wait.
    Attributes:
        is_working: whether the models compute, in the thread of the executor.
    """

    def __init__(self, translator: Translator, executor: Executor, max_waiting: int):
        self.translator = translator
        self._executor, self._max_waiting = executor, max_waiting
        self._waiting: deque[_Waiting] = deque()
        self._work: asyncio.Task[None] | None = None
        self._calls = 0
        self.is_working = False

    async def translate(self, lines: Sequence[str], nbest: int) -> list[Translation]:
        """Translate lines.

        Args:
            lines: N lines.
            nbest: least number of hypotheses of each; at most the beam size.
        Returns:
            The N translations.
        Raises:
            QueueFull: if too many lines are already waiting.
            UserError: if there are too many lines, or one cannot be translated.
        """
        self._check_room(len(lines))
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in lines]
        self._waiting += (_Waiting(line, nbest, future) for line, future in zip(lines, futures))
        if self._work is None:
            self._work = loop.create_task(self._translate_waiting())
        try:
            return list(await asyncio.gather(*futures))
        except BaseException:
            # A failed or cancelled request needs no more of its lines.
            for future in futures:
                future.cancel()
            self._waiting = deque(each for each in self._waiting if not each.future.done())
            raise

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do other work with the models, which counts as one line that waits.

        Args:
            work: what to do.
        Raises:
            QueueFull: if too many lines are already waiting.
        """
        self._check_room(1)
        self._calls += 1
        try:
            return await self._compute(work)
        finally:
            self._calls -= 1

    def _compute(self, work: Callable[[], Result]) -> "asyncio.Future[Result]":
        def compute() -> Result:
            self.is_working = True
            try:
                return work()
            finally:
                self.is_working = False

        return asyncio.get_running_loop().run_in_executor(self._executor, compute)

    def _check_room(self, count: int) -> None:
        if count > self._max_waiting:
            raise UserError(
                f"The request has {count:,} lines, but at most {self._max_waiting:,} may wait: "
                "send fewer at a time."
            )
        waiting = len(self._waiting) + self._calls
        if waiting + count > self._max_waiting:
            raise QueueFull(
                f"{waiting:,} lines are waiting to be translated, and at most "
                f"{self._max_waiting:,} may: try again later, or with fewer lines at a time."
            )

    async def _translate_waiting(self) -> None:
        try:
            while self._waiting:
                count = min(len(self._waiting), MAX_LINES)
                taken = [self._waiting.popleft() for _ in range(count)]
                found = await self._compute(partial(self._each, taken))
                for each, result in zip(taken, found, strict=True):
                    if each.future.done():
                        continue
                    if isinstance(result, Exception):
                        each.future.set_exception(result)
                    else:
                        each.future.set_result(result)
        finally:
            self._work = None

    def _each(self, wanted: Sequence[_Waiting]) -> Sequence[Translation | Exception]:
        """The translation of each line, or what is wrong with it."""
        try:
            translator = self.translator.with_options(nbest=max(each.nbest for each in wanted))
            return translator.translate([each.line for each in wanted])
        except Exception as error:
            if len(wanted) == 1:
                return [error]
            # A request must not fail for the lines of others.
            return [self._each([each])[0] for each in wanted]
