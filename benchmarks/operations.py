"""Where the time of a workload goes, by kinds of operations."""

import re
import time
from collections.abc import Callable

from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

# Kind -> names of torch's operations, without their namespace. The first kind that matches counts.
KINDS = {
    "products": r"_linear_pointwise|_int_mm|bmm|baddbmm|mm|addmm_?|mv|addmv_?|.*convolution.*|"
    r".*attention.*|mkldnn_rnn_layer.*",
    "softmax and search": r".*softmax.*|topk|amax|sort|logsumexp|any|eq|ne|lt|nonzero",
    "copies": r"copy_|cat|index.*|gather|scatter.*|fill_|constant_pad_nd|embedding.*|where|"
    r"masked_fill_?",
}
ELEMENTWISE, INTERPRETER = "element by element", "interpreter"
COLUMNS = (*KINDS, ELEMENTWISE, INTERPRETER)


def kind_of(name: str) -> str:
    """The kind of an event of torch's profiler.

    Ranges that are not operations of torch, such as autograd functions in Python, spend their own
    time in the interpreter.
    """
    namespace, _, operation = name.partition("::")
    if not operation or namespace not in ("aten", "mkldnn", "mkl", "quantized", "onednn"):
        return INTERPRETER
    kinds = (kind for kind, pattern in KINDS.items() if re.fullmatch(pattern, operation))
    return next(kinds, ELEMENTWISE)


def shares(run: Callable[[], object]) -> dict[str, float]:
    """The share of each of COLUMNS in the time of one run on a CPU.

    Time outside operations counts as the interpreter's. The profiler slows small operations down,
    so their share looks larger than it is.
    """
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        start = time.perf_counter()
        run()
        whole = time.perf_counter() - start
    found = dict.fromkeys(COLUMNS, 0.0)
    for event in profiler.key_averages():
        if event.device_type == DeviceType.CPU:
            found[kind_of(event.key)] += event.self_cpu_time_total / 1e6 / whole
    found[INTERPRETER] = max(0.0, 1.0 - sum(found[kind] for kind in COLUMNS[:-1]))
    return found
