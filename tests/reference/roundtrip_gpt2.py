#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights of GPT-2 from Hugging Face to Lockstep and back. Needs PyTorch, transformers, safetensors.

usage: roundtrip_gpt2.py BUILD
BUILD is a build folder, with lockstep and tests/agreement/round_trip.

A GPT2LMHeadModel of small, random sizes is written by save_pretrained(), as GPT2Model's file (names
without "transformer.") and as older files are (with mask buffers and the tied head). Lockstep's
logits of two samples must agree for each, and what it writes be the same bits. `lockstep train
--init` at a rate of zero and `lockstep evaluate` must find the same loss on a text. Weights that
Lockstep writes must load by from_pretrained() and give the same logits. Each difference may be 4
times that of PyTorch's own float32 from its float64. Exit code 1 where anything differs.
"""
import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, logging

from formula import labels

VOCABULARY = 65
TEXT = "text.txt"


def run(*command):
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True,
                            timeout=600, env=environment)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {result.returncode}")
    return result.stdout


def random_model(draw):
    heads = draw.randint(1, 4)
    config = GPT2Config(vocab_size=VOCABULARY, n_positions=draw.randint(16, 48),
                        n_embd=heads * draw.choice([8, 12, 16]), n_layer=draw.randint(1, 3),
                        n_head=heads, activation_function="gelu_new", bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    with torch.no_grad():  # biases are zero by default, and weights too small to tell layers apart
        for name, p in model.named_parameters():
            p.copy_(torch.randn_like(p) * 0.2 + (1.0 if ".ln_" in name and p.ndim == 1 else 0.0))
    return model


def files_of(model, folder):
    """The ways in which Hugging Face's versions write `model`: {what: file}."""
    model.save_pretrained(folder / "whole")
    model.transformer.save_pretrained(folder / "inner")
    files = {"GPT2LMHeadModel": folder / "whole" / "model.safetensors",
             "GPT2Model": folder / "inner" / "model.safetensors"}
    for what, prefix in (("old names", ""), ("old names, prefixed", "transformer.")):
        old = {prefix + name: t.contiguous() for name, t in model.transformer.state_dict().items()}
        context = model.config.n_positions
        for layer in range(model.config.n_layer):
            mask = torch.ones(1, 1, context, context, dtype=torch.bool).tril()
            old[f"{prefix}h.{layer}.attn.bias"] = mask
            old[f"{prefix}h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
        old["lm_head.weight"] = old[f"{prefix}wte.weight"].clone()
        files[what] = folder / f"old{prefix}.safetensors"
        save_file(old, files[what])
    return files


def samples(config, name="x.0"):
    return labels(name, 2 * config.n_positions, VOCABULARY).reshape(2, config.n_positions)


def logits_of(model, tokens, dtype):
    with torch.no_grad():
        return model.to(dtype).eval()(tokens).logits.double()


def agrees(what, off, bound):
    good = bool(np.isfinite(off) and off <= bound)
    print(f"{what}: off by {off:.1e}, at most {bound:.1e}{'' if good else '  DIFFERS'}", flush=True)
    return good


def same_logits(what, ours, model):
    exact, rounded = (logits_of(model, samples(model.config), dtype)
                      for dtype in (torch.float64, torch.float32))
    scale = exact.abs().max().item()
    ours = torch.tensor([float(number) for number in ours.split()], dtype=torch.float64)
    return agrees(what, (ours.reshape(exact.shape) - exact).abs().max().item() / scale,
                  4 * (rounded - exact).abs().max().item() / scale)


def same_bits(what, source, target):
    before, after = load_file(source), load_file(target)
    same = all(torch.equal(after[key], value) for key, value in before.items())
    print(f"{what}, written back: {len(after)} tensors, {'the same' if same else 'OTHER'} bits")
    return same and after.keys() == before.keys()


def round_trip(build, config, source, target):
    sizes = f"{config.n_layer},{config.n_head},{config.n_embd},{VOCABULARY}"
    return run(build / "tests/agreement/round_trip", "gpt", sizes, config.n_positions, source, target)


def text_loss(model, tokens, dtype):
    """Mean over all tokens but the first, in windows one after the other."""
    context, total = model.config.n_positions, 0.0
    for first in range(0, len(tokens) - 1, context):
        window = tokens[first:first + context + 1]
        logits = logits_of(model, window[None, :-1], dtype)[0]
        total += F.cross_entropy(logits, window[1:], reduction="sum").item()
    return total / (len(tokens) - 1)


def same_loss(build, model, source, folder):
    """By lockstep train and lockstep evaluate, on the last tenth of a random text."""
    numbers = labels("text", 10000, VOCABULARY)
    (folder / TEXT).write_text("".join(chr(48 + number) for number in numbers))
    config = model.config
    run(build / "lockstep", "train", "--model", "gpt", "--init", source, "--data",
        f"text:{folder / TEXT}", "--layers", config.n_layer, "--heads", config.n_head, "--width",
        config.n_embd, "--context", config.n_positions, "--global-batch", 4, "--steps", 1, "--lr", 0,
        "--eval-every", 0, "--ranks", 1, "--out", folder / "run")
    printed = run(build / "lockstep", "evaluate", "--from", folder / "run")
    exact, rounded = (text_loss(model, numbers[-1000:], dtype)
                      for dtype in (torch.float64, torch.float32))
    # Printed to 1e-6. A mean loss may be right by chance: logits say how far off it may be.
    tokens = samples(config)
    logits_off = (logits_of(model, tokens, torch.float32) - logits_of(model, tokens, torch.float64))
    bound = 1e-6 + 4 * logits_off.abs().max().item()
    print(f"loss of lockstep evaluate {printed.split()[1]}, PyTorch {exact:.6f} ({rounded:.6f})")
    return agrees("loss on a text", abs(float(printed.split()[1]) - exact), bound) and same_bits(
        "a step at rate 0", source, folder / "run" / "model.safetensors")


def back_to_pytorch(build, config, folder):
    """Weights of formulas, written by Lockstep and read by Hugging Face."""
    config.save_pretrained(folder)
    ours = round_trip(build, config, "-", folder / "model.safetensors")
    fresh, report = GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
    problems = {what: sorted(names) for what, names in report.items() if names}
    if set(problems.pop("missing_keys", [])) - {"lm_head.weight"} or problems:
        print(f"from_pretrained: {report}  DIFFERS")
        return False
    left = fresh.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    strict = left.missing_keys in ([], ["lm_head.weight"]) and not left.unexpected_keys
    print(f"load_state_dict: {left}{'' if strict else '  DIFFERS'}")
    return same_logits("Lockstep to PyTorch", ours, fresh) and strict


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    model = random_model(random.Random(arguments.seed))
    c = model.config
    print(f"{c.n_layer} layers, {c.n_head} heads, width {c.n_embd}, context {c.n_positions}")
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        files = files_of(model, folder)
        whole, back = files["GPT2LMHeadModel"], folder / "back.safetensors"
        for what, file in files.items():
            ours = round_trip(arguments.build, c, file, back)
            results.append(same_logits(f"{what} to Lockstep", ours, model))
            results.append(same_bits(what, whole, back))
        results.append(same_loss(arguments.build, model, whole, folder))
        (folder / "ours").mkdir()
        results.append(back_to_pytorch(arguments.build, c, folder / "ours"))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
