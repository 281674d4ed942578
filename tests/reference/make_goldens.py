#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden files that tests compare Lockstep with. Needs PyTorch, torchvision, safetensors.

usage: make_goldens.py [--out DIR] [--only operators|mlp_iris|mlp_mnist|convnet|resnet18|resnet18_cifar]

operators.safetensors: each operator in float64 on small inputs that are exact in fp32. Tensors are
  named <operator>.<case>.<tensor>; layouts are PyTorch's (NCHW, OIHW). grad_* are the gradients of
  sum(y * grad_y), or of the mean loss.
MODEL.safetensors: ten training steps in float64. Weights, samples and labels come from formulas
  (formula.h) and are not stored. Every tensor is [2, ...]: the values, and beside each the largest
  distance from it over several fp32 runs of PyTorch (other sample orders, memory formats). That is
  what rounding alone does to the value, and what tolerances are derived from.
  logits, train_loss           of the first step, training mode
  grad.NAME                    first step: L2 norm, then 8 elements (probe_position in formula.h)
  OPT.loss                     the loss of each of the ten steps
  OPT.param.NAME, OPT.stat.NAME  after ten steps, probed as grad.NAME
  OPT.eval_logits              after ten steps, evaluation mode, on the first step's samples
  with OPT = sgd (momentum 0.9, weight decay 5e-4) and adamw (weight decay 5e-4, eps 1e-4: with the
  usual 1e-8 a gradient that is rounding noise would move its weight by a whole step). Biases and
  normalisation have no weight decay.
"""
import argparse
import functools
import pathlib
from collections import OrderedDict

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file
from torch import nn

STEPS = 10
PROBES = 8
FP32_RUNS = 4
# A deep network has millions of ReLUs, of which a few lie within rounding of zero: whether one of
# them opens is chance, and moves all that follows by more than smooth rounding does. Four runs are
# too few to see it; with initial weights that are off by up to eight units in the last place they
# see it for certain. (Ten steps then agree as well as the exact results of such weights do.)
RESNET_PERTURBATION = 8 * 2.0**-24
# name: (builder, sample shape, classes, batch, lr of sgd, lr of adamw); the C++ test has the same
# table. Deep networks get small rates: with large ones rounding grows five-hundredfold a step.
MODELS = {
    "mlp_iris": (lambda: mlp(4, 10, 3), (4,), 3, 16, 0.01, 0.001),
    "mlp_mnist": (lambda: mlp(784, 32, 10), (784,), 10, 16, 0.01, 0.001),
    "convnet": (lambda: convnet(), (1, 28, 28), 10, 16, 0.001, 0.001),
    "resnet18": (lambda: resnet18(cifar_stem=False), (3, 64, 64), 10, 8, 0.0002, 0.00001),
    "resnet18_cifar": (lambda: resnet18(cifar_stem=True), (3, 16, 16), 10, 8, 0.0002, 0.00001),
}


# The formulas of formula.h.

def random_key(name: str) -> int:
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def philox_words(key: int, count: int) -> np.ndarray:
    """The first `count` words of philox4x32-10 with counters 0, 1, 2, ..."""
    mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    c = [blocks & mask, blocks >> shift, np.zeros_like(blocks), np.zeros_like(blocks)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> shift) ^ c[1] ^ np.uint64(k0), p1 & mask,
             (p0 >> shift) ^ c[3] ^ np.uint64(k1), p0 & mask]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, axis=1).reshape(-1)[:count].astype(np.uint32)


def uniform(name: str, count: int) -> np.ndarray:
    return (philox_words(random_key(name), count) >> 8).astype(np.float32) * np.float32(2.0**-24)


def values(name: str, shape, bound: float, centre: float = 0.0) -> torch.Tensor:
    u = uniform(name, int(np.prod(shape)))
    scaled = np.float32(bound) * (np.float32(2) * u - np.float32(1))
    return torch.from_numpy((np.float32(centre) + scaled).reshape(shape))


def labels(name: str, count: int, classes: int) -> torch.Tensor:
    return torch.from_numpy((classes * uniform(name, count).astype(np.float64)).astype(np.int64))


@functools.lru_cache(maxsize=None)
def initial_parameter(name: str, shape) -> torch.Tensor:
    if len(shape) >= 2:
        return values(name, shape, np.sqrt(6.0 / np.prod(shape[1:])))
    return values(name, shape, 0.5, 1.0) if name.endswith("weight") else values(name, shape, 0.1)


def probe(flat: np.ndarray) -> np.ndarray:
    positions = [(k * 2654435761 + 12345) % flat.size for k in range(PROBES)]
    return np.concatenate([[np.linalg.norm(flat)], flat[positions]])


def probe_distance(rounded: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Of the norms; of the elements, the distance that one in a thousand of them exceeds: a ReLU
    that opens in one run alone moves few elements, and which ones is chance."""
    elements = np.quantile(np.abs(rounded - exact), 0.999)
    norm = abs(np.linalg.norm(rounded) - np.linalg.norm(exact))
    return np.concatenate([[norm], np.full(PROBES, elements)])


