# SPDX-License-Identifier: Apache-2.0
"""The golden values of single operators; make_goldens.py says what they are."""
import numpy as np
import torch
import torch.nn.functional as F

from formula import labels, values
from llama_model import turn


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
    # 0.375 has two significant bits, so that only the product rounds.
    ops.run("scale.small", lambda x: 0.375 * x, x=ops.input("scale.small", "x", (3, 37)))
    # There and back: the gradient of a cast is a cast.
    ops.run("cast.bf16", lambda x: x.to(torch.bfloat16).double(),
            x=ops.input("cast.bf16", "x", (3, 37)))
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
    for name, smoothing in (("soft", 0.0), ("soft_smoothed", 0.1)):
        case = f"softmax_cross_entropy.{name}"
        x = ops.input(case, "x", (13, 10), 3.0)
        first, second = labels(f"{case}.first", 13, 10), labels(f"{case}.second", 13, 10)
        share = values(f"{case}.share", (13,), 0.5, 0.5)
        pairs = torch.stack([first.float(), share, second.float(), 1 - share], dim=1)
        ops.tensors[f"{case}.target"] = pairs.reshape(13, 2, 2).numpy()
        target = (F.one_hot(first, 10) * share.double()[:, None] +
                  F.one_hot(second, 10) * (1 - share).double()[:, None])
        loss = F.cross_entropy(x, target, label_smoothing=smoothing)
        loss.backward()
        ops.output(case, "loss", loss.reshape(1))
        ops.output(case, "correct", (x.argmax(1) == target.argmax(1)).double().mean().reshape(1))
        ops.output(case, "grad_x", x.grad)
    # Lockstep's mean stays one over the samples: PyTorch's sum over their number.
    case = "softmax_cross_entropy.weighted"
    x = ops.input(case, "x", (13, 10), 3.0)
    target = labels(f"{case}.labels", 13, 10)
    ops.tensors[f"{case}.labels"] = target.to(torch.int32).numpy()
    weights = torch.arange(10, dtype=torch.float64) / 4  # the first is 0
    loss = F.cross_entropy(x, target, weight=weights, reduction="sum") / 13
    loss.backward()
    ops.output(case, "loss", loss.reshape(1))
    ops.output(case, "correct", (x.argmax(1) == target).double().mean().reshape(1))
    ops.output(case, "grad_x", x.grad)
    regressions = {"mean_squared_error": F.mse_loss, "l1_loss": F.l1_loss,
                   "huber_loss": lambda x, target: F.huber_loss(x, target, delta=0.5)}
    for operator, function in regressions.items():
        case = f"{operator}.small"
        x, target = ops.input(case, "x", (13, 7)), ops.input(case, "target", (13, 7))
        loss = function(x, target.detach())
        loss.backward()
        ops.output(case, "loss", loss.reshape(1))
        ops.output(case, "grad_x", x.grad)
    for name, bound in (("plain", 3.0), ("steep", 90.0)):
        case = f"binary_cross_entropy.{name}"
        x = ops.input(case, "x", (13, 7), bound)
        target = (labels(f"{case}.labels", 13 * 7, 2) == 1).double().reshape(13, 7)
        ops.tensors[f"{case}.target"] = target.float().numpy()
        loss = F.binary_cross_entropy_with_logits(x, target)
        loss.backward()
        ops.output(case, "loss", loss.reshape(1))
        ops.output(case, "correct", ((x > 0) == (target > 0.5)).double().mean().reshape(1))
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


def rms_norm(x, weight, residual=0):
    h = x + residual
    return weight * h / (h.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def add_rms_norm(ops: Operators):
    for name in ("plain", "residual"):
        case = f"rms_norm.{name}"
        inputs = {"x": ops.input(case, "x", (2, 5, 33), centre=0.25),
                  "weight": ops.input(case, "weight", (33,), 0.5, 1.0)}
        if name == "residual":
            inputs["residual"] = ops.input(case, "residual", (2, 5, 33))
        ops.run(case, rms_norm, **inputs)


def add_swiglu(ops: Operators):
    case = "swiglu.plain"
    ops.run(case, lambda gate, up: F.silu(gate) * up, gate=ops.input(case, "gate", (3, 67), 5.0),
            up=ops.input(case, "up", (3, 67)))


def rotary(q, k, v, heads, kv_heads):
    """Packed as queries, keys and values, of which the first two are turned."""
    n, t, _ = q.shape
    q, k = (turn(part.reshape(n, t, count, -1).transpose(1, 2), 10000.0).transpose(1, 2).reshape(part.shape)
            for part, count in ((q, heads), (k, kv_heads)))
    return torch.cat((q, k, v), 2)


def add_rotary(ops: Operators):
    case, heads, kv_heads, depth = "rotary.grouped", 4, 2, 6
    ops.run(case, lambda q, k, v: rotary(q, k, v, heads, kv_heads),
            q=ops.input(case, "q", (2, 19, heads * depth)), k=ops.input(case, "k", (2, 19, kv_heads * depth)),
            v=ops.input(case, "v", (2, 19, kv_heads * depth)))


def add_gelu(ops: Operators):
    for name, approximate in (("erf", "none"), ("tanh", "tanh")):
        case = f"gelu.{name}"
        ops.run(case, lambda x: F.gelu(x, approximate=approximate),
                x=ops.input(case, "x", (3, 67), 5.0))


def attention(qkv: torch.Tensor, heads: int, kv_heads: int, causal: bool) -> torch.Tensor:
    n, t, width = qkv.shape
    depth = width // (heads + 2 * kv_heads)
    parts = qkv.reshape(n, t, -1, depth).transpose(1, 2).split((heads, kv_heads, kv_heads), dim=1)
    q, k, v = (part.repeat_interleave(heads // part.shape[1], dim=1) for part in parts)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return y.transpose(1, 2).reshape(n, t, heads * depth)


def add_attention(ops: Operators):
    cases = {  # name: (samples, tokens, heads, those of keys and values, columns of a head, causal)
        "causal": (2, 19, 3, 3, 8, True),
        "full": (2, 19, 3, 3, 8, False),
        "long": (1, 100, 1, 1, 5, True),
        "grouped": (2, 19, 4, 2, 8, True),
    }
    for name, (n, t, heads, kv_heads, depth, causal) in cases.items():
        case = f"attention.{name}"
        ops.run(case, lambda qkv: attention(qkv, heads, kv_heads, causal),
                qkv=ops.input(case, "qkv", (n, t, (heads + 2 * kv_heads) * depth), 2.0))


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
    add_rms_norm(ops)
    add_swiglu(ops)
    add_rotary(ops)
    add_gelu(ops)
    add_attention(ops)
    add_token_loss(ops)
    return ops.tensors
