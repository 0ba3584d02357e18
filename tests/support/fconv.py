"""Shared by the tests of fairseq's fconv: its options, and checkpoints as of 2017 and 2018."""

from argparse import Namespace
from collections import OrderedDict

import torch

FCONV = (
    *("--arch", "fconv_iwslt_de_en", "--dropout", "0.1", "--decoder-attention", "[True, False]"),
    *("--encoder-embed-dim", "32", "--decoder-embed-dim", "32", "--decoder-out-embed-dim", "32"),
    *("--encoder-layers", "[(32, 3), (24, 2)]", "--decoder-layers", "[(32, 3), (24, 2)]"),
    *("--optimizer", "adam", "--lr", "0.01", "--max-tokens", "400", "--max-epoch", "4"),
)


def load(path):
    return torch.load(path, weights_only=True)


# The options that matter here and that fairseq saved in 2017.
OPTIONS_OF_2017 = """
    arch clip_norm data decoder_attention decoder_embed_dim decoder_layers decoder_out_embed_dim
    dropout encoder_embed_dim encoder_layers lr max_source_positions max_target_positions
    max_tokens momentum seed source_lang target_lang weight_decay
""".split()


# Options as of early 2018, with those of MLConvGEC's training.
OPTIONS_OF_2018 = {
    "source_lang": "src", "target_lang": "trg", "data": "processed/bin", "arch": "fconv",
    "encoder_embed_path": "embeddings/wiki_model.vec", "batch_size": 96,
    "decoder_embed_path": "embeddings/wiki_model.vec", "label_smoothing": 0, "lr": 0.25,
    "min_lr": 1e-4, "momentum": 0.99, "clip_norm": 0.1, "lrshrink": 0.1, "force_anneal": 0,
    "max_epoch": 100, "max_tokens": 6000, "num_gpus": 1, "sample_without_replacement": 0,
    "no_progress_bar": True, "log_interval": 1000, "restore_file": "checkpoint_last.pt",
    "save_dir": "models/mlconv_embed/model1000/", "save_interval": -1, "no_save": False,
    "no_epoch_checkpoints": False, "train_subset": "train", "valid_subset": "valid", "seed": 1000,
    "workers": 1, "weight_decay": 0.0, "criterion": "cross_entropy", "optimizer": "nag",
    "skip_invalid_size_inputs_valid_test": False, "model": "fconv",
}  # fmt: skip

# Those of the copy of fconv in CrosentGEC.
OPTIONS_OF_2019 = {
    "arch": "fconv_gec", "normalization_constant": 0.5, "source_token_dropout": 0.2, "lr": [0.25],
    "task": "translation", "criterion": "label_smoothed_cross_entropy", "raw_text": True,
}  # fmt: skip


def make_old(path, target, version=2, stray=False, legacy=False, meters=False, changes=None):
    """Rewrite a checkpoint as an old version of fairseq would have written it.

    Args:
        path, target: the checkpoint, and the file to write.
        version: 1 for weight normalization with one norm for each kernel position.
        stray: with a weight that only decoding needed.
        legacy: in the file format of torch before 1.6.
        meters: with objects of fairseq's classes.
        changes: options that differ.
    """
    checkpoint = load(path)
    weights = OrderedDict(checkpoint["model"])
    if version == 1:
        weights["decoder.version"] = torch.Tensor([1])
        for key in [k for k in weights if k.startswith("decoder.conv") and k.endswith("weight_g")]:
            direction = weights[key[:-1] + "v"]
            weight = direction * (weights[key] / direction.norm(dim=(0, 1), keepdim=True))
            # One norm a kernel position; any direction of that weight will do.
            weights[key[:-1] + "v"] = weight * 3
            weights[key] = weight.norm(dim=(1, 2), keepdim=True)
    if stray:
        weights["decoder.convolutions.0._linearized_weight"] = torch.zeros(64, 96)
    options = vars(checkpoint["cfg"]["model"])
    old = {
        "args": Namespace(
            **{
                **{name: options[name] for name in OPTIONS_OF_2017 if name in options},
                **(changes or {}),
            }
        ),
        "model": weights,
        "optimizer_history": checkpoint["optimizer_history"],
        "extra_state": {"train_iterator": {"epoch": 1}},
        "last_optimizer_state": None,
    }
    if meters:
        from fairseq.meters import AverageMeter

        old["extra_state"]["train_meters"] = {"loss": AverageMeter()}
    torch.save(old, target, _use_new_zipfile_serialization=not legacy)
