"""Errors of torch and fairseq that end as one sentence."""

import pytest
import torch

from convs2s_plugin.compat.messages import user_message


def test_running_out_of_memory_names_the_options():
    with pytest.raises(RuntimeError) as error:
        torch.empty(10**17, dtype=torch.int8)
    said = user_message(error.value)
    assert "not enough memory: 100000000000000000 bytes more" in said and "--max-cells" in said
    cuda = RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 1.00 GiB free)")
    assert "not enough memory: 2.00 GiB more" in user_message(cuda)
    assert user_message(RuntimeError("shapes cannot be multiplied")) is None
