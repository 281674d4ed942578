#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes goldens/optimizers/MODEL.safetensors: ten training steps under each of KINDS, in float64.
Needs PyTorch, torchvision, safetensors.

usage: make_optimizer_goldens.py [--out DIR] [--only MODEL]

Tensors are as in the files of make_goldens.py: OPT.loss, OPT.param.NAME, OPT.stat.NAME,
OPT.eval_logits and noise.WHAT, with OPT of KINDS. Where PyTorch has the optimizer it is PyTorch's;
the others are the formulas of their papers, in the plainest way. Biases and normalisation have no
weight decay, and lars and lamb do not scale their rates.
"""
import argparse
import pathlib

import torch
from torch import nn

import make_goldens
from gpt_model import Projection

DECAY = 5e-4
MODELS = ["mlp_mnist", "convnet", "gpt", "gpt_plain"]


class ByFormula(torch.optim.Optimizer):
    """step() calls update(parameter, gradient, state, group, t), t from 1."""

    def __init__(self, groups, **defaults):
        super().__init__(groups, {"t": 0, **defaults})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["t"] += 1
            for p in group["params"]:
                self.update(p, p.grad, self.state[p], group, group["t"])


def average(state, name, value, beta):
    """beta * average + (1 - beta) * value, from 0."""
    state[name] = beta * state.get(name, torch.zeros_like(value)) + (1 - beta) * value
    return state[name]


def adam_direction(g, state, betas, eps, t):
    m, v = average(state, "m", g, betas[0]), average(state, "v", g * g, betas[1])
    return m / (1 - betas[0] ** t) / ((v / (1 - betas[1] ** t)).sqrt() + eps)


class Lion(ByFormula):
    def update(self, p, g, state, group, t):
        m = state.get("m", torch.zeros_like(p))
        u = (0.9 * m + 0.1 * g).sign()
        state["m"] = 0.99 * m + 0.01 * g
        p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * u)


class Lars(ByFormula):
    def update(self, p, g, state, group, t):
        rate = group["lr"]
        if p.ndim > 1:
            rate *= 0.001 * p.norm() / (g.norm() + group["weight_decay"] * p.norm())
        state["m"] = 0.9 * state.get("m", torch.zeros_like(p)) + rate * (
            g + group["weight_decay"] * p)
        p.sub_(state["m"])


class Lamb(ByFormula):
    def update(self, p, g, state, group, t):
        u = adam_direction(g, state, (0.9, 0.999), 1e-6, t) + group["weight_decay"] * p
        ratio = p.norm() / u.norm() if p.ndim > 1 else 1.0
        p.sub_(group["lr"] * ratio * u)


class Muon(ByFormula):
    def update(self, p, g, state, group, t):
        p.mul_(1 - group["lr"] * group["weight_decay"])
        if not group["is_matrix"]:
            p.sub_(group["lr"] * adam_direction(g, state, (0.9, 0.95), 1e-4, t))
            return
        state["m"] = 0.95 * state.get("m", torch.zeros_like(p)) + g
        u = (g + 0.95 * state["m"]).flatten(1)
        x = u / (u.norm() + 1e-7)
        for _ in range(5):
            gram = x @ x.T
            x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
        x = self.scaled(0.2 * max(x.shape) ** 0.5 * x, state, group["outputs"])
        p.sub_(group["lr"] * x.reshape(p.shape))

    def scaled(self, x, state, outputs):
        return x


class NorMuon(Muon):
    def scaled(self, x, state, outputs):
        rows = average(state, "rows", x.square().mean(dim=1 - outputs, keepdim=True), 0.95)
        x = x / (rows.sqrt() + 1e-4)
        return 0.2 * x.numel() ** 0.5 / (x.norm() + 1e-7) * x


def hidden_matrices(model: nn.Module):
    """Weights of linear layers and convolutions but the last, and those shared with an embedding."""
    layers = [m for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv2d, Projection))]
    tables = [m.weight for m in model.modules() if isinstance(m, nn.Embedding)]
    return [m.weight for m in layers[:-1] if not any(m.weight is t for t in tables)]


def optimizer_for(name: str, model: nn.Module, kind: str):
    decayed = [p for p in model.parameters() if p.ndim > 1]
    rest = {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0}
    groups = [{"params": decayed, "weight_decay": DECAY}, rest]
    if kind == "adam":
        return torch.optim.Adam(groups, lr=0.001, eps=1e-4)
    if kind == "rmsprop":  # momentum goes ten times as far; at 0.001 the convnet's loss grows fifteenfold
        return torch.optim.RMSprop(groups, lr=1e-4, eps=1e-2, momentum=0.9)
    if kind == "rmsprop_centered":
        return torch.optim.RMSprop(groups, lr=0.001, eps=1e-2, centered=True)
    if kind == "lion":
        return Lion(groups, lr=1e-4)
    if kind == "lars":
        return Lars(groups, lr=0.1)
    if kind == "lamb":
        return Lamb(groups, lr=0.001)
    matrices = hidden_matrices(model)
    others = [p for p in decayed if not any(p is m for m in matrices)]
    stored_by_inputs = [m.weight for m in model.modules() if isinstance(m, Projection)]
    of_matrices = [{"params": [p for p in matrices if any(p is s for s in stored_by_inputs) == last],
                    "weight_decay": DECAY, "is_matrix": True, "outputs": int(last)}
                   for last in (False, True)]
    of_others = [{"params": others, "weight_decay": DECAY}, rest]
    return (Muon if kind == "muon" else NorMuon)(
        [group for group in of_matrices if group["params"]] + of_others,
        lr=0.001, is_matrix=False, outputs=0)


KINDS = ("adam", "rmsprop", "rmsprop_centered", "lion", "lars", "lamb", "muon", "normuon")


def kinds_of(name: str):
    """The biases of gpt's keys have no gradient: what lion takes the sign of is rounding."""
    return tuple(kind for kind in KINDS if (name, kind) != ("gpt", "lion"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).parent / "goldens" / "optimizers")
    parser.add_argument("--only", choices=MODELS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in MODELS:
        if arguments.only in (None, name):
            tensors = make_goldens.model_golden(name, kinds_of(name), optimizer_for)
            wanted = {key: tensor for key, tensor in tensors.items()
                      if key not in ("logits", "noise.logits") and not key.startswith("grad.") and
                      key != "noise.grad"}
            make_goldens.write(arguments.out / f"{name}.safetensors", wanted)


if __name__ == "__main__":
    main()
