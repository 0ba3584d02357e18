"""Embedding matrices of a model, built from its options."""

from fairseq import utils
from torch import nn

from ..errors import UserError
from ..nn.embedding import word_embedding


def check_sharing(cfg, task) -> None:
    """Refuse one table of words for both languages where it cannot be.

    Args:
        cfg: a model's options.
        task: has the dictionaries.
    Raises:
        UserError: where dictionaries or files of vectors differ.
    """
    if cfg.share_all_embeddings and task.source_dictionary != task.target_dictionary:
        raise UserError(
            "--share-all-embeddings needs one dictionary for both languages: "
            "preprocess the data with fairseq-preprocess --joined-dictionary."
        )
    if cfg.share_all_embeddings and cfg.decoder_embed_path not in (None, cfg.encoder_embed_path):
        raise UserError(
            "--share-all-embeddings has one table for both languages, but --encoder-embed-path "
            "and --decoder-embed-path differ: leave out --decoder-embed-path."
        )


def build_embedding(dictionary, embed_dim: int, path: str | None, std: float = 0.1) -> nn.Embedding:
    """The table of word vectors of a dictionary, with vectors from a file where one is given.

    Args:
        dictionary: fairseq's, with V words.
        embed_dim: E.
        path: a text file of pre-trained vectors (fairseq's format: a header, then a word and its
            numbers a line), or None.
        std: standard deviation of the random values (0.1).
    Raises:
        UserError: where the file cannot be read or its vectors are not E wide.
    """
    table = word_embedding(len(dictionary), embed_dim, dictionary.pad(), std)
    if not path:
        return table
    try:
        vectors = utils.parse_embedding(path)
    except (OSError, ValueError, StopIteration) as error:
        reason = str(error) or "it is empty"
        raise UserError(f"The word vectors in {path} cannot be read: {reason}.") from error
    for word, vector in vectors.items():
        if len(vector) != embed_dim:
            raise UserError(
                f"The vector of '{word}' in {path} has {len(vector)} numbers, not {embed_dim}."
            )
    utils.print_embed_overlap(vectors, dictionary)
    return utils.load_embedding(vectors, dictionary, table)


def build_embeddings(
    cfg, task, source_dim: int, target_dim: int, std: float = 0.1
) -> tuple[nn.Embedding, nn.Embedding]:
    """The tables of source and of target, which are one where ``share_all_embeddings`` says so.

    Args:
        cfg: options of ``options.EmbeddingOptions``.
        task: has the dictionaries.
        source_dim, target_dim: channels of the vectors.
        std: standard deviation of the random values (0.1).
    """
    source = build_embedding(task.source_dictionary, source_dim, cfg.encoder_embed_path, std)
    if cfg.share_all_embeddings:
        return source, source
    return source, build_embedding(task.target_dictionary, target_dim, cfg.decoder_embed_path, std)
