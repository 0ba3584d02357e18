"""What clients may ask for, as plain data that is checked before it is used."""

from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..common.errors import UserError
from ..common.lines import check_text

# Lines of one request.
MAX_LINES = 1000


class TranslationRequest(BaseModel):
    """The content of ``POST /translate``.

    Attributes:
        lines: text; a translation for each.
        model: the name of a model; None for the first.
        nbest: number of translations of each line.
    """

    model_config = ConfigDict(strict=True, extra="forbid")

    lines: list[str] = Field(min_length=1, max_length=MAX_LINES)
    model: str | None = None
    nbest: int = Field(default=1, ge=1)


class AttentionRequest(BaseModel):
    """The content of ``POST /attention``.

    Attributes:
        line: a line of text.
        target: its translation; None for that of the model.
        model: the name of a model; None for the first.
    """

    model_config = ConfigDict(strict=True, extra="forbid")

    line: str
    target: str | None = None
    model: str | None = None


AnyRequest = TypeVar("AnyRequest", TranslationRequest, AttentionRequest)


def read_request(kind: type[AnyRequest], body: bytes, example: str) -> AnyRequest:
    """Read and check the content of a request.

    Args:
        kind: what it must be.
        body: JSON.
        example: correct content, for the error.
    Raises:
        UserError: if it is not.
    """
    try:
        found = kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        what = f"{place}: {first['msg']}" if place else first["msg"]
        raise UserError(f"The request is not valid ({what}): send {example}.") from error
    texts: Sequence[str | None]
    if isinstance(found, TranslationRequest):
        texts = found.lines
    else:
        texts = found.line, found.target
    for number, text in enumerate(texts, start=1):
        check_text(text or "", f"Text {number}")
        if "\0" in (text or ""):
            raise UserError(f"Text {number} has a NUL character, which no text has: remove it.")
    return found
