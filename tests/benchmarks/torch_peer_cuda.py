#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One PyTorch rank of compare_pytorch.py --device cuda: trains a case, prints a JSON line (rank 0).

The case comes as JSON in argv[1]; RANK and WORLD_SIZE as torch.distributed wants them.
  model, and widths (mlp), gpt (what torch_models.Gpt takes) or input and classes
  mode         eager
               compiled           torch.compile of model and loss
               compiled-overhead  the same with mode="reduce-overhead": CUDA graphs of PyTorch's own
               compiled-tuned     the same with mode="max-autotune-no-cudagraphs"
               graph              eager, the whole step with the optimizer one torch.cuda.CUDAGraph
               compiled-graph     compiled, the whole step one CUDAGraph
  precision    fp32, tf32 (float32_matmul_precision "high"), or bf16: autocast around model and loss
  batch        of this rank; micro_batch: samples at once, halved until they fit the memory
  optimizer    kind, lr and what make_optimizer() and Training.step() read of it
  text         a file of characters; without it inputs are random
  lead, windows, window   steps that are not timed (more, where a mode needs them to get ready), and
                          timed stretches of so many steps
  device       cuda; cpu is for trying this out without a GPU (no graphs)
Batches are made beforehand and lie in the device's memory as they are used, images in channels_last
and the precision of the products: nothing is read, converted or copied from the host while it
trains, which is generous to PyTorch. Times are of CUDA events between windows; the host waits at
the end.
"""
import contextlib
import gc
import json
import math
import os
import statistics
import sys
import time

import torch
from torch import nn

from torch_models import build
from torch_training import decay_groups, learning_rate, loss_of, read_text, text_batch

COMPILE_MODES = {"compiled": None, "compiled-overhead": "reduce-overhead",
                 "compiled-tuned": "max-autotune-no-cudagraphs", "compiled-graph": None}
GRAPHS = ("graph", "compiled-graph")
BATCHES = 4
LEAST_LEAD = 5  # steps before the first timing: they compile, choose algorithms, record graphs
BEFORE_CAPTURE = 5  # steps on a side stream, as PyTorch's notes on CUDA graphs ask for (3 or more)


class Clock:
    """Times between marks in milliseconds, without waiting until they are read."""

    def __init__(self, device):
        self.device, self.marks = device, []

    def mark(self):
        if self.device.type == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())

    def intervals(self):
        pairs = list(zip(self.marks, self.marks[1:]))
        if self.device.type == "cuda":
            self.marks[-1].synchronize()
            return [begin.elapsed_time(end) for begin, end in pairs]
        return [1e3 * (end - begin) for begin, end in pairs]


class ModelWithLoss(nn.Module):
    """One module, so that compilation and DDP take the loss as well."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, inputs, targets):
        return loss_of(self.model, inputs, targets)


def make_batches(case, rank, device):
    """BATCHES batches on the device, or one where a batch is all the data (mlp)."""
    generator = torch.Generator().manual_seed(1 + rank)
    if case["model"] == "mlp":
        x = torch.randn(case["batch"], case["widths"][0], generator=generator)
        y = torch.arange(case["batch"]) % case["widths"][-1]
        return [(x.to(device), y.to(device))]
    if case["model"] == "gpt":
        if case.get("text"):
            tokens = read_text(case)
        else:
            tokens = torch.randint(case["gpt"]["vocabulary"], (2_000_000,), generator=generator)
        made = (text_batch(case, tokens, generator) for _ in range(BATCHES))
        return [(x.to(device), y.to(device)) for x, y in made]
    dtype = torch.bfloat16 if case["precision"] == "bf16" else torch.float32
    batches = []
    for _ in range(BATCHES):
        x = torch.randn(case["batch"], *case["input"], device=device, dtype=dtype)
        y = torch.randint(case["classes"], (case["batch"],), generator=generator)
        batches.append((x.contiguous(memory_format=torch.channels_last), y.to(device)))
    return batches


def make_optimizer(settings, parameters, capturable, device):
    if settings["kind"] == "sgd":
        return torch.optim.SGD(parameters, lr=settings["lr"], momentum=settings["momentum"],
                               fused=True)
    # In a graph the rate is read from device memory, so that a schedule can change it.
    rate = torch.tensor(settings["lr"], device=device) if capturable else settings["lr"]
    return torch.optim.AdamW(decay_groups(settings, parameters), lr=rate, betas=settings["betas"],
                             fused=True, capturable=capturable)


def set_precision(case):
    torch.set_float32_matmul_precision("highest" if case["precision"] == "fp32" else "high")
    torch.backends.cudnn.benchmark = True