def is_probed(key: str) -> bool:
    return key.startswith("grad.") or ".param." in key or ".stat." in key


def flattened(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().contiguous().reshape(-1).to(torch.float64).numpy().copy()


# Operators.

class Operators:
    def __init__(self):
        self.tensors = {}

    def input(self, case: str, name: str, shape, bound=1.0, centre=0.0) -> torch.Tensor:
        value = values(f"{case}.{name}", shape, bound, centre)
        self.tensors[f"{case}.{name}"] = value.numpy()
        return value.double().requires_grad_()

    def output(self, case: str, name: str, value: torch.Tensor):
        self.tensors[f"{case}.{name}"] = value.detach().contiguous().double().numpy()

    def run(self, case: str, function, **inputs):
        """Stores y = function(**inputs) and the gradients of sum(y * grad_y)."""
        y = function(**inputs)
        grad_y = self.input(case, "grad_y", tuple(y.shape))
        y.backward(grad_y.detach())
        self.output(case, "y", y)
        for name, value in inputs.items():
            self.output(case, f"grad_{name}", value.grad)


def add_linear(ops: Operators):
    for case, bias in (("linear.bias", True), ("linear.plain", False)):
        inputs = {"x": ops.input(case, "x", (9, 37)), "weight": ops.input(case, "weight", (19, 37))}
        if bias:
            inputs["bias"] = ops.input(case, "bias", (19,))
        ops.run(case, lambda x, weight, bias=None: F.linear(x, weight, bias), **inputs)


def add_conv2d(ops: Operators):
    cases = {  # name: (x, weight, stride, padding, groups, bias)
        "plain": ((2, 3, 7, 6), (5, 3, 3, 3), (1, 1), (0, 0), 1, False),
        "padded": ((2, 16, 8, 8), (32, 16, 3, 3), (1, 1), (1, 1), 1, False),
        "bias": ((3, 4, 5, 9), (6, 4, 3, 3), (1, 1), (1, 1), 1, True),
        "stride2": ((2, 16, 9, 8), (16, 16, 3, 3), (2, 2), (1, 1), 1, False),
        "pointwise": ((2, 16, 8, 7), (32, 16, 1, 1), (2, 2), (0, 0), 1, False),
        "stem": ((1, 3, 20, 20), (16, 3, 7, 7), (2, 2), (3, 3), 1, False),
        "oblong": ((2, 4, 9, 6), (7, 4, 3, 1), (2, 1), (1, 0), 1, True),
        "groups": ((2, 8, 6, 6), (12, 4, 3, 3), (1, 1), (1, 1), 2, True),
        "depthwise": ((2, 16, 6, 6), (16, 1, 3, 3), (1, 1), (1, 1), 16, False),
    }
    for name, (x, weight, stride, padding, groups, bias) in cases.items():
        case = f"conv2d.{name}"
        inputs = {"x": ops.input(case, "x", x), "weight": ops.input(case, "weight", weight)}
        if bias:
            inputs["bias"] = ops.input(case, "bias", (weight[0],))
        ops.run(case, lambda x, weight, bias=None: F.conv2d(
            x, weight, bias, stride=stride, padding=padding, groups=groups), **inputs)


def add_batch_norm(ops: Operators):
    shapes = {"images": (4, 17, 5, 3), "vectors": (11, 7), "shifted": (4, 5, 6, 6)}
    for name, shape in shapes.items():
        channels = (shape[1],)
        case = f"batch_norm.{name}"
        x = ops.input(case, "x", shape, centre=100.0 if name == "shifted" else 0.25)
        weight = ops.input(case, "weight", channels, 0.5, 1.0)
        bias = ops.input(case, "bias", channels)
        mean = ops.input(case, "running_mean", channels).detach().clone()
        var = ops.input(case, "running_var", channels, 0.5, 1.0).detach().clone()
        inference = F.batch_norm(x, mean, var, weight, bias, training=False, eps=1e-5)
        ops.output(case, "y_inference", inference)
        ops.run(case, lambda x, weight, bias: F.batch_norm(
            x, mean, var, weight, bias, training=True, momentum=0.1, eps=1e-5),
            x=x, weight=weight, bias=bias)
        ops.output(case, "running_mean_after", mean)
        ops.output(case, "running_var_after", var)


def add_elementwise_and_pools(ops: Operators):
    ops.run("relu.small", lambda x: F.relu(x), x=ops.input("relu.small", "x", (3, 37)))
    ops.run("add.small", torch.add, input=ops.input("add.small", "input", (3, 37)),
            other=ops.input("add.small", "other", (3, 37)))
    pools = {"halving": (2, 2, 0), "overlapping": (3, 2, 1), "dense": (3, 1, 1)}
    for name, (kernel, stride, padding) in pools.items():
        for operator, function in (("max_pool2d", F.max_pool2d), ("avg_pool2d", F.avg_pool2d)):
            case = f"{operator}.{name}"
            ops.run(case, lambda x: function(x, kernel, stride, padding),
                    x=ops.input(case, "x", (2, 17, 9, 8)))
    case = "global_avg_pool.small"
    ops.run(case, lambda x: x.mean(dim=(2, 3)), x=ops.input(case, "x", (3, 17, 5, 7)))


def add_losses(ops: Operators):
    for name, smoothing, bound in (("plain", 0.0, 3.0), ("smoothed", 0.1, 3.0), ("steep", 0.0, 90.0)):
        case = f"softmax_cross_entropy.{name}"
        x = ops.input(case, "x", (13, 10), bound)
        target = labels(f"{case}.labels", 13, 10)
        ops.tensors[f"{case}.labels"] = target.to(torch.int32).numpy()
        loss = F.cross_entropy(x, target, label_smoothing=smoothing)
        loss.backward()
        ops.output(case, "loss", loss.reshape(1))
        ops.output(case, "correct", (x.argmax(1) == target).double().mean().reshape(1))
        ops.output(case, "grad_x", x.grad)
    case = "mean_squared_error.small"
    x, target = ops.input(case, "x", (13, 7)), ops.input(case, "target", (13, 7))
    loss = F.mse_loss(x, target.detach())
    loss.backward()
    ops.output(case, "loss", loss.reshape(1))
    ops.output(case, "grad_x", x.grad)


def add_embedding(ops: Operators):
    for name, tokens, table, positions in (("plain", (4, 9), (23, 12), None),
                                           ("positions", (3, 8), (65, 20), (11, 20))):
        case = f"embedding.{name}"
        x = labels(f"{case}.labels", int(np.prod(tokens)), table[0]).reshape(tokens)
        ops.tensors[f"{case}.labels"] = x.to(torch.int32).numpy()
        inputs = {"weight": ops.input(case, "weight", table)}
        if positions:
            inputs["positions"] = ops.input(case, "positions", positions)
        ops.run(case, lambda weight, positions=None: F.embedding(x, weight) + (
            0 if positions is None else positions[:tokens[1]]), **inputs)


def add_layer_norm(ops: Operators):
    for name in ("plain", "bias", "residual"):
        case = f"layer_norm.{name}"
        inputs = {"x": ops.input(case, "x", (2, 5, 33), centre=0.25),
                  "weight": ops.input(case, "weight", (33,), 0.5, 1.0)}
        if name != "plain":
            inputs["bias"] = ops.input(case, "bias", (33,))
        if name == "residual":
            inputs["residual"] = ops.input(case, "residual", (2, 5, 33))
        ops.run(case, lambda x, weight, bias=None, residual=0: F.layer_norm(
            x + residual, (33,), weight, bias, eps=1e-5), **inputs)


def add_gelu(ops: Operators):
    for name, approximate in (("erf", "none"), ("tanh", "tanh")):
        case = f"gelu.{name}"
        ops.run(case, lambda x: F.gelu(x, approximate=approximate),
                x=ops.input(case, "x", (3, 67), 5.0))


def attention(qkv: torch.Tensor, heads: int, causal: bool) -> torch.Tensor:
    n, t, width = qkv.shape
    q, k, v = (part.reshape(n, t, heads, -1).transpose(1, 2) for part in qkv.chunk(3, dim=2))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return y.transpose(1, 2).reshape(n, t, width // 3)


def add_attention(ops: Operators):
    cases = {  # name: (samples, tokens, heads, columns of a head, causal)
        "causal": (2, 19, 3, 8, True),
        "full": (2, 19, 3, 8, False),
        "long": (1, 100, 1, 5, True),
    }
    for name, (n, t, heads, depth, causal) in cases.items():
        case = f"attention.{name}"
        ops.run(case, lambda qkv: attention(qkv, heads, causal),
                qkv=ops.input(case, "qkv", (n, t, 3 * heads * depth), 2.0))


def add_token_loss(ops: Operators):
    """Means over the tokens that count."""
    for name, smoothing in (("tokens", 0.0), ("tokens_smoothed", 0.1)):
        case = f"softmax_cross_entropy.{name}"
        x = ops.input(case, "x", (3, 7, 21), 3.0)
        target = labels(f"{case}.labels", 21, 21).reshape(3, 7)
        target[0, 2] = target[1, :3] = target[2, 6] = -1
        ops.tensors[f"{case}.labels"] = target.to(torch.int32).numpy()
        loss = F.cross_entropy(x.transpose(1, 2), target, ignore_index=-1,
                               label_smoothing=smoothing)
        loss.backward()
        ops.output(case, "loss", loss.reshape(1))
        counts = target != -1
        ops.output(case, "correct",
                   (x.argmax(2) == target)[counts].double().mean().reshape(1))
        ops.output(case, "grad_x", x.grad)


def operators():
    ops = Operators()
    add_linear(ops)
    add_conv2d(ops)
    add_batch_norm(ops)
    add_elementwise_and_pools(ops)
    add_losses(ops)
    add_embedding(ops)
    add_layer_norm(ops)
    add_gelu(ops)
    add_attention(ops)
    add_token_loss(ops)
    return ops.tensors


# Models.

def mlp(features, hidden, classes):
    return nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def convnet():
    def stage(number, channels, out):
        return {f"conv{number}": nn.Conv2d(channels, out, 3, padding=1, bias=False),
                f"bn{number}": nn.BatchNorm2d(out),
                f"relu{number}": nn.ReLU(), f"pool{number}": nn.MaxPool2d(2)}

    return nn.Sequential(OrderedDict(**stage(1, 1, 32), **stage(2, 32, 64), flatten=nn.Flatten(),
                                     fc=nn.Linear(7 * 7 * 64, 10)))


def resnet18(cifar_stem: bool):
    from torchvision.models import resnet18 as torchvision_resnet18
    model = torchvision_resnet18(num_classes=10)
    if cifar_stem:
        model.conv1 = nn.Conv2d(3, 64, 3, stride=1, padding=1, bias=False)
        model.maxpool = nn.Identity()
    return model


def optimizer_for(name: str, model: nn.Module, kind: str):
    sgd_lr, adamw_lr = MODELS[name][4:]
    groups = [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 5e-4},
              {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0}]
    if kind == "sgd":
        return torch.optim.SGD(groups, lr=sgd_lr, momentum=0.9)
    return torch.optim.AdamW(groups, lr=adamw_lr, eps=1e-4)


def train(name: str, kind: str, dtype, order, channels_last: bool, perturbation: float = 0.0,
          generator=None):
    """One run; samples of each batch in the order `order`. Results do not depend on it."""
    builder, sample, classes, batch = MODELS[name][:4]
    model = builder().to(dtype)
    with torch.no_grad():
        for parameter_name, p in model.named_parameters():
            p.copy_(initial_parameter(parameter_name, tuple(p.shape)))
            if perturbation:
                p.mul_(1 + perturbation * (2 * torch.rand(p.shape, generator=generator) - 1))
    if channels_last and len(sample) == 3:
        model = model.to(memory_format=torch.channels_last)
    optimizer = optimizer_for(name, model, kind)
    result, losses = {}, []
    for step in range(STEPS):
        x = values(f"x.{step}", (batch, *sample), 1.0).to(dtype)[order]
        target = labels(f"labels.{step}", batch, classes)[order]
        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits, target)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            result["logits"] = in_file_order(logits, order)
            result["train_loss"] = np.array([loss.item()])
            for parameter_name, p in model.named_parameters():
                result[f"grad.{parameter_name}"] = flattened(p.grad)
        optimizer.step()
    result[f"{kind}.loss"] = np.array(losses)
    for parameter_name, p in model.named_parameters():
        result[f"{kind}.param.{parameter_name}"] = flattened(p)
    for buffer_name, b in model.named_buffers():
        if not buffer_name.endswith("num_batches_tracked"):
            result[f"{kind}.stat.{buffer_name}"] = flattened(b)
    model.eval()
    with torch.no_grad():
        x = values("x.0", (batch, *sample), 1.0).to(dtype)[order]
        result[f"{kind}.eval_logits"] = in_file_order(model(x), order)
    return result


