"""Networks as models of transformers: ``forward``, and ``generate`` with our incremental state."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GenerationConfig, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import Seq2SeqLMOutput

from ..checkpoints.model_folder import GENERATION, WEIGHTS, checkpoint_of, write_folder
from ..checkpoints.networks import build_network, new_network, read_checkpoint
from ..common.errors import UserError, check_names
from ..models.interface import Network
from ..nn.state import BeamOrder, State, reorder_encoder_output
from .config import OF_THE_HUB, Convs2sConfig, folder_of

# Options of `from_pretrained`. The last ones are given by Auto classes and pipelines, and ignored.
OPTIONS = {*OF_THE_HUB, "dtype", "torch_dtype", "device_map"} | {
    *("adapter_kwargs", "code_revision", "trust_remote_code", "use_safetensors"),
    *("_commit_hash", "_from_auto", "_from_pipeline"),
}
# Labels that do not count.
IGNORED = -100
# What transformers calls the state; version 4 has another name.
CACHE = "cache" if "cache" in {each.name for each in fields(Seq2SeqLMOutput)} else "past_key_values"


class DecoderCache:
    """The incremental state of a search, and the encoder output that it reads.

    Args:
        encoded: what ``Encoder.run`` returned.
    """

    def __init__(self, encoded: dict[str, Any]):
        self.encoded, self.state = encoded, State()

    def get_seq_length(self) -> int:
        """The number of positions that are decoded."""
        return self.state.length

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Let hypothesis i continue hypothesis ``beam_idx[i]``."""
        order = BeamOrder(beam_idx, self.encoded["beam_size"])
        self.state.reorder_(beam_idx, order)
        self.encoded = reorder_encoder_output(self.encoded, order)


class _Encoder(nn.Module):
    """The encoder of a network, as transformers calls it."""

    main_input_name = "input_ids"

    def __init__(self, network: Network):
        super().__init__()
        self.run, self.pad = network.encoder.run, network.encoder.pad

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any
    ) -> dict[str, Any]:
        if attention_mask is not None:
            input_ids = input_ids.masked_fill(attention_mask.eq(0), self.pad)
        encoded = self.run(input_ids)
        return {"last_hidden_state": encoded["encoder_out"], **encoded}


