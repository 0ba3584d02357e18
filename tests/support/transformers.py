"""Small models in ADL with the layers of a transformer, which other programs can have."""

import torch

from convs2s.checkpoints.files import load_checkpoint, save_checkpoint
from convs2s.checkpoints.networks import Checkpoint
from convs2s.models.interface import Vocabularies
from tests.support.batches import SYMBOLS
from tests.support.families import outputs, tiny_adl
from tests.support.translation import FIXTURES

SIZES = dict(model_dim=16, attention_heads=4, max_source_positions=64, max_target_positions=64)


def pre_norm(depth, attention=("mh_dot_self_att",), ffl="ffl"):
    return f"repeat({depth}, {' -> '.join(f'res_nd({a})' for a in (*attention, ffl))}) -> norm"


def post_norm(depth, attention=("mh_dot_self_att",), ffl="ffl"):
    parts = (f"res_d({a}) -> norm" for a in (*attention, ffl))
    return f"repeat({depth}, {' -> '.join(parts)})"


BOTH = ("mh_dot_self_att", "mh_dot_src_att")
SHARE_ALL = {"share_all_embeddings": True}
TIED = {"share_input_output_embed": True}
# name -> encoder, decoder, options.
MODELS = {
    "pre-norm": (f"pos -> {pre_norm(2)}", f"pos -> {pre_norm(2, BOTH)}", {}),
    "pre-norm, shared": (f"pos -> {pre_norm(1)}", f"pos -> {pre_norm(2, BOTH)}", SHARE_ALL),
    "pre-norm, tied": (f"pos -> {pre_norm(3)}", f"pos -> {pre_norm(1, BOTH)}", TIED),
    "post-norm": (f"pos -> {post_norm(2)}", f"pos -> {post_norm(3, BOTH)}", {}),
    "post-norm, shared": (f"pos -> {post_norm(2)}", f"pos -> {post_norm(2, BOTH)}", SHARE_ALL),
    "both": (f"pos -> {pre_norm(2)}", f"pos -> {post_norm(2, BOTH)}", TIED),
    "learned positions": (
        f"learn_pos -> {pre_norm(1)}",
        f"pos(scale=false) -> {pre_norm(1, BOTH)}",
        {"ff_dim": 24},
    ),
    "learned positions, scaled": (
        f"learn_pos(scale=true) -> {pre_norm(1)}",
        f"pos -> {pre_norm(1, BOTH)}",
        {},
    ),
    "other sizes": (
        f"dropout -> pos -> {pre_norm(1, ['mh_dot_self_att(h=2, s=3)'], 'ffl(d=10)')}",
        f"pos -> {post_norm(2, ['dot_self_att(s=1)', 'dot_src_att(block=-1)'], 'ffl(d=12)')}",
        {"model_dim": 24},
    ),
    "other feed-forward": (
        "pos -> res(norm -> mh_dot_self_att) -> res(norm -> ff(d=8, v=gelu) -> dropout -> "
        "linear(bias=false)) -> norm",
        "pos -> res_nd(mh_dot_self_att) -> res_nd(mh_dot_src_att) -> "
        "res_nd(ff(d=6, v=gelu) -> linear) -> dropout -> norm",
        {},
    ),
}


def model_and_checkpoint(encoder, decoder, options, bias=True):
    """A model with random weights in double precision, and its checkpoint."""
    options = {**SIZES, **options, "encoder_adl": encoder, "decoder_adl": decoder}
    model = tiny_adl(arch="adl", **options).double()
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.normal_(parameter, mean=0.5, std=0.5)
    if not bias:
        torch.nn.init.zeros_(model.decoder.output.bias)
    cfg = {"criterion": {"label_smoothing": 0.1}}
    state = {
        "cfg": cfg,
        "model": model.state_dict(),
        "optimizer_history": [{"num_updates": 7}],
    }
    return model, Checkpoint(
        "model.pt", state, {"arch": "adl", **options}, {"left_pad_source": True}
    )


@torch.no_grad()
def like_trained_(network):
    """Let the choice of words depend on the sentence, and translations end, without padding."""
    network.decoder.layers[-1].norm.weight.mul_(3.0)
    bias = network.decoder.output.bias
    bias[[SYMBOLS.pad(), SYMBOLS.bos()]] = -30.0
    words = torch.randint(4, len(bias), (20, 10), generator=torch.Generator().manual_seed(5))
    logits = outputs(network, {"src_tokens": words, "prev_output_tokens": words})[0]
    # The end is the best continuation of most random prefixes.
    missing = logits.amax(dim=-1) - logits[..., SYMBOLS.eos()]
    bias[SYMBOLS.eos()] += missing.quantile(0.7)


def write_checkpoint(path, encoder, decoder, **options):
    """Write a checkpoint with random weights, for the dictionaries of the fixtures."""
    content = load_checkpoint(str(FIXTURES / "adl.pt"))
    options = {
        "encoder_adl": encoder,
        "decoder_adl": decoder,
        "max_source_positions": 20,
        **options,
    }
    network = tiny_adl(arch="adl", vocabularies=Vocabularies(16, 16), **{**SIZES, **options})
    like_trained_(network)
    content["cfg"]["model"] = {"_name": "adl", **SIZES, **options}
    save_checkpoint({**content, "model": network.state_dict()}, str(path))
    return path