def in_file_order(logits: torch.Tensor, order) -> np.ndarray:
    restored = torch.empty_like(logits)
    restored[order] = logits.detach()
    return restored.to(torch.float64).numpy()


def model_golden(name: str):
    batch = MODELS[name][3]
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for kind in ("sgd", "adamw"):
        exact = train(name, kind, torch.float64, torch.arange(batch), False)
        noise = {}
        for perturbation in (0.0, RESNET_PERTURBATION) if "resnet" in name else (0.0,):
            for run in range(FP32_RUNS):
                order = torch.randperm(batch, generator=generator)
                # oneDNN, and PyTorch's own loops
                with torch.backends.mkldnn.flags(enabled=run < 2):
                    rounded = train(name, kind, torch.float32, order, run % 2 == 1, perturbation,
                                    generator)
                for key, value in rounded.items():
                    if perturbation == 0.0 or key.startswith(f"{kind}."):
                        distance = (probe_distance(value, exact[key]) if is_probed(key)
                                    else np.abs(value - exact[key]))
                        noise[key] = np.maximum(noise.get(key, 0.0), distance)
        for key, value in exact.items():
            tensors[key] = np.stack([probe(value) if is_probed(key) else value, noise[key]])
        print(name, kind, "losses", exact[f"{kind}.loss"], "noise", noise[f"{kind}.loss"])
    return tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "goldens")
    parser.add_argument("--only", choices=["operators", *MODELS])
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in ["operators", *MODELS]:
        if arguments.only in (None, name):
            tensors = operators() if name == "operators" else model_golden(name)
            metadata = {"made_by": f"make_goldens.py with PyTorch {torch.__version__}"}
            path = arguments.out / f"{name}.safetensors"
            save_file(tensors, path, metadata)
            path.chmod(0o644)


if __name__ == "__main__":
    main()
