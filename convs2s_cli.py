"""The console script ``convs2s``.

``convs2s path``, ``--version`` and ``--help`` answer without importing ``convs2s_plugin``, whose
import takes seconds: it imports torch and fairseq and registers the models. This module therefore
stands beside the package, not in it.
"""

import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def main(argv: list[str] | None = None) -> int:
    """Run one command of ``convs2s`` and return its exit code.

    Args:
        argv: the arguments after the program's name (default: those of the process).
    """
    folder = package_folder()
    commands = _load(folder / "cli" / "commands.py")
    version = _load(folder / "version.py").__version__
    if commands.chosen(argv, version) == "path":
        return commands.run(_load(folder / "cli" / "path.py"), "path", argv, version)
    if sentence := _load(folder / "installation.py").missing_fairseq():
        print(f"convs2s: error: {sentence}", file=sys.stderr)
        return 1
    from convs2s_plugin.cli import main as run

    return run(argv)


def package_folder() -> Path:
    """The folder of the package ``convs2s_plugin``, found without importing it."""
    spec = find_spec("convs2s_plugin")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("convs2s: error: There is no package convs2s_plugin here: install it again.")
    return Path(spec.submodule_search_locations[0]).resolve()


def _load(path: Path) -> ModuleType:
    """Execute one file of the package as a module of its own."""
    spec = spec_from_file_location(f"_convs2s_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
