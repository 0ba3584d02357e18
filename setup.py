"""Packaging of convs2s-plugin; pyproject.toml has everything but the text for the page on PyPI."""

import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
FILES = "https://github.com/convs2s-plugin/convs2s-plugin"


def readme():
    """README.md, with links and pictures that work outside the repository, too."""
    init = (ROOT / "convs2s" / "__init__.py").read_text(encoding="utf-8")
    tag = "v" + re.search(r'__version__ = "(.+)"', init).group(1)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^]]*\]\()(?!https?://)", rf"\g<1>{FILES}/raw/{tag}/", text)
    return re.sub(r"(\]\()(?!https?://)", rf"\g<1>{FILES}/blob/{tag}/", text)


setup(long_description=readme(), long_description_content_type="text/markdown")
