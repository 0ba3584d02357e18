"""The tests and what they share."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
