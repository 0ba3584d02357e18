"""Pre-trained embeddings, from text files in fairseq's format, at the start of a training run."""

import torch
from fairseq import utils
from fairseq.data import Dictionary
from torch import nn

from convs2s.common.errors import UserError

from ..compat.data_files import read_embeddings


def check_shared_embeddings(options, cfg, source: Dictionary, target: Dictionary) -> None:
    """Check that ``share_all_embeddings`` is possible with these dictionaries and files.

    Args:
        options: the options of the network.
        cfg: fairseq's options of the model, with the files.
        source, target: the dictionaries.
    Raises:
        UserError: if the dictionaries or the embedding files of the two languages differ.
    """
    if options.share_all_embeddings and source != target:
        raise UserError(
            "--share-all-embeddings needs one dictionary for both languages: "
            "preprocess the data with fairseq-preprocess --joined-dictionary."
        )
    files = [getattr(cfg, f"{side}_embed_path", None) for side in ("encoder", "decoder")]
    if options.share_all_embeddings and files[1] not in (None, files[0]):
        raise UserError(
            "--share-all-embeddings uses one embedding matrix for both languages, but "
            "--encoder-embed-path and --decoder-embed-path differ: omit --decoder-embed-path."
        )


@torch.no_grad()
def load_embeddings_(matrix: nn.Embedding, path: str, dictionary: Dictionary) -> None:
    """Copy the embeddings of a file to the rows of their tokens.

    Args:
        matrix: V x E, of the V tokens of the dictionary.
        path: a header, then a token and its E numbers per line.
        dictionary: the dictionary.
    Raises:
        UserError: if the file cannot be read or its embeddings do not have E finite numbers.
    """
    pretrained = {}
    for token, vector in read_embeddings(path):
        if len(vector) != matrix.embedding_dim:
            raise UserError(
                f"The embedding of '{token}' in {path} has {len(vector)} numbers, not "
                f"{matrix.embedding_dim}."
            )
        if not vector.isfinite().all():
            raise UserError(
                f"The embedding of '{token}' in {path} has a number that is infinite or NaN."
            )
        # The file may have many more words, whose vectors need not be kept.
        if token in dictionary.indices:
            pretrained[token] = vector
    utils.print_embed_overlap(pretrained, dictionary)
    utils.load_embedding(pretrained, dictionary, matrix)
