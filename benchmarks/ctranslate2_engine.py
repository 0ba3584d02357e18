"""CTranslate2 (https://github.com/OpenNMT/CTranslate2) in a process of its own.

In one process, a search of this package takes 1.4 to 1.5 times as long after the first search of
CTranslate2: the threads of the two engines get in each other's way.
"""

import importlib.util
import multiprocessing
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import torch

from convs2s.common.errors import UserError


class Search(NamedTuple):
    """What to translate, and how.

    Attributes:
        batches: the tokens of each sentence of each batch.
        options: of CTranslate2's ``translate_batch``, for each batch.
    """

    batches: Sequence[list[list[str]]]
    options: Sequence[dict[str, Any]]


class Engine:
    """A converted model, loaded in another process.

    Args:
        folder: written by a converter of CTranslate2. It is not read later.
        dtype: the type to compute in; ``default`` for that of the weights.
        searches: name -> search.
        threads: the threads that compute a batch; None for as many as torch has here.
        batches: how many batches are translated at once (1).
    Raises:
        UserError: if ctranslate2 is not installed, or the folder has no model.
    """

    def __init__(
        self,
        folder: str,
        dtype: str,
        searches: Mapping[str, Search],
        threads: int | None = None,
        batches: int = 1,
    ):
        check_installed()
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        of_threads = {
            "inter_threads": batches,
            "intra_threads": threads or torch.get_num_threads(),
        }
        process = context.Process(
            target=_serve, args=(other, folder, dtype, of_threads, dict(searches)), daemon=True
        )
        process.start()
        # With this end open, recv would not notice that the process has ended.
        other.close()
        self._receive()

    def run(self, name: str) -> list[list[str]]:
        """The tokens of the best hypothesis of each sentence of a search, batch by batch."""
        self._connection.send(name)
        return self._receive()

    def _receive(self) -> Any:
        try:
            answer = self._connection.recv()
        except EOFError as error:
            raise UserError("The process of CTranslate2 ended early.") from error
        if isinstance(answer, str):
            raise UserError(answer)
        return answer


def check_installed() -> None:
    """Check that ctranslate2 is there.

    Raises:
        UserError: if it is not.
    """
    if importlib.util.find_spec("ctranslate2") is None:
        raise UserError(
            "This peer needs ctranslate2: run `pip install ctranslate2`, or choose other rows "
            "and models."
        )


def _serve(
    connection: Connection,
    folder: str,
    dtype: str,
    threads: dict[str, int],
    searches: dict[str, Search],
) -> None:
    """Load the model and answer with an empty list, or with what is wrong; then run searches."""
    import ctranslate2

    if not ctranslate2.contains_model(folder):
        connection.send(f"{folder} is not a folder that a converter of CTranslate2 has written.")
        return
    translator = ctranslate2.Translator(folder, device="cpu", compute_type=dtype, **threads)
    connection.send([])
    while True:
        try:
            search = searches[connection.recv()]
        except EOFError:
            return
        connection.send(
            [
                result.hypotheses[0]
                for batch, options in zip(search.batches, search.options, strict=True)
                for result in translator.translate_batch(batch, **options)
            ]
        )
