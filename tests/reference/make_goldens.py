#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden files that tests compare Lockstep with. Needs PyTorch, torchvision, safetensors.

usage: make_goldens.py [--out DIR] [--only operators|shapes|init|MODEL]

operators.safetensors: each operator in float64 on small inputs that are exact in fp32. Tensors are
  named <operator>.<case>.<tensor>; layouts are PyTorch's (NCHW, OIHW). grad_* are the gradients of
  sum(y * grad_y), or of the mean loss.
shapes/MODEL.txt: names and shapes of torchvision's parameters and running statistics.
init/convnet.safetensors: a state_dict as PyTorch users write it, and init/convnet_logits.safetensors:
  what it makes of four samples x.0 (float64, evaluation mode).
MODEL.safetensors: ten training steps in float64. Weights, samples and labels come from formulas
  (formula.h) and are not stored.
  logits                       of the first step, training mode
  grad.NAME                    of the first step, sketched
  OPT.loss                     the loss of each of the ten steps
  OPT.param.NAME, OPT.stat.NAME  after ten steps, sketched
  OPT.eval_logits              after ten steps, evaluation mode, on the first step's samples
  noise.WHAT                   how far PyTorch's own fp32 runs (other sample orders, memory formats,
                               kernels) come to lie from float64: of losses and logits, the largest
                               distance of any element; of grad, OPT.param and OPT.stat, the largest
                               over runs and tensors of rms(distance) / scale, but for tensors that are
                               zero or stay where they were in float64
  with OPT = sgd (momentum 0.9, weight decay 5e-4) and adamw (weight decay 5e-4). Biases and
  normalisation have no weight decay.

A sketched tensor is eight sums of all its elements with random signs, divided by sqrt(count), then
its scale. So the distance of two tensors' sketches has the variance of their elements' distance: a
sketch sees every element, and a few odd ones do not rule it. The scale is the rms of a gradient, or
of the way that a weight or statistic went in the ten steps. Where that is zero but for rounding (of a
bias before batch norm), it is the largest rms(distance) of the fp32 runs / noise.WHAT, so that each
such tensor is allowed its own rounding, and no other tensor that.
"""
import argparse
import pathlib
from collections import OrderedDict

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from safetensors.numpy import save_file
from torch import nn

from formula import initial_parameter, labels, rms, sketch, values
from airbench_model import airbench94
from convnext_model import ConvNextTiny
from golden_operators import operators
from gpt_model import Gpt
from llama_model import Llama
from mobilenet_model import MobileNetV2
from vit_model import Vit

STEPS = 10
FP32_RUNS = 6
# Below, of the largest one's rms, a gradient is zero but for rounding.
LEAST_SCALE = 2.0**-12
# name: (builder, sample shape, classes, batch, lr of sgd, lr and eps of adamw); the C++ test has the
# same table. A deep network has millions of ReLUs, of which some in every run lie within rounding of
# zero: which of them open is chance, and what follows from it grows with every step. Small rates and
# an eps of the gradients' size (the optimizer's own condition is 1 / eps) keep that to a few
# hundredths of the way; the shallow networks have neither and agree to four digits of it. MobileNetV2
# starts where ReLU6 cuts few values off (formula.py), which allows it larger rates. Nothing in
# gpt, vit or convnext jumps, but the keys' biases have no gradient; to a small eps its rounding would be
# one. Samples and targets of gpt and llama are tokens, the classes its vocabulary.
MODELS = {
    "mlp_iris": (lambda: mlp(4, 10, 3), (4,), 3, 16, 0.01, 0.001, 1e-8),
    "mlp_mnist": (lambda: mlp(784, 32, 10), (784,), 10, 16, 0.01, 0.001, 1e-8),
    "convnet": (lambda: convnet(), (1, 28, 28), 10, 8, 0.001, 0.001, 1e-8),
    "airbench94": (lambda: airbench94(), (3, 32, 32), 10, 8, 1e-4, 3e-5, 1e-2),
    "resnet18": (lambda: resnet("resnet18", False), (3, 64, 64), 10, 8, 1e-4, 3e-5, 1e-2),
    "resnet18_cifar": (lambda: resnet("resnet18", True), (3, 16, 16), 10, 8, 1e-4, 3e-5, 1e-2),
    "resnet50": (lambda: resnet("resnet50", False), (3, 64, 64), 10, 4, 1e-4, 3e-5, 1e-2),
    "vgg11_cifar": (lambda: vgg_cifar("vgg11_bn"), (3, 32, 32), 10, 8, 1e-4, 3e-5, 1e-2),
    "mobilenet_v2_cifar": (lambda: MobileNetV2(10, True), (3, 16, 16), 10, 8, 3e-3, 1e-4, 1e-2),
    "convnext_tiny_cifar": (lambda: ConvNextTiny(10, 2), (3, 16, 16), 10, 4, 1e-2, 1e-3, 1e-4),
    "vit_ti16_cifar": (lambda: Vit(16, 4, 192, 3, 10), (3, 16, 16), 10, 4, 0.01, 0.001, 1e-4),
    "gpt": (lambda: gpt(True, "tanh", True), (16,), 37, 4, 0.01, 0.001, 1e-4),
    "gpt_plain": (lambda: gpt(False, "none", False), (16,), 37, 4, 0.01, 0.001, 1e-8),
    "llama": (lambda: llama(2, True), (16,), 37, 4, 0.01, 0.001, 1e-8),
    "llama_grouped": (lambda: llama(1, False), (16,), 37, 4, 0.01, 0.001, 1e-8),
}
SHAPES = ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg11_bn", "vgg16_bn",
          "mobilenet_v2", "convnext_tiny", "vit_b_16"]
NOT_DECAYED = ("cls_token", "pos_embed", "layer_scale")  # of more than one dimension


def group_of(key: str) -> str | None:
    """The sketched tensors' kind: grad, OPT.param or OPT.stat."""
    if key.startswith("grad."):
        return "grad"
    group = ".".join(key.split(".")[:2])
    return group if group.endswith((".param", ".stat")) else None