class Convs2sForConditionalGeneration(PreTrainedModel, GenerationMixin):
    """A network of any family.

    Args:
        config: what ``config.json`` says.
        network: the network; None for a new one with random weights.
    """

    config_class = Convs2sConfig
    main_input_name = "input_ids"
    # The loss is the mean of a batch. Because of ``**more`` in ``forward``, a Trainer would expect
    # one divided by the tokens of all batches of an update, and add these losses up.
    accepts_loss_kwargs = False

    def __init__(self, config: Convs2sConfig, network: Network | None = None):
        super().__init__(config)
        if network is None:
            network = new_network(checkpoint_of(config.exported(), {}))
        # Weights have the same names as in the file: the parts of the network are registered, not
        # the network.
        self.encoder, self.decoder = network.encoder, network.decoder
        self._network = (network,)
        setattr(self.encoder, "main_input_name", self.main_input_name)  # noqa: B010
        # A Trainer misses them in the file.
        self._keys_to_ignore_on_save = list(getattr(config, "tied", ()))
        self.post_init()

    @property
    def network(self) -> Network:
        """The network, which knows nothing of transformers."""
        return self._network[0]

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *args: Any,
        config: Convs2sConfig | None = None,
        **options: Any,
    ) -> "Convs2sForConditionalGeneration":
        """Read the folder that ``convs2s export`` wrote, from this machine or from the Hub.

        Args:
            pretrained_model_name_or_path: the folder, or its name on the Hub.
            config: its configuration; None to read it.
            options: ``dtype``, a device as ``device_map``, and those of the Hub, such as
                ``revision`` and ``token``.
        Raises:
            UserError: if a file is missing, damaged, or does not belong to the others, or if there
                is no such option.
        """
        check_names(options, OPTIONS, "from_pretrained")
        folder = folder_of(pretrained_model_name_or_path, options)
        network = build_network(read_checkpoint(str(folder / WEIGHTS)))
        model = cls(config or Convs2sConfig.from_pretrained(folder), network)
        if (folder / GENERATION).is_file():
            model.generation_config = GenerationConfig.from_pretrained(folder)
        dtype = options.get("dtype", options.get("torch_dtype"))
        if dtype not in (None, "auto"):
            model.to(getattr(torch, dtype) if isinstance(dtype, str) else dtype)
        if (device := options.get("device_map")) is not None:
            model.to(device)
        return model.eval()

    def save_pretrained(
        self,
        save_directory: str | Path,
        is_main_process: bool = True,
        state_dict: dict[str, Tensor] | None = None,
        push_to_hub: bool = False,
        **options: Any,
    ) -> None:
        """Write weights and configuration as ``convs2s export`` does.

        Args:
            save_directory: the folder.
            is_main_process: whether this process writes (True).
            state_dict: the weights; None for those of this model.
            push_to_hub, options: as in transformers.
        """
        folder = Path(save_directory)
        if is_main_process:
            folder.mkdir(parents=True, exist_ok=True)
            write_folder(folder, state_dict or self.network.state_dict(), self.config.exported())
            self.generation_config.save_pretrained(folder)
        if push_to_hub:
            self.push_to_hub(options.pop("repo_id", folder.name), **options)

    def _init_weights(self, module: nn.Module) -> None:
        """Do nothing: networks initialize their own weights."""

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False

    def get_encoder(self, *_: Any, **__: Any) -> nn.Module:
        """The encoder, as transformers calls it."""
        return _Encoder(self.network)

    def prepare_inputs_for_generation(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **given: Any
    ) -> dict[str, Any]:
        """What ``forward`` gets in a step: the whole prefix, of which it computes what is new.

        Args:
            input_ids: R x T tokens.
            attention_mask: mask of the source; unused, because the encoder output knows the
                padding.
            given: what else ``generate`` passes.
        """
        names = ("encoder_outputs", CACHE, "use_cache", "output_attentions")
        return {"decoder_input_ids": input_ids, **{name: given.get(name) for name in names}}

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The tokens before those of the labels B x T."""
        start = labels.new_full((len(labels), 1), self.config.decoder_start_token_id)
        shifted = torch.cat([start, labels[:, :-1]], dim=1)
        return shifted.masked_fill(shifted.eq(IGNORED), self.config.pad_token_id)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        encoder_outputs: dict[str, Any] | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        **more: Any,
    ) -> Seq2SeqLMOutput:
        """Compute the logits of the next tokens, and the loss if there are labels.

        Args:
            input_ids: B x S source tokens.
            attention_mask: B x S, 0 at padding; None if ``input_ids`` has padding as such.
            decoder_input_ids: R x T previous target tokens; None to make them from the labels.
            encoder_outputs: what the encoder returned; None to compute it.
            labels: B x T target tokens, -100 at those that do not count.
            use_cache: whether to return a ``DecoderCache`` for later steps.
            output_attentions: whether to return the attention to the source.
            more: the cache.
        Raises:
            UserError: if there is no source or target text.
        """
        cache: DecoderCache | None = more.get(CACHE)
        if input_ids is None and encoder_outputs is None:
            raise UserError("There is no source text: give input_ids or encoder_outputs.")
        if decoder_input_ids is None:
            if labels is None:
                raise UserError("There is no target text: give decoder_input_ids or labels.")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        if encoder_outputs is None:
            encoder_outputs = self.get_encoder()(input_ids, attention_mask)
        # transformers has repeated it for the hypotheses of each sentence.
        encoded = {**encoder_outputs, "beam_size": 1}
        last = encoded.pop("last_hidden_state")
        if cache is None and use_cache and labels is None:
            cache = DecoderCache(encoded)
        features, attention = self.network.decode(
            decoder_input_ids,
            encoded if cache is None else cache.encoded,
            None if cache is None else cache.state,
            need_weights=bool(output_attentions),
        )
        logits = self.network.logits(features)
        loss = None
        if labels is not None:
            rows = logits.flatten(0, 1).float()
            loss = F.cross_entropy(rows, labels.flatten(), ignore_index=IGNORED)
        return Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            cross_attentions=None if attention is None else (attention.unsqueeze(1),),
            encoder_last_hidden_state=last,
            **({} if cache is None else {CACHE: cache}),
        )
