"""The page to try models with."""

import json
from collections.abc import Mapping
from pathlib import Path

from ..pictures.document import FOLDER as PICTURES
from ..pictures.document import filled
from ..translation.translator import Translator

FOLDER = Path(__file__).parent / "page_files"


def page(translators: Mapping[str, Translator], about: str | None = None) -> str:
    """The text of the page.

    Args:
        translators: name of a model -> what translates with it.
        about: what people should know about the models; None for nothing.
    """
    models = [
        {
            "name": name,
            "source": each.languages[0],
            "target": each.languages[1],
            "beam": each.ensemble.options.beam,
        }
        for name, each in translators.items()
    ]
    template, style, script = (
        (FOLDER / name).read_text(encoding="utf-8")
        for name in ("page.html", "style.css", "page.js")
    )
    shared = (PICTURES / "style.css").read_text(encoding="utf-8")
    languages = dict.fromkeys(f"{each['source']} → {each['target']}" for each in models)
    data = json.dumps({"models": models, "about": about}, ensure_ascii=False)
    return filled(template, shared + style, [script], data, f"Translate {', '.join(languages)}")