def flattened(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().contiguous().reshape(-1).to(torch.float64).numpy().copy()


def mlp(features, hidden, classes):
    return nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def convnet(side: int = 28):
    def stage(number, channels, out):
        return {f"conv{number}": nn.Conv2d(channels, out, 3, padding=1, bias=False),
                f"bn{number}": nn.BatchNorm2d(out),
                f"relu{number}": nn.ReLU(), f"pool{number}": nn.MaxPool2d(2)}

    return nn.Sequential(OrderedDict(**stage(1, 1, 32), **stage(2, 32, 64), flatten=nn.Flatten(),
                                     fc=nn.Linear((side // 4)**2 * 64, 10)))


def resnet(name: str, cifar_stem: bool):
    model = torchvision.models.get_model(name, num_classes=10)
    if cifar_stem:
        model.conv1 = nn.Conv2d(3, 64, 3, stride=1, padding=1, bias=False)
        model.maxpool = nn.Identity()
    return model


class VggCifar(nn.Module):
    def __init__(self, name: str):
        super().__init__()
        self.features = torchvision.models.get_model(name, init_weights=False).features
        self.classifier = nn.Linear(512, 10)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


def vgg_cifar(name: str):
    return VggCifar(name)


def gpt(bias: bool, gelu: str, tied_head: bool):
    return Gpt(layers=2, heads=2, width=32, context=16, vocabulary=37, bias=bias, gelu=gelu,
               tied_head=tied_head)


def llama(kv_heads: int, tied_head: bool):
    return Llama(layers=2, heads=2, kv_heads=kv_heads, width=32, hidden=48, vocabulary=37, tied_head=tied_head)


def step_data(name: str, step: int, dtype):
    """Samples and targets of a step."""
    _, sample, classes, batch = MODELS[name][:4]
    if name.startswith(("gpt", "llama")):
        count = batch * sample[0]
        return (labels(f"x.{step}", count, classes).reshape(batch, *sample),
                labels(f"labels.{step}", count, classes).reshape(batch, *sample))
    return (values(f"x.{step}", (batch, *sample), 1.0).to(dtype),
            labels(f"labels.{step}", batch, classes))


def optimizer_for(name: str, model: nn.Module, kind: str):
    sgd_lr, adamw_lr, adamw_eps = MODELS[name][4:]
    decays = lambda name, p: p.ndim > 1 and not name.endswith(NOT_DECAYED)  # noqa: E731
    groups = [{"params": [p for n, p in model.named_parameters() if decays(n, p)], "weight_decay": 5e-4},
              {"params": [p for n, p in model.named_parameters() if not decays(n, p)], "weight_decay": 0.0}]
    if kind == "sgd":
        return torch.optim.SGD(groups, lr=sgd_lr, momentum=0.9)
    return torch.optim.AdamW(groups, lr=adamw_lr, eps=adamw_eps)


def train(name: str, kind: str, dtype, order, other_kernels: bool, make_optimizer=optimizer_for):
    """One run; samples of each batch in the order `order`. Results depend neither on it nor on
    `other_kernels` (channels last; of transformers, fused attention). Weights and statistics are given with
    how they started, as pairs (end, start)."""
    builder, sample = MODELS[name][:2]
    model = builder().to(dtype)
    with torch.no_grad():
        for parameter_name, p in model.named_parameters():
            p.copy_(initial_parameter(parameter_name, tuple(p.shape)))
    start = {key: flattened(t) for key, t in model.state_dict().items()}
    if other_kernels and len(sample) == 3:
        model = model.to(memory_format=torch.channels_last)
    if isinstance(model, (Gpt, Llama, Vit)):
        model.use_one_kernel(other_kernels)
    optimizer = make_optimizer(name, model, kind)
    result, losses = {}, []
    for step in range(STEPS):
        x, target = step_data(name, step, dtype)
        optimizer.zero_grad()
        logits = model(x[order])
        loss = F.cross_entropy(logits.flatten(0, -2), target[order].flatten())
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            result["logits"] = in_file_order(logits, order)
            for parameter_name, p in model.named_parameters():
                if p.requires_grad:
                    result[f"grad.{parameter_name}"] = flattened(p.grad), 0.0
        optimizer.step()
    result[f"{kind}.loss"] = np.array(losses)
    for parameter_name, p in model.named_parameters():
        result[f"{kind}.param.{parameter_name}"] = flattened(p), start[parameter_name]
    for buffer_name, b in model.named_buffers():
        if not buffer_name.endswith("num_batches_tracked"):
            result[f"{kind}.stat.{buffer_name}"] = flattened(b), start[buffer_name]
    model.eval()
    with torch.no_grad():
        x = step_data(name, 0, dtype)[0][order]
        result[f"{kind}.eval_logits"] = in_file_order(model(x), order)
    return result


def in_file_order(logits: torch.Tensor, order) -> np.ndarray:
    restored = torch.empty_like(logits)
    restored[order] = logits.detach()
    return restored.to(torch.float64).numpy()


def noise_and_scales(exact: dict, distances: dict):
    """noise.WHAT, and the scale of each sketched tensor; `distances`: the largest of all runs."""
    noise = {key: distance for key, distance in distances.items() if not group_of(key)}
    scales = {key: rms(value[0] - value[1]) for key, value in exact.items() if group_of(key)}
    for group in {group_of(key) for key in scales}:
        keys = [key for key in scales if group_of(key) == group]
        least = LEAST_SCALE * max(scales[key] for key in keys)
        noise[group] = max(distances[key] / scales[key] for key in keys if scales[key] >= least)
        for key in keys:
            if scales[key] < least:
                scales[key] = max(least, distances[key] / noise[group])
    return noise, scales


def model_golden(name: str, kinds=("sgd", "adamw"), make_optimizer=optimizer_for):
    batch = MODELS[name][3]
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for kind in kinds:
        exact = train(name, kind, torch.float64, torch.arange(batch), False, make_optimizer)
        distances = {}
        for run in range(FP32_RUNS):
            order = torch.randperm(batch, generator=generator)
            # oneDNN, and PyTorch's own loops
            with torch.backends.mkldnn.flags(enabled=run % 4 < 2):
                rounded = train(name, kind, torch.float32, order, run % 2 == 1, make_optimizer)
            for key, value in rounded.items():
                distance = (rms(value[0] - exact[key][0]) if group_of(key)
                            else np.abs(value - exact[key]).max())
                distances[key] = max(distances.get(key, 0.0), distance)
        noise, scales = noise_and_scales(exact, distances)
        for key, value in exact.items():
            tensors[key] = np.append(sketch(value[0]), scales[key]) if group_of(key) else value
        for key, distance in noise.items():
            tensors[f"noise.{key}"] = np.array([distance])
        print(name, {key: f"{distance:.1e}" for key, distance in noise.items()}, flush=True)
    return tensors


def shapes(name: str) -> str:
    """A line "NAME: D D ..." for each parameter and statistic that a file of `name` holds."""
    with torch.device("meta"):
        model = torchvision.models.get_model(name)
    return "".join(f"{key}: {' '.join(map(str, t.shape))}\n" for key, t in model.state_dict().items()
                   if not key.endswith("num_batches_tracked"))


def init_files():
    """A convnet for 12x12 images, whose statistics have seen one batch."""
    model = convnet(side=12)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(initial_parameter(name, tuple(p.shape)))
        model(values("x.1", (4, 1, 12, 12), 1.0))
    weights = {key: t.contiguous().numpy() for key, t in model.state_dict().items()}
    with torch.no_grad():
        logits = model.double().eval()(values("x.0", (4, 1, 12, 12), 1.0).double())
    return weights, {"logits": logits.numpy()}


def write(path: pathlib.Path, tensors: dict):
    save_file(tensors, path, {"made_by": f"make_goldens.py with PyTorch {torch.__version__}"})
    path.chmod(0o644)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "goldens")
    parser.add_argument("--only", choices=["operators", "shapes", "init", *MODELS])
    arguments = parser.parse_args()
    out, only = arguments.out, arguments.only
    for folder in ("shapes", "init"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if only in (None, "operators"):
        write(out / "operators.safetensors", operators())
    if only in (None, "shapes"):
        for name in SHAPES:
            (out / "shapes" / f"{name}.txt").write_text(shapes(name))
    if only in (None, "init"):
        weights, logits = init_files()
        write(out / "init" / "convnet.safetensors", weights)
        write(out / "init" / "convnet_logits.safetensors", logits)
    for name in MODELS:
        if only in (None, name):
            write(out / f"{name}.safetensors", model_golden(name))


if __name__ == "__main__":
    main()
