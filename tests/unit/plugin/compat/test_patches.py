"""What the package changes in fairseq, and when: the tiers, and CONVS2S_COMPAT."""

import json
import os
import subprocess
from types import ModuleType

import pytest

from convs2s.common.errors import UserError
from convs2s_plugin.compat.patches import VARIABLE, Tier, _patches, _replace, mode, patched
from tests import ROOT
from tests.support.commands import server

PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
NEEDED = {
    "fairseq.checkpoint_utils.load_checkpoint_to_cpu",
    "fairseq.checkpoint_utils.overwrite_args_by_name",
    "fairseq.criterions.label_smoothed_cross_entropy_with_alignment."
    "LabelSmoothedCrossEntropyCriterionWithAlignment.compute_alignment_loss",
    "fairseq.criterions.label_smoothed_cross_entropy_with_alignment."
    "LabelSmoothedCrossEntropyCriterionWithAlignment.forward",
    "fairseq.data.data_utils.batch_by_size",
    "fairseq.distributed.utils._broadcast_object_slow",
    "fairseq.models.ema.ema.EMA._step_internal",
    "fairseq.options.parse_args_and_arch",
    "fairseq.tasks.fairseq_task.FairseqTask.get_batch_iterator",
    "fairseq_cli.generate.main",
    "fairseq_cli.train.add_defaults",
    "sys.excepthook",
}
IN_SOME_VERSIONS = {
    "fairseq.modules.transformer_layer.TransformerEncoderLayerBase._load_from_state_dict",
    "fairseq.tasks.fairseq_task.FairseqTask.get_batch_iterator",
}

# Runs {use} after the import, and prints the names in fairseq, and some in torch and Python, whose
# values have changed since the beginning; then what the registry says.
CHANGES = """
import json, sys
from types import ModuleType
import torch
import fairseq_cli.generate, fairseq_cli.interactive, fairseq_cli.train, fairseq_cli.validate

def attributes():
    found = {{"sys.excepthook": sys.excepthook}}
    found["torch.load"] = set(torch.serialization.get_safe_globals())
    for module in [m for n, m in sys.modules.items() if n.split(".")[0].startswith("fairseq")]:
        for name, value in vars(module).items():
            if isinstance(value, ModuleType) or name == "__warningregistry__":
                continue
            found[f"{{module.__name__}}.{{name}}"] = value
            if isinstance(value, type) and value.__module__ == module.__name__:
                for part, inner in vars(value).items():
                    found[f"{{module.__name__}}.{{name}}.{{part}}"] = inner
    return found

modules = set(sys.modules)
before = attributes()
import convs2s_plugin
{use}
after = {{n: v for n, v in attributes().items() if n.rpartition(".")[0] in modules or n in before}}
same = lambda old, new: old is new or isinstance(old, set) and old == new
missing = object()
changed = [n for n in {{**before, **after}}
           if not same(before.get(n, missing), after.get(n, missing))]
from convs2s_plugin.compat import patches
declared, installed = {{}}, {{}}
for patch in patches._patches:
    for owner in patch.owners():
        is_module = isinstance(owner, ModuleType)
        name = owner.__name__ if is_module else f"{{owner.__module__}}.{{owner.__qualname__}}"
        declared[f"{{name}}.{{patch.name}}"] = patch.tier.value
        if hasattr(getattr(owner, patch.name), patches.MARK):
            installed[f"{{name}}.{{patch.name}}"] = patch.tier.value
print(json.dumps([sorted(changed), installed, declared]))
from fairseq.models import ARCH_MODEL_REGISTRY
assert "convs2s" in ARCH_MODEL_REGISTRY
"""
TRAIN = """
from fairseq import options
parser = options.get_training_parser()
options.parse_args_and_arch(parser, ["data", "--optimizer", "adam", "--max-tokens", "9", {}])
"""
FOREIGN = TRAIN.format("'--arch', 'transformer_iwslt_de_en'")
TASK = """
from convs2s_plugin.tasks.translation import ConvS2STranslationConfig, ConvS2STranslationTask
try:
    ConvS2STranslationTask.setup_task(ConvS2STranslationConfig(data="no/such/folder"))
except Exception as error:
    assert "no/such/folder" in str(error)
"""
MODEL = """
from tests.support.adapters import tiny_adl
tiny_adl()
"""


