#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One PyTorch rank of compare_pytorch.py: trains one case and prints one JSON line (rank 0).

The case comes as JSON in argv[1]: model, input, classes, batch (of this rank), samples, mode,
steps, warmup, log_every, mnist. RANK and WORLD_SIZE as torch.distributed wants them.
mode: eager; compiled (torch.compile of model and loss); compiled-step (the optimizer as well).
Samples are tensors in memory; each step takes its batch by index, unless one batch is the data.
"""
import gzip
import json
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


def build(case):
    if case["model"] == "mlp":
        widths = case["widths"]
        layers = []
        for i in range(len(widths) - 1):
            layers += [nn.Linear(widths[i], widths[i + 1]), nn.ReLU()]
        return nn.Sequential(*layers[:-1])
    channels, height, width = case["input"]
    if case["model"] == "convnet":
        layers, previous = [], channels
        for out in (32, 64):
            layers += [nn.Conv2d(previous, out, 3, padding=1, bias=False), nn.BatchNorm2d(out),
                       nn.ReLU(), nn.MaxPool2d(2)]
            previous = out
        return nn.Sequential(*layers, nn.Flatten(),
                             nn.Linear((height // 4) * (width // 4) * 64, case["classes"]))
    return resnet18(channels, case["classes"])


class BasicBlock(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Identity() if stride == 1 else nn.Sequential(
            nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


def resnet18(channels, classes):
    """He et al. 2016 with a 3x3 stride-1 stem; torchvision, which Debian lacks, is not needed."""
    layers = [nn.Conv2d(channels, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)]
    width = 64
    for stage in range(4):
        out = 64 << stage
        layers += [BasicBlock(width, out, 1 if stage == 0 else 2), BasicBlock(out, out, 1)]
        width = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def read_idx(path):
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        raw = file.read()
    dims = [int.from_bytes(raw[4 + 4 * i:8 + 4 * i], "big") for i in range(raw[3])]
    return torch.frombuffer(bytearray(raw[4 + 4 * raw[3]:]), dtype=torch.uint8).reshape(dims)


def load_data(case):
    if case.get("mnist"):
        images, targets = (
            read_idx(next(p for p in (f"{case['mnist']}/{name}", f"{case['mnist']}/{name}.gz")
                          if os.path.exists(p)))
            for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"))
        return ((images[:, None].float() / 255 - 0.1307) / 0.3081), targets.long()
    x = torch.randn(case["samples"], *case["input"])
    return x, torch.randint(0, case["classes"], (case["samples"],))


def batches(case, x, y, rank, world):
    """Endless batches of this rank, in a new order every epoch."""
    batch = case["batch"]
    if batch * world == len(x):
        part = slice(rank * batch, (rank + 1) * batch)
        own = x[part].contiguous(), y[part].contiguous()
        while True:
            yield own
    while True:
        order = torch.randperm(len(x))
        for start in range(0, len(x) - batch * world + 1, batch * world):
            index = order[start + rank * batch:start + (rank + 1) * batch]
            yield x[index], y[index]


def make_optimizer(parameters, **arguments):
    """SGD, fused where this PyTorch has that on CPUs (from 2.4 on), else foreach (from 1.13 on)."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    kind = "fused" if version >= (2, 4) else "foreach"
    return torch.optim.SGD(parameters, **arguments, **{kind: True}), kind


def main():
    case = json.loads(sys.argv[1])
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.set_num_threads(1)
    torch.manual_seed(1)
    x, y = load_data(case)
    model = build(case)
    if x.dim() == 4:
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    if world > 1:
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer, optimizer_kind = make_optimizer(
        model.parameters(), lr=case["lr"], momentum=case["momentum"])

    def forward(inputs, targets):
        return F.cross_entropy(model(inputs), targets)

    update = optimizer.step
    if case["mode"] != "eager":
        forward = torch.compile(forward)
    if case["mode"] == "compiled-step":
        update = torch.compile(lambda: optimizer.step())

    source = batches(case, x, y, rank, world)
    losses = []

    def train(steps):
        for step in range(steps):
            optimizer.zero_grad(set_to_none=True)
            loss = forward(*next(source))
            loss.backward()
            update()
            if (step + 1) % case["log_every"] == 0:
                losses.append(loss.item())

    train(case["warmup"])
    if world > 1:
        torch.distributed.barrier()
    start = time.perf_counter()
    train(case["steps"])
    if world > 1:
        torch.distributed.barrier()
    seconds = time.perf_counter() - start
    if rank == 0:
        print(json.dumps({"step_ms": 1e3 * seconds / case["steps"], "torch": torch.__version__,
                          "optimizer": optimizer_kind, "loss": losses[-1] if losses else None}))
    if world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