class Training:
    def __init__(self, case, rank, world, device, micro_batch):
        self.case, self.settings, self.world, self.device = case, case["optimizer"], world, device
        self.captured = case["mode"] in GRAPHS
        model = build(case).to(device)
        if case.get("input") and len(case["input"]) == 3:
            model = model.to(memory_format=torch.channels_last)
        self.parameters = list(model.parameters())
        self.module = ModelWithLoss(model)
        if case["mode"] != "eager" and case["mode"] != "graph":
            self.module = torch.compile(self.module, mode=COMPILE_MODES[case["mode"]],
                                        dynamic=False)
        if world > 1:
            self.module = nn.parallel.DistributedDataParallel(
                self.module, device_ids=[device.index] if device.type == "cuda" else None,
                gradient_as_bucket_view=True)
        self.optimizer = make_optimizer(self.settings, self.parameters, self.captured, device)
        self.batches = [list(zip(x.split(micro_batch), y.split(micro_batch)))
                        for x, y in make_batches(case, rank, device)]
        self.parts = len(self.batches[0])
        self.done, self.graph, self.static, self.last = 0, None, None, None

    def autocast(self):
        if self.case["precision"] != "bf16":
            return contextlib.nullcontext()
        # A graph may not keep conversions that were made outside of it.
        return torch.autocast(self.device.type, dtype=torch.bfloat16,
                              cache_enabled=not self.captured)

    def set_rate(self):
        if "decay_steps" not in self.settings:
            return
        rate = learning_rate(self.settings, self.done)
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def step(self, parts):
        """One step over the parts of a batch; what a graph records."""
        self.optimizer.zero_grad(set_to_none=True)
        for i, (inputs, targets) in enumerate(parts):
            inside = self.world > 1 and i + 1 < len(parts)
            with self.module.no_sync() if inside else contextlib.nullcontext():
                with self.autocast():
                    loss = self.module(inputs, targets)
                (loss if len(parts) == 1 else loss / len(parts)).backward()
        if clip := self.settings.get("clip"):
            nn.utils.clip_grad_norm_(self.parameters, clip)
        self.optimizer.step()
        # Without its graph: nodes that add up gradients belong to the stream on which they were
        # made, and one that lived on would be of another stream than a capture's.
        self.last = loss.detach()

    def capture(self):
        """As "Whole-network capture" of PyTorch's notes on CUDA semantics has it."""
        self.static = [(x.clone(), y.clone()) for x, y in self.batches[0]]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(BEFORE_CAPTURE):
                self.step(self.static)
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step(self.static)

    def replay(self, parts):
        if len(self.batches) > 1:  # else the data is where it was recorded
            for (x, y), (new_x, new_y) in zip(self.static, parts):
                x.copy_(new_x, non_blocking=True)
                y.copy_(new_y, non_blocking=True)
        self.graph.replay()

    def run(self, steps):
        for _ in range(steps):
            parts = self.batches[self.done % len(self.batches)]
            self.set_rate()
            if self.graph is not None:
                self.replay(parts)
            else:
                if self.case["mode"] == "compiled-overhead":
                    torch.compiler.cudagraph_mark_step_begin()
                self.step(parts)
            self.done += 1


def measure(case, rank, world, device, micro_batch):
    """What main() prints, of this rank."""
    begin = time.perf_counter()
    training = Training(case, rank, world, device, micro_batch)
    if case["mode"] == "compiled-overhead" and training.parts > 1:
        raise SystemExit("compiled-overhead: gradients of several micro-batches would lie in "
                         "memory that the next micro-batch's graph writes")
    if training.captured:
        training.capture()
    training.run(max(case["lead"], LEAST_LEAD))
    if device.type == "cuda":
        torch.cuda.synchronize()
    if world > 1:
        torch.distributed.barrier()
    ready_s = time.perf_counter() - begin
    clock = Clock(device)
    clock.mark()
    for _ in range(case["windows"]):
        training.run(case["window"])
        clock.mark()
    times = [ms / case["window"] for ms in clock.intervals()]
    result = {"window_ms": times, "step_ms": statistics.median(times), "ready_s": ready_s,
              "loss": float(training.last.detach()), "micro_batch": micro_batch,
              "torch": torch.__version__, "held_bytes": None}
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info()
        result |= {"held_bytes": total - free,  # by whoever, with contexts: as the driver counts
                   "allocated_bytes": torch.cuda.max_memory_allocated(),
                   "backend": torch.distributed.get_backend() if world > 1 else None}
    return result


def join(kind, rank, world):
    """This rank's device. NCCL takes one rank a GPU; where they share one, gradients go by gloo."""
    if kind == "cpu":
        if world > 1:
            torch.distributed.init_process_group("gloo")
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise SystemExit("PyTorch finds no GPU")
    count = torch.cuda.device_count()
    device = torch.device("cuda", rank % count)
    torch.cuda.set_device(device)
    if world > 1:
        torch.distributed.init_process_group("nccl" if count >= world else "gloo")
    return device


def main():
    case = json.loads(sys.argv[1])
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if case["mode"] not in ("eager", "graph", *COMPILE_MODES):
        raise SystemExit(f"unknown mode {case['mode']}")
    device = join(case["device"], rank, world)
    torch.manual_seed(1)
    set_precision(case)
    micro_batch = case["micro_batch"]
    while True:
        try:
            result = measure(case, rank, world, device, micro_batch)
            break
        except torch.cuda.OutOfMemoryError:
            if micro_batch % 2 or world > 1:
                raise
        micro_batch //= 2
        gc.collect()
        torch.compiler.reset()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    if not math.isfinite(result["loss"]):
        raise SystemExit(f"the loss is {result['loss']}")
    if rank == 0:
        print(json.dumps(result))
    if world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