def changes(value, use=""):
    """The changed names, and the installed and the declared replacements with their tiers.

    They are those of a fork of the server, which has imported fairseq but not the plugin.

    Args:
        value: of CONVS2S_COMPAT; None to leave it unset.
        use: code after the import.
    """
    environment = {k: v for k, v in os.environ.items() if k != VARIABLE}
    if value is not None:
        environment[VARIABLE] = value
    done = subprocess.run(
        [server().programs / "python", "-c", CHANGES.format(use=use)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def of_tiers(declared, *tiers):
    return {name: tier for name, tier in declared.items() if Tier(tier) in tiers}


def evaluates(name):
    return name.endswith(".eval")


def test_zero_leaves_fairseq_as_it_is():
    for use in ("", TASK, MODEL):
        changed, installed, declared = changes("0", use)
        assert changed == [] and installed == {} and len(declared) > len(NEEDED)


@pytest.mark.parametrize("value", [None, "1"])
@pytest.mark.parametrize("use", ["", FOREIGN], ids=["import", "another model"])
def test_the_import_makes_the_needed_changes_only(value, use):
    """The functions that other models use are fairseq's own."""
    changed, installed, declared = changes(value, use)
    assert installed == of_tiers(declared, Tier.NEEDED)
    assert set(installed) | IN_SOME_VERSIONS == NEEDED | IN_SOME_VERSIONS
    assert set(changed) == {*installed, "torch.load"}


USES = {
    "environment": ("all", ""),
    "model": (None, MODEL),
    "option arch": (None, TRAIN.format("'--arch', 'convs2s'")),
    "option task": (None, TRAIN.format("'--arch', 'lstm', '--task', 'convs2s_translation'")),
    "option criterion": (
        None,
        TRAIN.format("'--arch', 'lstm', '--criterion', 'convs2s_cross_entropy'"),
    ),
    "command": (
        None,
        "from convs2s.cli import main\nassert not main('flops --arch lstm --length 2'.split())",
    ),
}


@pytest.mark.parametrize("name", USES)
def test_all_other_changes_are_made_when_the_package_is_used(name):
    changed, installed, declared = changes(*USES[name])
    assert installed == of_tiers(declared, Tier.NEEDED, Tier.EXTRA)
    assert {n for n in changed if not evaluates(n)} == {*installed, "torch.load"}
    assert "fairseq.optim.adam.eval" in changed


def test_the_task_replaces_unknown_words_itself():
    _, installed, declared = changes(None, TASK)
    assert installed == declared
    assert of_tiers(declared, Tier.TASK) == {"fairseq.utils.load_align_dict": "task"}


def test_the_page_names_every_change_and_its_tier():
    changed, _, declared = changes("all", TASK)
    assert {*declared} <= {*changed} and "`eval`" in PAGE
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    for name, tier in declared.items():
        (row,) = [row for row in rows if f"`{name.removeprefix('fairseq.')}`" in row]
        assert row.split(" | ")[1] == tier, name


@pytest.mark.parametrize("value", [None, "0", "1", "all", "no"])
def test_values(value, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    if value == "no":
        with pytest.raises(UserError, match="CONVS2S_COMPAT is 'no', but must be 0"):
            mode()
    else:
        assert mode() == (value or "1")


class Owner:
    def method(self, x):
        """Of the original."""
        return x

    @staticmethod
    def static(x):
        return x


def test_a_replacement_gets_the_original_once(monkeypatch):
    monkeypatch.setattr("convs2s_plugin.compat.patches._patches", declared := [])
    module = ModuleType("module")
    module.function = Owner.static
    for owner, name in ((Owner, "method"), (Owner, "static"), (module, "function")):
        monkeypatch.setattr(owner, name, vars(owner)[name])

        @patched(owner, name, Tier.EXTRA)
        def replacement(original, *arguments):
            return original(*arguments) + 1

    patched(Owner, "missing", Tier.EXTRA, when=False)(None)
    assert len(declared) == 3 and not any(patch in _patches for patch in declared)
    for patch in 2 * declared:
        _replace(patch.owner, patch)
    assert Owner().method(1) == Owner.static(1) == Owner().static(1) == module.function(1) == 2
    assert Owner.method.__doc__ == "Of the original." and Owner.method.__wrapped__(None, 1) == 1
