#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One PyTorch rank of compare_pytorch.py: trains one case and prints one JSON line (rank 0).

The case comes as JSON in argv[1]; RANK and WORLD_SIZE as torch.distributed wants them.
  model, and widths (mlp), gpt (sizes, of llama too) or input and classes
  mode       eager; compiled (torch.compile of model and loss); compiled-step (the optimizer as well)
  precision  fp32, or bf16: autocast around model and loss
  threads    of this rank
  batch      of this rank
  mnist, text, tokens (files) or samples (of random data)
  optimizer  kind, lr and what main() reads of it
  steps, warmup, log_every
Samples are tensors in memory; each step takes its batch by index, unless one batch is the data.
"""
import contextlib
import gzip
import json
import os
import sys
import time

import torch
from torch import nn

from torch_models import build
from torch_training import decay_groups, learning_rate, loss_of, read_text, text_batch


def read_idx(path):
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        raw = file.read()
    dims = [int.from_bytes(raw[4 + 4 * i:8 + 4 * i], "big") for i in range(raw[3])]
    return torch.frombuffer(bytearray(raw[4 + 4 * raw[3]:]), dtype=torch.uint8).reshape(dims)


def load_samples(case):
    if case.get("mnist"):
        images, targets = (
            read_idx(next(p for p in (f"{case['mnist']}/{name}", f"{case['mnist']}/{name}.gz")
                          if os.path.exists(p)))
            for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"))
        return ((images[:, None].float() / 255 - 0.1307) / 0.3081), targets.long()
    x = torch.randn(case["samples"], *case["input"])
    return x, torch.randint(0, case["classes"], (case["samples"],))


def batches(case, rank, world):
    """Endless batches of this rank, in a new order every epoch."""
    x, y = load_samples(case)
    if x.dim() == 4:
        x = x.contiguous(memory_format=torch.channels_last)
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


def text_batches(case, rank):
    """Endless batches of windows at random places."""
    tokens = read_text(case)
    generator = torch.Generator().manual_seed(1 + rank)
    while True:
        yield text_batch(case, tokens, generator)


def make_optimizer(settings, parameters):
    """Fused where this PyTorch has that on CPUs (from 2.4 on), else foreach (from 1.13 on)."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    kind = "fused" if version >= (2, 4) else "foreach"
    if settings["kind"] == "sgd":
        return torch.optim.SGD(parameters, lr=settings["lr"], momentum=settings["momentum"],
                               **{kind: True}), kind
    return torch.optim.AdamW(decay_groups(settings, parameters), lr=settings["lr"],
                             betas=settings["betas"], **{kind: True}), kind


class Training:
    def __init__(self, case, rank, world):
        self.case, self.settings = case, case["optimizer"]
        model = build(case)
        if "text" in case or "tokens" in case:
            self.source = text_batches(case, rank)
        else:
            self.source = batches(case, rank, world)
            if len(case["input"]) == 3:
                model = model.to(memory_format=torch.channels_last)
        if world > 1:
            model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        self.model = model
        self.parameters = list(model.parameters())
        self.optimizer, self.optimizer_kind = make_optimizer(self.settings, self.parameters)
        self.forward, self.update = self.loss, self.optimizer.step
        if case["mode"] != "eager":
            self.forward = torch.compile(self.loss)
        if case["mode"] == "compiled-step":
            self.update = torch.compile(lambda: self.optimizer.step())
        self.autocast = contextlib.nullcontext()
        if case["precision"] == "bf16":
            self.autocast = torch.autocast("cpu", dtype=torch.bfloat16)
        self.step, self.last_loss = 0, None

    def loss(self, inputs, targets):
        return loss_of(self.model, inputs, targets)

    def run(self, steps):
        scheduled = "decay_steps" in self.settings
        for i in range(steps):
            if scheduled:
                rate = learning_rate(self.settings, self.step)
                for group in self.optimizer.param_groups:
                    group["lr"] = rate
            self.optimizer.zero_grad(set_to_none=True)
            with self.autocast:
                loss = self.forward(*next(self.source))
            loss.backward()
            if clip := self.settings.get("clip"):
                nn.utils.clip_grad_norm_(self.parameters, clip)
            self.update()
            self.step += 1
            if (i + 1) % self.case["log_every"] == 0:
                self.last_loss = loss.item()


def main():
    case = json.loads(sys.argv[1])
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.set_num_threads(case["threads"])
    torch.manual_seed(1)
    if world > 1:
        torch.distributed.init_process_group("gloo")
    training = Training(case, rank, world)
    training.run(case["warmup"])
    if world > 1:
        torch.distributed.barrier()
    start = time.perf_counter()
    training.run(case["steps"])
    if world > 1:
        torch.distributed.barrier()
    seconds = time.perf_counter() - start
    if rank == 0:
        print(json.dumps({"step_ms": 1e3 * seconds / case["steps"], "torch": torch.__version__,
                          "optimizer": training.optimizer_kind, "loss": training.last_loss}))
    if world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
