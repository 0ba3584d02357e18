"""The layers of the language, one file for each kind: declaration and module together.

A file declares its layers with `register_layer`. Importing this package imports every file in the
folder, so that a new file is enough for a new layer.

A layer is built from its LayerSpec and called with x (B x T x C) and the Context of the pass. It
returns B x T x C'.
"""

from importlib import import_module
from pkgutil import iter_modules


def import_layers() -> None:
    """Import every file in this folder, which registers its layers."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")


import_layers()
