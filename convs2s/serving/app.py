"""The server's answers: the page, translations and attention."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from ..common.errors import UserError
from ..common.lines import as_sentence
from ..pictures.document import document, sentence_entry
from ..pictures.document import page as attention_page
from ..pictures.selection import ALL, choose_layers
from ..translation.results import Hypothesis, Translation
from ..translation.text import target_text
from ..translation.translator import Translator
from .batching import Batcher, QueueFull
from .page import page
from .requests import AttentionRequest, TranslationRequest, read_request

# Decimals of attention weights, and of scores.
DIGITS = 4
# A page with the weights of all layers and heads between more tokens is too large for a browser.
MAX_ATTENTION_TOKENS = 120
# Bytes of a request beyond the limit that are read and dropped: a client that sends everything
# before it reads would otherwise see a reset connection in place of the answer.
MAX_DROPPED = 2**26
# Requests of other pages in the same browser cannot have this type.
JSON_TYPE = "application/json"


@dataclass(frozen=True)
class Limits:
    """What a client may ask for.

    Attributes:
        max_bytes: most bytes of a request.
        max_waiting: most lines that wait for a model.
    """

    max_bytes: int
    max_waiting: int


class RequestRefused(UserError):
    """A request that is answered with a status other than 400.

    Args:
        status: HTTP status.
        sentence: what to say.
    """

    def __init__(self, status: int, sentence: str):
        super().__init__(sentence)
        self.status = status


class Server:
    """Translates for clients, with all models in one thread.

    Args:
        translators: name of a model -> what translates with it.
        limits: what clients may ask for.
        about: what people should know about the models; None for nothing.
    Attributes:
        is_working: whether a model is computing.
    """

    def __init__(
        self, translators: Mapping[str, Translator], limits: Limits, about: str | None = None
    ):
        self._limits = limits
        self._executor = ThreadPoolExecutor(1)
        self._batchers = {
            name: Batcher(translator, self._executor, limits.max_waiting)
            for name, translator in translators.items()
        }
        self._page = page(translators, about)

    @property
    def is_working(self) -> bool:
        return any(batcher.is_working for batcher in self._batchers.values())

    def app(self, hosts: Sequence[str]) -> Starlette:
        """The application.

        Args:
            hosts: names by which clients may call the server, so that no page under another name
                that leads to this address can use it.
        """

        @asynccontextmanager
        async def lifespan(app: Starlette):  # type: ignore[no-untyped-def]
            yield
            # Work that is still running has run out of time.
            self._executor.shutdown(wait=False, cancel_futures=True)

        return Starlette(
            routes=[
                Route("/", self._show_page),
                Route("/translate", _answer(self._translate), methods=["POST"]),
                Route("/attention", _answer(self._attention), methods=["POST"]),
            ],
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[*hosts])],
            exception_handlers={HTTPException: _refuse},
            lifespan=lifespan,
        )

    async def _show_page(self, request: Request) -> Response:
        return HTMLResponse(self._page)

    async def _translate(self, request: Request) -> Response:
        example = '{"lines": ["Zwei Hunde rennen."]}'
        asked = read_request(TranslationRequest, await self._body(request), example)
        batcher = self._batcher(asked.model)
        most = batcher.translator.ensemble.options.beam
        if asked.nbest > most:
            raise UserError(
                f"nbest is {asked.nbest}, but the search of this server finds {most} translations: "
                "ask for fewer."
            )
        found = await _unless_gone(request, batcher.translate(asked.lines, asked.nbest))
        return JSONResponse({"translations": [_as_json(each, asked.nbest) for each in found]})

    async def _attention(self, request: Request) -> Response:
        example = '{"line": "Zwei Hunde rennen."}'
        asked = read_request(AttentionRequest, await self._body(request), example)
        batcher = self._batcher(asked.model)
        translator, name = batcher.translator, asked.model or next(iter(self._batchers))
        target_side = target_text(translator.text)

        def work() -> str:
            for text, of_side in ((asked.line, translator.text), (asked.target, target_side)):
                count = len(of_side.encode(as_sentence(text or "")).split())
                if count > MAX_ATTENTION_TOKENS:
                    raise UserError(
                        f"The attention of {count:,} tokens is too large for a page: send at most "
                        f"{MAX_ATTENTION_TOKENS}, or use `convs2s plot-attention`."
                    )
            attention = translator.attention(asked.line, asked.target)
            target = translator.text.decode(" ".join(attention.target[:-1]))
            texts = asked.line.strip(), target
            maps = choose_layers(attention.maps, ALL)
            entry = sentence_entry(attention.source, attention.target, maps, ALL, DIGITS, texts)
            count = len(maps)
            names = [name] if count == 1 else [f"{name} ({i + 1})" for i in range(count)]
            return attention_page(document(names, [entry]), f"Attention of {name}")

        return HTMLResponse(await _unless_gone(request, batcher.run(work)))

    def _batcher(self, name: str | None) -> Batcher:
        if name is None:
            return next(iter(self._batchers.values()))
        if name not in self._batchers:
            names = ", ".join(self._batchers)
            raise UserError(f"There is no model {name}: this server has {names}.")
        return self._batchers[name]

    async def _body(self, request: Request) -> bytes:
        """The content of a request, read up to the allowed size."""
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind != JSON_TYPE:
            raise RequestRefused(
                415, f"The content is {kind or 'of no type'}: send JSON, as {JSON_TYPE}."
            )
        body, size = bytearray(), 0
        async for chunk in request.stream():
            size += len(chunk)
            if size <= self._limits.max_bytes:
                body += chunk
            elif size > self._limits.max_bytes + MAX_DROPPED:
                break
        if size > self._limits.max_bytes:
            raise RequestRefused(
                413,
                f"The request has more than {self._limits.max_bytes:,} bytes: send fewer lines "
                "at a time.",
            )
        return bytes(body)


Handler = Callable[[Request], Awaitable[Response]]
Result = TypeVar("Result")


def _answer(handler: Handler) -> Handler:
    """The same handler, whose errors are sentences in JSON."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except ClientDisconnect:
            return Response(status_code=400)
        except asyncio.CancelledError:
            return JSONResponse({"error": "The server has ended before it could answer."}, 503)
        except QueueFull as error:
            return JSONResponse({"error": str(error)}, 429, {"Retry-After": "1"})
        except RequestRefused as error:
            return JSONResponse({"error": str(error)}, error.status)
        except UserError as error:
            return JSONResponse({"error": str(error)}, 400)
        except Exception:
            traceback.print_exc()
            sentence = "The server failed: its terminal says how."
            return JSONResponse({"error": sentence}, 500)

    return handle


async def _unless_gone(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of some work, which ends early if nobody is waiting for it.

    Raises:
        ClientDisconnect: if the client has left.
    """

    async def has_left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, left = asyncio.ensure_future(work), asyncio.ensure_future(has_left())
    try:
        await asyncio.wait((working, left), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        left.cancel()


def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = f"{request.method} {request.url.path}: {error.detail}."
    return JSONResponse({"error": sentence}, error.status_code)


def _as_json(translation: Translation, nbest: int) -> dict[str, Any]:
    def of(hypothesis: Hypothesis) -> dict[str, Any]:
        return {"text": hypothesis.text, "score": round(hypothesis.score, DIGITS)}

    return {
        "source": translation.source,
        **of(translation.hypotheses[0]),
        "is_cut_off": translation.is_cut_off,
        "nbest": [of(each) for each in translation.hypotheses[:nbest]],
    }
