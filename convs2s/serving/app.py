"""The server's answers: the page, translations and attention."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from ..common.errors import UserError
from ..pictures.document import document, sentence_entry
from ..pictures.document import page as attention_page
from ..pictures.selection import ALL, choose_layers
from ..translation.results import Hypothesis, Translation
from ..translation.translator import Translator
from .batching import Batcher, QueueFull
from .page import page
from .requests import AttentionRequest, TranslationRequest, read_request

# Decimals of attention weights.
DIGITS = 4
# Requests of other pages in the same browser cannot have this type.
JSON_TYPE = "application/json"


@dataclass(frozen=True)
class Limits:
    """What a client may ask for.

    Attributes:
        max_bytes: of a request.
        max_waiting: lines that wait for a model.
    """

    max_bytes: int
    max_waiting: int


class RequestRefused(UserError):
    """A request that is answered with another status than 400.

    Args:
        status: of HTTP.
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
    """

    def __init__(self, translators: Mapping[str, Translator], limits: Limits):
        self._limits = limits
        self._executor = ThreadPoolExecutor(1)
        self._batchers = {
            name: Batcher(translator, self._executor, limits.max_waiting)
            for name, translator in translators.items()
        }
        self._page = page(translators)

    def app(self, hosts: Sequence[str]) -> Starlette:
        """The application.

        Args:
            hosts: names by which clients may call the server, so that no page of another name that
                leads to this address can use it.
        """

        @asynccontextmanager
        async def lifespan(app: Starlette):  # type: ignore[no-untyped-def]
            yield
            self._executor.shutdown()

        return Starlette(
            routes=[
                Route("/", self._show_page),
                Route("/translate", _answer(self._translate), methods=["POST"]),
                Route("/attention", _answer(self._attention), methods=["POST"]),
            ],
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[*hosts])],
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
        found = await batcher.translate(asked.lines, asked.nbest)
        return JSONResponse({"translations": [_as_json(each, asked.nbest) for each in found]})

    async def _attention(self, request: Request) -> Response:
        example = '{"line": "Zwei Hunde rennen."}'
        asked = read_request(AttentionRequest, await self._body(request), example)
        batcher = self._batcher(asked.model)
        translator, name = batcher.translator, asked.model or next(iter(self._batchers))

        def work() -> str:
            attention = translator.attention(asked.line, asked.target)
            target = translator.text.decode(" ".join(attention.target[:-1]))
            texts = asked.line.strip(), target
            maps = choose_layers(attention.maps, ALL)
            entry = sentence_entry(attention.source, attention.target, maps, ALL, DIGITS, texts)
            count = len(maps)
            names = [name] if count == 1 else [f"{name} ({i + 1})" for i in range(count)]
            return attention_page(document(names, [entry]), f"Attention of {name}")

        return HTMLResponse(await batcher.run(work))

    def _batcher(self, name: str | None) -> Batcher:
        if name is None:
            return next(iter(self._batchers.values()))
        if name not in self._batchers:
            names = ", ".join(self._batchers)
            raise UserError(f"There is no model {name}: this server has {names}.")
        return self._batchers[name]

    async def _body(self, request: Request) -> bytes:
        """The content of a request, of which no more is read than is allowed."""
        kind = request.headers.get("content-type", "").split(";")[0].strip()
        if kind != JSON_TYPE:
            raise RequestRefused(
                415, f"The content is {kind or 'of no type'}: send JSON, as {JSON_TYPE}."
            )
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > self._limits.max_bytes:
                raise RequestRefused(
                    413,
                    f"The request has more than {self._limits.max_bytes:,} bytes: send fewer lines "
                    "at a time.",
                )
        return bytes(body)


Handler = Callable[[Request], Awaitable[Response]]


def _answer(handler: Handler) -> Handler:
    """The same handler, whose errors are sentences in JSON."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except ClientDisconnect:
            return Response(status_code=400)
        except QueueFull as error:
            return JSONResponse({"error": str(error)}, 429, {"Retry-After": "1"})
        except RequestRefused as error:
            return JSONResponse({"error": str(error)}, error.status)
        except UserError as error:
            return JSONResponse({"error": str(error)}, 400)

    return handle


def _as_json(translation: Translation, nbest: int) -> dict[str, Any]:
    def of(hypothesis: Hypothesis) -> dict[str, Any]:
        return {"text": hypothesis.text, "score": hypothesis.score}

    return {
        "source": translation.source,
        **of(translation.hypotheses[0]),
        "is_cut_off": translation.is_cut_off,
        "nbest": [of(each) for each in translation.hypotheses[:nbest]],
    }
