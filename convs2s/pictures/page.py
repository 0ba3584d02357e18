"""One HTML page with the attention of sentence pairs; it needs no network and no other file."""

import html
import json
import re
from pathlib import Path

from ..common.output_files import atomic_write
from .document import Document

FOLDER = Path(__file__).parent / "page_files"
SCRIPTS = ("drawing.js", "controls.js")
_PLACEHOLDER = re.compile(r"<!--(title|style|script|data)-->")


def page(content: Document, title: str) -> str:
    """The text of the page.

    Args:
        content: what it shows.
        title: its title, plain text.
    """
    parts = {
        "title": html.escape(title),
        "style": f"<style>\n{_read('style.css')}</style>",
        "script": "\n".join(f"<script>\n{_read(name)}</script>" for name in SCRIPTS),
        "data": f'<script type="application/json" id="data">{embedded_json(content)}</script>',
    }
    # In one pass, so that nothing is replaced inside the data.
    return _PLACEHOLDER.sub(lambda found: parts[found[1]], _read("page.html"))


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def embedded_json(content: Document) -> str:
    """JSON for the inside of a ``<script>`` element: no tag and no comment can start in it."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def write_page(path: str, content: Document, title: str) -> None:
    """Write the page."""
    with atomic_write(path) as file:
        file.write(page(content, title))
