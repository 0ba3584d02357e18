"""Options of fairseq-train for a first model: by family, and by the size of the text.

Those for less than 100,000 pairs were chosen by trials on Multi30k (``examples/multi30k``); those
for more are the papers'.
"""

from dataclasses import dataclass, field

from ...models import FAMILIES, family_of
from ...models.adl.architectures import SIZES
from ...models.adl.language.spec import Settings
from ..options import Options

ADAM: Options = {
    "optimizer": "adam",
    "adam-betas": "(0.9, 0.98)",
    "clip-norm": 1.0,
    "lr-scheduler": "budgeted",
}
NAG: Options = {
    "optimizer": "nag",
    "momentum": 0.99,
    "lr": 0.25,
    "clip-norm": 0.1,
    "lr-scheduler": "reduce_lr_on_plateau",
    "lr-shrink": 0.1,
    "stop-min-lr": 0.0001,
}
# An epoch of much text is long: these save, and validate, within it.
WITHIN_EPOCHS: Options = {"save-interval-updates": 2000, "keep-interval-updates": 1}
# The fewest and the most epochs for little text.
EPOCHS = (12, 100)
SMALL = "chosen on Multi30k (29,000 pairs)"
IWSLT = "those for IWSLT'14 (160,000 pairs)"


@dataclass(frozen=True)
class Recipe:
    """A model for texts of some size, and how it is trained.

    Attributes:
        least: smallest number of training pairs.
        arch: the architecture.
        source: where the options come from, for a message.
        options: options of fairseq-train.
        model: options that belong to ``arch`` and to no other architecture.
        epochs: number of epochs; None for as many as show ``pairs`` pairs.
        pairs: number of sentence pairs to see.
        width: channels of ``arch``. The learning rate of a larger width is smaller in the same
            proportion.
        batch_statistics: share of the updates that normalize with the statistics of their batch;
            None for families without batch normalization, and to train as in the paper.
    """

    least: int
    arch: str
    source: str
    options: Options
    model: Options = field(default_factory=dict)
    epochs: int | None = None
    pairs: int = 0
    width: int | None = None
    batch_statistics: float | None = None

    def epochs_for(self, pairs: int) -> int:
        """The number of epochs for a text of some pairs."""
        if self.epochs is not None:
            return self.epochs
        fewest, most = EPOCHS
        return max(fewest, min(most, round(self.pairs / max(1, pairs))))


RECIPES: dict[str, tuple[Recipe, ...]] = {
    "convs2s": (
        Recipe(
            0,
            "convs2s_iwslt_de_en",
            SMALL,
            {**ADAM, "lr": 0.006, "warmup-updates": 400, "dropout": 0.3, "max-tokens": 2000},
            pairs=640_000,
            width=256,
        ),
        Recipe(
            100_000,
            "convs2s_iwslt_de_en",
            "as for less text, with larger batches and a longer warm-up",
            {
                **ADAM,
                "lr": 0.001,
                "warmup-updates": 4000,
                "dropout": 0.2,
                "max-tokens": 4000,
                **WITHIN_EPOCHS,
            },
            epochs=30,
            width=256,
        ),
        Recipe(
            1_000_000,
            "convs2s_wmt_en_de",
            "those of Gehring et al. (2017) for WMT'14 English-German",
            {**NAG, "dropout": 0.2, "max-tokens": 4000, **WITHIN_EPOCHS},
            epochs=40,
        ),
    ),
    "pervasive": (
        Recipe(
            0,
            "pervasive_iwslt_de_en",
            SMALL,
            {**ADAM, "lr": 0.016, "warmup-updates": 400, "dropout": 0.1, "max-tokens": 1000},
            model={"num-layers": 12, "kernel-size": 3},
            pairs=350_000,
            batch_statistics=0.8,
        ),
        Recipe(
            100_000,
            "pervasive_iwslt_de_en",
            f"{IWSLT} of Elbayad et al. (2018)",
            {
                "optimizer": "adam",
                "clip-norm": 1.0,
                "lr": 0.0005,
                "lr-scheduler": "budgeted",
                "dropout": 0.2,
                "batch-size": 16,
                "max-cells": 129_600,
                **WITHIN_EPOCHS,
            },
            epochs=40,
        ),
    ),
    "adl": (
        Recipe(
            0,
            "adl_cnn_self_att_small",
            SMALL,
            {**ADAM, "lr": 0.006, "warmup-updates": 400, "dropout": 0.15, "max-tokens": 2000},
            pairs=1_050_000,
            width=SIZES["small"].options["model_dim"],
        ),
        Recipe(
            100_000,
            "adl_transformer_iwslt",
            f"{IWSLT} of a Transformer",
            {
                **ADAM,
                "lr": 0.0005,
                "warmup-updates": 4000,
                "dropout": 0.2,
                "max-tokens": 4000,
                **WITHIN_EPOCHS,
            },
            epochs=40,
        ),
    ),
}
# Family -> the option that is the width of its models, and its default.
WIDTHS = {"convs2s": ("encoder_embed_dim", 512), "adl": ("model_dim", Settings.model_dim)}
# Models of fairseq's own and of other packages.
OTHERS = Recipe(
    0,
    "",
    "those of fairseq for IWSLT'14 and its Transformer",
    {
        **ADAM,
        "lr": 0.0005,
        "lr-scheduler": "inverse_sqrt",
        "warmup-updates": 4000,
        "dropout": 0.3,
        "max-tokens": 4000,
    },
    pairs=1_050_000,
)


def find_recipe(arch: str | None, pairs: int) -> tuple[str | None, Recipe]:
    """The family of an architecture, and its recipe for a text of some pairs.

    Args:
        arch: the architecture, "adl" for definitions; None for ConvS2S of a suitable size.
        pairs: number of training pairs.
    Returns:
        None and ``OTHERS`` if no family of this package has the architecture.
    """
    family = "convs2s" if arch is None else family_of(arch)
    if family is None:
        return None, OTHERS
    return family, [recipe for recipe in RECIPES[family] if pairs >= recipe.least][-1]


def model_options(recipe: Recipe, family: str | None, arch: str | None) -> Options:
    """``arch``, its own options, and a learning rate for its width.

    Updates of Adam are as large as the learning rate, whatever the width of a layer, so a sum over
    its inputs changes in proportion to both (Yang et al. 2022, Tensor Programs V).
    """
    if arch == "adl":
        sizes = SIZES["small" if recipe.width else "iwslt"].options
        return {"arch": arch, **{name.replace("_", "-"): value for name, value in sizes.items()}}
    if arch is None or arch == recipe.arch:
        return {"arch": recipe.arch, **recipe.model}
    chosen: Options = {"arch": arch}
    if family in WIDTHS and recipe.width is not None:
        name, default = WIDTHS[family]
        width = FAMILIES[family].architectures()[arch].options.get(name, default)
        chosen["lr"] = recipe.options["lr"] * min(1.0, recipe.width / width)
    return chosen
