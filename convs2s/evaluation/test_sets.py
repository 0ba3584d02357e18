"""The test sets that sacreBLEU has downloaded. Nothing is downloaded here."""

from collections.abc import Iterable
from pathlib import Path

from ..common.errors import UserError, nearest


def find_test_set(name: str, pair: str | None) -> tuple[str, list[str]]:
    """The files of a test set, in the folder where sacreBLEU keeps those that it has downloaded.

    Args:
        name: a name of ``sacrebleu --list``, such as wmt17.
        pair: the language pair, such as en-de.
    Returns:
        The source text, and the sets of references.
    Raises:
        UserError: if the test set or its language pair is unknown, or sacreBLEU has no copy of it,
            or a damaged one.
    """
    from sacrebleu.dataset import DATASETS

    if name not in DATASETS:
        raise UserError(
            f"There is no test set {name}{nearest(name, DATASETS)}: --test-set is one of "
            f"{_names(DATASETS)}; the target language is --target-lang."
        )
    dataset = DATASETS[name]
    if pair not in dataset.langpairs:
        given = f"is {pair}{nearest(pair, dataset.langpairs)}" if pair else "is missing"
        raise UserError(
            f"--language-pair {given}: for {name}, it is one of {_names(dataset.langpairs)}."
        )
    # sacreBLEU downloads what is not there.
    archives = [
        Path(dataset._rawdir, dataset._get_tarball_filename(address))
        for address in dataset.data or ()
    ]
    download = f"sacrebleu --download {name} --language-pair {pair}"
    if not all(path.is_file() and path.stat().st_size for path in archives):
        raise UserError(
            f"sacreBLEU has no copy of {name} in {dataset._outdir}: `{download}` downloads it."
        )
    try:
        source = dataset.get_source_file(pair)
        references = dataset.get_reference_files(pair)
    # sacreBLEU raises no errors of its own, but those of whatever it reads.
    except Exception as error:
        raise UserError(
            f"sacreBLEU's copy of {name} in {dataset._outdir} cannot be read ({error}): remove "
            f"the folder, and run `{download}`."
        ) from error
    if not references:
        raise UserError(f"{name} has no references for {pair} in sacreBLEU.")
    return source, references


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
