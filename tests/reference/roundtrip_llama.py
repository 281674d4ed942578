#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights of Llama from Hugging Face to Lockstep and back. Needs PyTorch, transformers, safetensors.

usage: roundtrip_llama.py BUILD
BUILD is a build folder, with lockstep and tests/agreement/round_trip.

LlamaForCausalLM of small, random sizes, with all heads of keys and values and with fewer, tied and untied, with and
without Llama 3's scaling of frequencies, is written by save_pretrained(). Lockstep's logits of two samples must agree,
and what it writes be the same bits. Weights that Lockstep writes must load by from_pretrained() and give the same
logits. `lockstep train --init FOLDER` must take sizes and weights from the folder. The model of llama_model.py, with
which Lockstep's gradients and training steps are compared (make_goldens.py), must have transformers' logits and
gradients. Each difference may be 4 times that of PyTorch's own float32 from its float64. Exit code 1 where anything
differs.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM, logging

from formula import labels
from llama_model import Llama

VOCABULARY, CONTEXT = 65, 48
SCALED = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}


def run(*command):
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, timeout=600,
                            env=environment)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {result.returncode}")
    return result.stdout


def random_model(kv_heads, tied, scaled):
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=48, intermediate_size=80, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=kv_heads, max_position_embeddings=CONTEXT,
                         rms_norm_eps=1e-5, tie_word_embeddings=tied,
                         rope_parameters={"rope_theta": 10000.0, **(SCALED if scaled else {"rope_type": "default"})})
    model = LlamaForCausalLM(config)
    with torch.no_grad():  # as large as a trained model's
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * 0.2 + (1.0 if p.ndim == 1 else 0.0))
    return model


def samples():
    return labels("x.0", 2 * CONTEXT, VOCABULARY).reshape(2, CONTEXT)


def logits_of(model, dtype):
    with torch.no_grad():
        result = model.to(dtype).eval()(samples())
    return (result if torch.is_tensor(result) else result.logits).double()


def agrees(what, off, bound):
    good = off <= bound
    print(f"{what}: off by {off:.1e}, at most {bound:.1e}{'' if good else '  DIFFERS'}", flush=True)
    return good


def same_logits(what, ours, model):
    exact, rounded = (logits_of(model, dtype) for dtype in (torch.float64, torch.float32))
    scale = exact.abs().max().item()
    return agrees(what, (ours.reshape(exact.shape) - exact).abs().max().item() / scale,
                  4 * (rounded - exact).abs().max().item() / scale)


def sizes_of(config, scaled):
    return ",".join(str(size) for size in (
        config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads, config.hidden_size,
        config.intermediate_size, VOCABULARY, int(config.tie_word_embeddings), 8 if scaled else 1))


def numbers(text):
    return torch.tensor([float(number) for number in text.split()], dtype=torch.float64)


def gradients(model, dtype):
    model = model.to(dtype).train()
    model.zero_grad()
    result = model(samples())
    logits = result if torch.is_tensor(result) else result.logits
    F.cross_entropy(logits.flatten(0, 1), labels("labels.0", 2 * CONTEXT, VOCABULARY)).backward()
    return {name: p.grad.double() for name, p in model.named_parameters()}


def reference_is_the_same(model):
    """llama_model.py against transformers."""
    c = model.config
    ours = Llama(c.num_hidden_layers, c.num_attention_heads, c.num_key_value_heads, c.hidden_size, c.intermediate_size,
                 VOCABULARY, c.tie_word_embeddings)
    ours.load_state_dict({name: t for name, t in model.float().state_dict().items() if name != "lm_head.weight"
                          or not c.tie_word_embeddings}, strict=not c.tie_word_embeddings)
    good = same_logits("llama_model.py", logits_of(ours, torch.float64), model)
    exact, rounded, mine = (gradients(*which) for which in
                            ((model, torch.float64), (model, torch.float32), (ours, torch.float64)))
    def off(other):
        return max(((other[name] - g).norm() / g.norm()).item() for name, g in exact.items())
    return agrees("its gradients", off(mine), 4 * off(rounded)) and good


def same_bits(what, source, target):
    before, after = load_file(source), load_file(target)
    same = before.keys() == after.keys() and all(torch.equal(after[key], value) for key, value in before.items())
    print(f"{what}, written back: {len(after)} tensors, {'the same' if same else 'OTHER'} bits")
    return same


def check(build, kv_heads, tied, scaled, folder):
    what = f"{kv_heads} of 4 heads, {'tied' if tied else 'untied'}{', scaled' if scaled else ''}"
    model = random_model(kv_heads, tied, scaled)
    model.save_pretrained(folder / "hf")
    source, sizes = folder / "hf" / "model.safetensors", sizes_of(model.config, scaled)
    program = build / "tests/agreement/round_trip"
    results = [same_logits(what, numbers(run(program, "llama", sizes, CONTEXT, source, folder / "back.safetensors")),
                           model), same_bits(what, source, folder / "back.safetensors")]
    if not scaled:
        results.append(reference_is_the_same(model))
    # Sizes and weights by the folder alone.
    (folder / "text.txt").write_text("".join(chr(48 + n) for n in labels("text", 10000, VOCABULARY)))
    run(build / "lockstep", "train", "--init", folder / "hf", "--data", f"text:{folder / 'text.txt'}",
        "--global-batch", 4, "--steps", 1, "--lr", 0, "--eval-every", 0, "--ranks", 1, "--out", folder / "run")
    results.append(same_bits("a step at rate 0", source, folder / "run" / "model.safetensors"))
    # Weights of formulas, by Lockstep.
    (folder / "ours").mkdir()
    model.config.save_pretrained(folder / "ours")
    ours = numbers(run(program, "llama", sizes, CONTEXT, "-", folder / "ours" / "model.safetensors"))
    fresh, report = LlamaForCausalLM.from_pretrained(folder / "ours", output_loading_info=True)
    problems = {name: sorted(names) for name, names in report.items() if names}
    if set(problems.pop("missing_keys", [])) - ({"lm_head.weight"} if tied else set()) or problems:
        print(f"from_pretrained: {json.dumps(problems)}  DIFFERS")
        return False
    return all([*results, same_logits("Lockstep to transformers", ours, fresh)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("build", type=pathlib.Path)
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results = []
    for kv_heads, tied, scaled in ((4, True, False), (2, False, False), (1, True, True)):
        with tempfile.TemporaryDirectory() as name:
            results.append(check(arguments.build, kv_heads, tied, scaled, pathlib.Path(name)))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
