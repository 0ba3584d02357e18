"""Packaging of convs2s-plugin; the tools' settings are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent


def read_version():
    # Importing the package would need torch, which a build environment has not.
    text = (ROOT / "convs2s_plugin" / "version.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if match is None:
        raise RuntimeError('convs2s_plugin/version.py has no line __version__ = "..."')
    return match.group(1)


def read_long_description():
    readme = ROOT / "README.md"
    return readme.read_text(encoding="utf-8") if readme.exists() else ""


setup(
    name="convs2s-plugin",
    version=read_version(),
    description="Convolutional and hybrid sequence-to-sequence models for fairseq",
    long_description=read_long_description(),
    long_description_content_type="text/markdown",
    author="convs2s-plugin authors",
    license="MIT",
    python_requires=">=3.9",
    packages=find_packages(include=["convs2s_plugin", "convs2s_plugin.*"]),
    install_requires=["torch>=2.4", "numpy", "sacrebleu", "subword-nmt"],
    extras_require={
        # fairseq stays out of install_requires because it has several distributions that
        # overwrite one another: whichever is installed already has to be left alone.
        "fairseq": [
            'fairseq==0.12.2; python_version < "3.11"',
            've-fairseq==0.12.3; python_version >= "3.11"',
        ],
        "lexicon": ["eflomal"],
        "demo": ["num2words", "Babel", "matplotlib"],
        "dev": ["pytest", "pytest-xdist", "ruff", "tensorboardX"],
    },
    entry_points={"console_scripts": ["convs2s = convs2s_plugin.cli:main"]},
    classifiers=[
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
    ],
)
