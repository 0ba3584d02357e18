"""Unicode normalization of a line of text.

The characters of a text decide its vocabulary, so that two spellings of one character must not
remain. Compatibility characters (NFKC) are left as they are: they carry meaning, as the superscript
in ``10²`` does, and a translation could not restore them.
"""

import re
import unicodedata

# The mark of spaces in characters and in sentencepiece's sub-words, U+2581.
SPACE_MARK = "\N{LOWER ONE EIGHTH BLOCK}"
_SPACES = re.compile(r"\s+")


def normalize(line: str, lowercase: bool = False) -> str:
    """Normalize a line.

    * Characters are composed (NFC).
    * Each run of white space becomes one space; there is none at the ends.
    * Control characters are removed, and so are format characters that are not seen: the byte order
      mark, the soft hyphen, marks of direction, zero-width spaces. The zero-width joiner and
      non-joiner stay, since several scripts need them.
    * U+2581, which marks spaces in tokens, becomes an underscore.

    Args:
        line: text; a line end is white space.
        lowercase: also change it to lower case.
    """
    if not line.isascii():
        line = unicodedata.normalize("NFC", line.translate(_CHANGES))
    elif not line.isprintable():
        line = line.translate(_CHANGES)
    line = _SPACES.sub(" ", line).strip()
    return line.lower() if lowercase else line


def _changes() -> dict[int, str | None]:
    """The characters to replace or remove."""
    removed = [
        *(code for code in range(0xA0) if unicodedata.category(chr(code)) == "Cc"),
        *(0xAD, 0x61C, 0x200B, 0x200E, 0x200F, 0xFEFF),
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2065),
        *range(0x2066, 0x2070),
    ]
    changes: dict[int, str | None] = {
        code: " " if chr(code).isspace() else None for code in removed
    }
    changes[ord(SPACE_MARK)] = "_"
    return changes


_CHANGES = _changes()
