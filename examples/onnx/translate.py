"""Translate lines of tokens with ONNX Runtime and NumPy alone: translate.py FOLDER < tokens."""

import sys
from pathlib import Path

import numpy as np
import onnxruntime

BEAM, LENPEN, MAX_LENGTH, UNK = 5, 1.0, 200, 3
folder = Path(sys.argv[1])
encoder = onnxruntime.InferenceSession(folder / "encoder.onnx")
step = onnxruntime.InferenceSession(folder / "decoder_step.onnx")
facts = encoder.get_modelmeta().custom_metadata_map
EOS, PAD = int(facts["eos"]), int(facts["pad"])


def read_dictionary(name):
    """The tokens of a dictionary, after the four special ones."""
    lines = (folder / name).read_text(encoding="utf-8").splitlines()
    return ["<s>", "<pad>", "</s>", "<unk>", *(line.rsplit(" ", 1)[0] for line in lines)]


def run(session, **inputs):
    """The outputs of a session by name; those of a step have the names of its inputs."""
    names = [each.name.removeprefix("new_") for each in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs)))


def translate(tokens):
    """The token numbers of the best translation that a beam search finds."""
    found = run(encoder, src_tokens=np.array([tokens]))
    source = {name: found.pop(name) for name in list(found) if name.startswith("source")}
    found = {name: np.repeat(value, BEAM, axis=0) for name, value in found.items()}
    prefix, scores = np.full((BEAM, 1), EOS), np.where(np.arange(BEAM) == 0, 0.0, -np.inf)
    finished, longest = [], min(MAX_LENGTH, int(facts["max_target_positions"]) - 1)
    for length in range(1, longest + 2):
        logits = found["logits"] - found["logits"].max(axis=1, keepdims=True)
        totals = scores[:, None] + logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        totals[:, [PAD, EOS] if length == 1 else [PAD]] = -np.inf
        if length > longest:
            totals[:, np.arange(totals.shape[1]) != EOS] = -np.inf
        rows, tokens = np.divmod(np.argsort(-totals, axis=None)[: 2 * BEAM], totals.shape[1])
        for row in rows[:BEAM][tokens[:BEAM] == EOS]:
            finished.append((totals[row, EOS] / length**LENPEN, prefix[row, 1:]))
        if len(finished) >= BEAM or length > longest:
            return max(finished[:BEAM], key=lambda each: each[0])[1]
        rows, tokens = (each[tokens != EOS][:BEAM] for each in (rows, tokens))
        scores, prefix = totals[rows, tokens], np.column_stack([prefix[rows], tokens])
        state = {name: found[name][rows] for name in found if name.startswith("state")}
        found = run(step, prefix=prefix, **source, **state)


known = {token: number for number, token in enumerate(read_dictionary(facts["source_dictionary"]))}
target_tokens = read_dictionary(facts["target_dictionary"])
for number, line in enumerate(sys.stdin, 1):
    source = [known.get(token, UNK) for token in line.split()]
    if len(source) >= (limit := int(facts["max_source_positions"])):
        sys.exit(f"Line {number} has {len(source)} tokens; the model takes at most {limit - 1}.")
    translation = translate([*source, EOS]) if source else []
    print(" ".join(target_tokens[token] for token in translation), flush=True)
