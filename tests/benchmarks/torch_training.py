# SPDX-License-Identifier: Apache-2.0
"""What PyTorch trains with in compare_pytorch.py, on processors and GPUs alike. A case is as
torch_peer.py says."""
import math

import torch
import torch.nn.functional as F


def read_text(case):
    """The first nine tenths of a text as numbers of its characters, or of a file of 16-bit tokens."""
    if "tokens" in case:
        tokens = torch.frombuffer(bytearray(open(case["tokens"], "rb").read()), dtype=torch.uint16)
        return tokens[:len(tokens) * 9 // 10].to(torch.int64)
    with open(case["text"], encoding="utf-8", newline="") as file:
        text = file.read()
    number = {character: i for i, character in enumerate(sorted(set(text)))}
    if len(number) != case["gpt"]["vocabulary"]:
        raise SystemExit(f"{case['text']}: {len(number)} different characters, expected "
                         f"{case['gpt']['vocabulary']}")
    return torch.tensor([number[character] for character in text[:len(text) * 9 // 10]])


def text_batch(case, tokens, generator):
    """Windows at random places of a text, and their next tokens."""
    context = case["gpt"]["context"]
    places = torch.randint(len(tokens) - context, (case["batch"], 1), generator=generator)
    places = places + torch.arange(context)
    return tokens[places], tokens[places + 1]


def loss_of(model, inputs, targets):
    """Cross-entropy of classes or tokens."""
    return F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())


def decay_groups(settings, parameters):
    """Weight decay for matrices and filters alone."""
    matrices, others = [p for p in parameters if p.ndim > 1], [p for p in parameters if p.ndim < 2]
    return [{"params": matrices, "weight_decay": settings["weight_decay"]},
            {"params": others, "weight_decay": 0.0}]


def learning_rate(settings, step):
    """Linear warm-up, then a cosine to min_lr; constant without a schedule."""
    if "decay_steps" not in settings:
        return settings["lr"]
    warmup = settings["warmup_steps"]
    if step < warmup:
        return settings["lr"] * (step + 1) / warmup
    part = min(1.0, (step - warmup) / max(1, settings["decay_steps"] - warmup))
    least = settings["min_lr"]
    return least + 0.5 * (1 + math.cos(math.pi * part)) * (settings["lr"] - least)
