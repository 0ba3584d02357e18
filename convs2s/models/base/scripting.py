"""The refusal of TorchScript."""

from typing import NoReturn


class NotScriptable:
    """A base class of modules that ``torch.jit.script`` cannot compile.

    Incremental decoding keeps its state in Python objects, which TorchScript does not know.
    """

    def __prepare_scriptable__(self) -> NoReturn:
        """Refuse; ``torch.jit.script`` calls this method before it compiles a module.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            f"{type(self).__name__} cannot be compiled with torch.jit.script. Use `convs2s "
            "export-onnx` for models of ConvS2S and `convs2s export-transformer` for transformers "
            "in ADL."
        )
