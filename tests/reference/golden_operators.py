# SPDX-License-Identifier: Apache-2.0
"""The golden values of single operators; make_goldens.py says what they are."""
import torch
import torch.nn.functional as F

from formula import labels, values


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


def operators():
    ops = Operators()
    add_linear(ops)
    add_conv2d(ops)
    add_batch_norm(ops)
    add_elementwise_and_pools(ops)
    add_losses(ops)
    return ops.tensors
