# SPDX-License-Identifier: Apache-2.0
"""The models of compare_pytorch.py in plain PyTorch; torchvision, which Debian lacks, is not needed."""
import math
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "reference"))
from mobilenet_model import MobileNetV2  # noqa: E402
from vit_model import Vit  # noqa: E402


def build(case):
    """The model of a case (see torch_peer.py), in PyTorch's own initial weights."""
    if case["model"] == "mlp":
        return mlp(case["widths"])
    if case["model"] == "gpt":
        return Gpt(**case["gpt"])
    if case["model"] == "llama":
        return Llama(**case["gpt"])
    channels, height, width = case["input"]
    if case["model"] == "vit-s16":
        return vit_s16(height, case["classes"])
    if case["model"] == "mobilenet-v2":
        return MobileNetV2(case["classes"])
    if case["model"] == "convnet":
        return convnet(channels, height, width, case["classes"])
    return {"resnet18": resnet18_cifar, "resnet50": resnet50}[case["model"]](channels,
                                                                             case["classes"])


def vit_s16(side, classes):
    """DeiT's (Touvron et al. 2021), with PyTorch's fused attention."""
    model = Vit(side, 16, 384, 6, classes)
    model.use_one_kernel(True)
    for p in (model.cls_token, model.pos_embed):
        nn.init.normal_(p, std=0.02)
    return model


def mlp(widths):
    layers = []
    for i in range(len(widths) - 1):
        layers += [nn.Linear(widths[i], widths[i + 1]), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def convnet(channels, height, width, classes):
    layers, previous = [], channels
    for out in (32, 64):
        layers += [nn.Conv2d(previous, out, 3, padding=1, bias=False), nn.BatchNorm2d(out),
                   nn.ReLU(), nn.MaxPool2d(2)]
        previous = out
    return nn.Sequential(*layers, nn.Flatten(),
                         nn.Linear((height // 4) * (width // 4) * 64, classes))


class Block(nn.Module):
    """A residual block of convolutions (kernel, outputs, stride), each with batch norm."""

    def __init__(self, channels, convolutions):
        super().__init__()
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        width, shrink = channels, 1
        for kernel, out, stride in convolutions:
            self.convs.append(nn.Conv2d(width, out, kernel, stride, kernel // 2, bias=False))
            self.norms.append(nn.BatchNorm2d(out))
            width, shrink = out, shrink * stride
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Identity() if (channels, 1) == (width, shrink) else nn.Sequential(
            nn.Conv2d(channels, width, 1, shrink, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = x
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms)):
            y = norm(conv(y))
            if i + 1 < len(self.convs):
                y = self.relu(y)
        return self.relu(y + self.shortcut(x))


def resnet18_cifar(channels, classes):
    """He et al. 2016 with a 3x3 stride-1 stem."""
    layers = [nn.Conv2d(channels, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)]
    width = 64
    for stage in range(4):
        out = 64 << stage
        for stride in (1 if stage == 0 else 2, 1):
            layers.append(Block(width, [(3, out, stride), (3, out, 1)]))
            width = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def resnet50(channels, classes):
    """He et al. 2016 with the stride in the 3x3 convolutions ("v1.5")."""
    layers = [nn.Conv2d(channels, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True),
              nn.MaxPool2d(3, 2, 1)]
    width = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        middle = 64 << stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Block(width, [(1, middle, 1), (3, middle, stride), (1, 4 * middle, 1)]))
            width = 4 * middle
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


class GptBlock(nn.Module):
    def __init__(self, width, heads, bias, gelu, dropout):
        super().__init__()
        self.heads, self.gelu, self.dropout = heads, gelu, dropout
        self.norm_1, self.norm_2 = nn.LayerNorm(width, bias=bias), nn.LayerNorm(width, bias=bias)
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)
        self.up = nn.Linear(width, 4 * width, bias=bias)
        self.down = nn.Linear(4 * width, width, bias=bias)
        self.drop = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(self, x):
        n, tokens, width = x.shape
        q, k, v = (part.view(n, tokens, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(self.norm_1(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                           dropout_p=self.dropout if self.training else 0.0)
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(n, tokens, width)))
        return x + self.drop(self.down(F.gelu(self.up(self.norm_2(x)), approximate=self.gelu)))


class Gpt(nn.Module):
    """Radford et al. 2019 with a tied head; without biases and dropout it is what nanoGPT trains on
    characters on a CPU. gelu: none (the exact one) or tanh, as F.gelu calls them."""

    def __init__(self, layers, heads, width, context, vocabulary, bias=False, gelu="none",
                 dropout=0.0):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.drop = nn.Dropout(dropout) if dropout else nn.Identity()
        self.blocks = nn.ModuleList(GptBlock(width, heads, bias, gelu, dropout)
                                    for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=bias)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for name, p in self.named_parameters():
            if p.ndim > 1:
                into_residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers) if into_residual else 0.02)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.drop(self.tokens(tokens) + self.positions(places))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class LlamaBlock(nn.Module):
    def __init__(self, width, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cosine, sine):
        n, tokens, width = x.shape
        q, k, v = (part.view(n, tokens, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(self.norm_1(x)).split(width, dim=2))
        q, k = turned(q, cosine, sine), turned(k, cosine, sine)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, tokens, width))
        gate, up = self.gate_up(self.norm_2(x)).chunk(2, dim=2)
        return x + self.down(F.silu(gate) * up)


def turned(x, cosine, sine):
    """Rotary positions of x, [N, heads, T, D], in the type of x."""
    first, second = x.chunk(2, dim=3)
    half = torch.cat((-second, first), 3)
    return x * cosine.to(x.dtype) + half * sine.to(x.dtype)


class Llama(nn.Module):
    """Touvron et al. 2023 with a tied head and a head of keys and values for each of queries, whose GEMMs are joined
    as PyTorch's users join them."""

    def __init__(self, layers, heads, width, context, hidden, vocabulary):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, hidden, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        depth = width // heads
        angle = torch.outer(torch.arange(context), 10000.0**(-2 * torch.arange(depth // 2) / depth)).repeat(1, 2)
        self.register_buffer("cosine", angle.cos())
        self.register_buffer("sine", angle.sin())
        for name, p in self.named_parameters():
            if p.ndim > 1:
                into_residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers) if into_residual else 0.02)

    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        return self.head(self.norm(x))
