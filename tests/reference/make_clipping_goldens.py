#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes goldens/clipping/MODEL.safetensors: ten steps of SGD with clipped gradients, in float64.
Needs PyTorch, torchvision, safetensors.

usage: make_clipping_goldens.py [--out DIR] [--only MODEL]

Tensors are as in the files of make_optimizer_goldens.py, with OPT of KINDS: `value` is PyTorch's
clip_grad_value_(); `agc` is equation 3 of Brock et al. 2021, in the plainest way. The script prints
what share of the gradients' elements was clipped.
"""
import argparse
import pathlib

import torch
from torch import nn

import make_goldens
from gpt_model import Projection

MODELS = ["mlp_mnist", "convnet", "gpt"]
KINDS = ("value", "agc")
# A third to two thirds of the elements are clipped.
VALUE = {"mlp_mnist": 0.02, "convnet": 0.1, "gpt": 0.01}
FACTOR = {"mlp_mnist": 0.15, "convnet": 0.02, "gpt": 0.03}
# Rates at which ten steps go so far that a step that was not clipped would show.
RATE = {"mlp_mnist": 0.1, "convnet": 0.003, "gpt": 0.1}
EPS = 1e-3


def last_layer(model: nn.Module):
    return [m for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv2d, Projection))][-1]


def clip_unit(weight, gradient, factor):
    """Of one unit, a vector each."""
    limit = factor * max(weight.norm().item(), EPS)
    norm = gradient.norm().item()
    if norm > limit:
        gradient.mul_(limit / norm)


def clip_units(model: nn.Module, factor):
    head = list(last_layer(model).parameters())
    for p in model.parameters():
        if any(p is of_head for of_head in head):
            continue
        if p.ndim < 2:
            clip_unit(p, p.grad, factor)
        else:
            # GPT-2's projections are [in, out].
            weights, gradients = (p.T, p.grad.T) if is_projection(model, p) else (p, p.grad)
            for weight, gradient in zip(weights, gradients):
                clip_unit(weight, gradient, factor)


def is_projection(model: nn.Module, p):
    return any(isinstance(m, Projection) and m.weight is p for m in model.modules())


class Clipped(torch.optim.SGD):
    """Calls clip() before each step, and counts elements that it changes."""

    def __init__(self, groups, clip, **settings):
        super().__init__(groups, **settings)
        self.clip, self.clipped, self.elements = clip, 0, 0

    @torch.no_grad()
    def step(self, closure=None):
        gradients = [p.grad for group in self.param_groups for p in group["params"]]
        before = [g.clone() for g in gradients]
        self.clip()
        self.clipped += sum((g != b).sum().item() for g, b in zip(gradients, before))
        self.elements += sum(g.numel() for g in gradients)
        super().step(closure)
        if self.elements == make_goldens.STEPS * sum(g.numel() for g in gradients):
            print(f"clipped {self.clipped / self.elements:.2f}", flush=True)


def optimizer_for(name: str, model: nn.Module, kind: str):
    groups = [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 5e-4},
              {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0}]
    clip = {"value": lambda: nn.utils.clip_grad_value_(model.parameters(), VALUE[name]),
            "agc": lambda: clip_units(model, FACTOR[name])}[kind]
    return Clipped(groups, clip, lr=RATE[name], momentum=0.9)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).parent / "goldens" / "clipping")
    parser.add_argument("--only", choices=MODELS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in MODELS:
        if arguments.only in (None, name):
            tensors = make_goldens.model_golden(name, KINDS, optimizer_for)
            wanted = {key: tensor for key, tensor in tensors.items()
                      if key not in ("logits", "noise.logits") and not key.startswith("grad.") and
                      key != "noise.grad"}
            make_goldens.write(arguments.out / f"{name}.safetensors", wanted)


if __name__ == "__main__":
    main()
