"""Embedding matrices of a model, built from its options."""

from fairseq import utils
from torch import nn

from ...common.errors import UserError
from ...nn.embedding import random_embedding_matrix


def check_shared_embeddings(cfg, task) -> None:
    """Check that ``share_all_embeddings`` is possible with these dictionaries and options.

    Args:
        cfg: options of ``EmbeddingOptions``.
        task: a translation task.
    Raises:
        UserError: if the dictionaries or the embedding files of the two languages differ.
    """
    if cfg.share_all_embeddings and task.source_dictionary != task.target_dictionary:
        raise UserError(
            "--share-all-embeddings needs one dictionary for both languages: "
            "preprocess the data with fairseq-preprocess --joined-dictionary."
        )
    if cfg.share_all_embeddings and cfg.decoder_embed_path not in (None, cfg.encoder_embed_path):
        raise UserError(
            "--share-all-embeddings uses one embedding matrix for both languages, but "
            "--encoder-embed-path and --decoder-embed-path differ: leave out --decoder-embed-path."
        )


def build_embedding_matrix(
    dictionary, embed_dim: int, path: str | None, std: float = 0.1
) -> nn.Embedding:
    """Build the embedding matrix V x E of a dictionary.

    Args:
        dictionary: fairseq's dictionary, with V tokens.
        embed_dim: E.
        path: a text file of pre-trained embeddings in fairseq's format (a header, then a token and
            its E numbers per line), or None for random ones.
        std: standard deviation of random embeddings (0.1).
    Raises:
        UserError: if the file cannot be read or its embeddings do not have E numbers.
    """
    matrix = random_embedding_matrix(len(dictionary), embed_dim, dictionary.pad(), std)
    if not path:
        return matrix
    try:
        pretrained = utils.parse_embedding(path)
    except (OSError, ValueError, StopIteration) as error:
        reason = str(error) or "it is empty"
        raise UserError(f"The embeddings in {path} cannot be read: {reason}.") from error
    for token, vector in pretrained.items():
        if len(vector) != embed_dim:
            raise UserError(
                f"The embedding of '{token}' in {path} has {len(vector)} numbers, not {embed_dim}."
            )
    utils.print_embed_overlap(pretrained, dictionary)
    return utils.load_embedding(pretrained, dictionary, matrix)


def build_embedding_matrices(
    cfg, task, source_dim: int, target_dim: int, std: float = 0.1
) -> tuple[nn.Embedding, nn.Embedding]:
    """Build the source and the target embedding matrix.

    Args:
        cfg: options of ``EmbeddingOptions``. With ``share_all_embeddings``, both matrices are one.
        task: a translation task, for its dictionaries.
        source_dim, target_dim: E of each matrix.
        std: standard deviation of random embeddings (0.1).
    """
    source = build_embedding_matrix(task.source_dictionary, source_dim, cfg.encoder_embed_path, std)
    if cfg.share_all_embeddings:
        return source, source
    return source, build_embedding_matrix(
        task.target_dictionary, target_dim, cfg.decoder_embed_path, std
    )
