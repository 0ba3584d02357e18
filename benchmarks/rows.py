"""The rows of the table: the two sides of each comparison, and the ratio it must reach."""

from typing import NamedTuple

from .setting import CTRANSLATE2, ONNXRUNTIME, TORCH, Setting


class Row(NamedTuple):
    """One comparison.

    Attributes:
        name: matched by ``--rows``.
        work: ``train``, ``generate`` or ``sequence``.
        ours, peer: the two sides.
        floor: the lowest ratio for which ``python -m benchmarks table`` succeeds; None for any.
    """

    name: str
    work: str
    ours: Setting
    peer: Setting
    floor: float | None = None


# fairseq's lstm with about as many parameters as adl_rnn_mh_pos_norm_multi_att_ff_iwslt.
LSTM_SIZES = (
    ("encoder_hidden_size", 1024),
    ("decoder_hidden_size", 1024),
    ("encoder_layers", 3),
    ("decoder_layers", 3),
)
# fairseq's transformer with the network of adl_transformer_small.
TRANSFORMER_SIZES = tuple(
    (f"{side}_{name}", value)
    for side in ("encoder", "decoder")
    for name, value in (
        ("layers", 4),
        ("embed_dim", 128),
        ("ffn_embed_dim", 256),
        ("attention_heads", 4),
        ("normalize_before", True),
    )
)
# The criteria of the two sides of sequence-level training.
SEQUENCE = "convs2s_sequence_risk", "convs2s_cross_entropy"
ADL_RNN = "adl_rnn_mh_pos_norm_multi_att_ff_iwslt"


def cpu_rows() -> list[Row]:
    """The rows of a machine without a GPU."""
    small = {"words": 8000, "sentences": 64}
    iwslt = Setting("convs2s_iwslt_de_en", **small), Setting("fconv_iwslt_de_en", **small)
    large = {"words": 40000, "sentences": 32}
    wmt = Setting("convs2s_fconv_wmt_en_de", **large), Setting("fconv_wmt_en_de", **large)
    adl = Setting("adl_transformer_iwslt", **small), Setting("transformer", **small)
    fast = Setting("transformer", engine=CTRANSLATE2, **small)
    # A batch of Multi30k.
    captions = {"words": 6000, "sentences": 128, "length": 15}
    network = Setting("adl_transformer_small", **captions)
    captioned = Setting("transformer", engine=CTRANSLATE2, options=TRANSFORMER_SIZES, **captions)
    rnn = Setting(ADL_RNN, **small), Setting("lstm", options=LSTM_SIZES, **small)

    def grid(sentences: int, length: int) -> tuple[Setting, Setting]:
        sizes = {"words": 8000, "sentences": sentences, "length": length}
        return Setting("pervasive", **sizes), Setting("plain_pervasive", **sizes)

    def row(name, work, sides, floor=None, dtype="float32", candidates=None, **shared) -> Row:
        ours, peer = (side._replace(**shared) for side in sides)
        ours = ours._replace(dtype=dtype, candidates=candidates)
        return Row(f"{work} {name}", work, ours, peer, floor)

    bfloat16, int8 = {"dtype": "bfloat16"}, {"dtype": "int8"}
    return [
        row("iwslt", "train", iwslt, 1.4),
        row("iwslt bf16", "train", iwslt, 2.6, **bfloat16),
        row("wmt", "train", wmt, 1.15),
        row("wmt bf16", "train", wmt, 2.4, **bfloat16),
        row("wmt", "generate", wmt, 3),
        row("wmt bf16", "generate", wmt, 4.5, **bfloat16),
        row("wmt int8", "generate", wmt, 7, **int8),
        row("wmt bf16 candidates", "generate", wmt, 10, candidates=2000, **bfloat16),
        row("wmt int8 candidates", "generate", wmt, 10, candidates=2000, **int8),
        row("wmt beam 1", "generate", wmt, 3, beam=1),
        row("iwslt", "generate", iwslt, 2.2),
        row("iwslt bf16", "generate", iwslt, 3, **bfloat16),
        row("iwslt int8", "generate", iwslt, 4, **int8),
        row("iwslt int8, CTranslate2", "generate", (iwslt[0], fast._replace(**int8)), 4, **int8),
        row("wmt one sentence", "generate", wmt, 3, sentences=1),
        row(
            "iwslt int8 one sentence, CTranslate2",
            "generate",
            (iwslt[0], fast._replace(**int8)),
            1.5,
            sentences=1,
            **int8,
        ),
        row("adl transformer", "train", adl, 1.1),
        row("adl transformer", "generate", adl, 1.3),
        row("adl transformer, CTranslate2", "generate", (adl[0], fast), 1),
        row(
            "adl transformer int8, CTranslate2",
            "generate",
            (adl[0], fast._replace(**int8)),
            0.85,
            **int8,
        ),
        *(
            row(
                f"adl transformer small{name}{of_beam}{of_size}, CTranslate2",
                "generate",
                (network._replace(engine=engine), captioned),
                beam=beam,
                sentences=size,
            )
            for name, engine in (("", TORCH), (", ONNX Runtime", ONNXRUNTIME))
            for of_beam, beam in (("", 5), (" beam 1", 1))
            for of_size, size in (("", 128), (" one sentence", 1))
        ),
        row("adl rnn", "train", rnn),
        row("adl rnn", "generate", rnn),
        Row(
            "sequence iwslt",
            "sequence",
            *(side._replace(criterion=name) for side, name in zip((iwslt[0],) * 2, SEQUENCE)),
            # Search, costs and the rest take at most 60% of the time of the token-level updates.
            floor=1 / 1.6,
        ),
        row("pervasive", "train", grid(16, 25), 2),
        row("pervasive bf16", "train", grid(16, 25), 3.5, **bfloat16),
        row("pervasive 25 words", "generate", grid(4, 25), 16),
        row("pervasive 50 words", "generate", grid(2, 50), 45),
    ]


def gpu_rows() -> list[Row]:
    """The rows of a machine with a GPU: three families in three precisions, without floors."""
    convs2s = {"words": 40000, "sentences": 128}
    transformer = {"words": 8000, "sentences": 256}
    grid = {"words": 8000, "sentences": 16}
    pairs = {
        "wmt": (
            Setting("convs2s_fconv_wmt_en_de", **convs2s),
            Setting("fconv_wmt_en_de", **convs2s),
        ),
        "pervasive": (
            Setting("pervasive_iwslt_de_en", **grid),
            Setting("plain_pervasive", **grid),
        ),
        "adl transformer": (
            Setting("adl_transformer_iwslt", **transformer),
            Setting("transformer", **transformer),
        ),
    }
    # The peer's float16 is that of fairseq's --fp16.
    precisions = (
        ("", "float32", "float32"),
        (" bf16", "bfloat16", "bfloat16"),
        (" fp16", "float16", "half"),
    )
    return [
        Row(
            f"{work} {name}{suffix}",
            work,
            ours._replace(dtype=dtype, device="cuda", **smaller_batch(work, name)),
            peer._replace(dtype=peer_dtype, device="cuda", **smaller_batch(work, name)),
        )
        for name, (ours, peer) in pairs.items()
        for work in ("train", "generate")
        for suffix, dtype, peer_dtype in precisions
    ]


def smaller_batch(work: str, name: str) -> dict[str, int]:
    """A smaller batch for plain_pervasive's generation, which computes the whole grid per step."""
    return {"sentences": 4} if (work, name) == ("generate", "pervasive") else {}


ROWS = {"cpu": cpu_rows, "cuda": gpu_rows}
