# SPDX-License-Identifier: Apache-2.0
"""A GPT in plain PyTorch, after Radford et al. 2019, with the parameter names and layouts of Hugging
Face's GPT2LMHeadModel: what make_goldens.py compares core/nn/gpt.h with."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Projection(nn.Module):
    """x @ weight + bias, weight: [in, out]; what Hugging Face calls Conv1D."""

    def __init__(self, inputs: int, outputs: int, bias: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None

    def forward(self, x):
        y = x @ self.weight
        return y if self.bias is None else y + self.bias


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, bias: bool):
        super().__init__()
        self.heads = heads
        self.one_kernel = False  # PyTorch's fused attention instead of products and softmax
        self.c_attn = Projection(width, 3 * width, bias)
        self.c_proj = Projection(width, width, bias)

    def forward(self, x):
        n, tokens, width = x.shape
        q, k, v = (part.reshape(n, tokens, self.heads, -1).transpose(1, 2)
                   for part in self.c_attn(x).split(width, dim=2))
        if self.one_kernel:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(2, 3) / math.sqrt(width // self.heads)
            later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
            y = scores.masked_fill(later, -math.inf).softmax(3) @ v
        return self.c_proj(y.transpose(1, 2).reshape(n, tokens, width))


class FeedForward(nn.Module):
    def __init__(self, width: int, bias: bool, gelu: str):
        super().__init__()
        self.gelu = gelu
        self.c_fc = Projection(width, 4 * width, bias)
        self.c_proj = Projection(4 * width, width, bias)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate=self.gelu))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, bias: bool, gelu: str):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, bias=bias)
        self.attn = Attention(width, heads, bias)
        self.ln_2 = nn.LayerNorm(width, bias=bias)
        self.mlp = FeedForward(width, bias, gelu)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """gelu: "tanh" or "none", as torch.nn.functional.gelu has it."""

    def __init__(self, layers, heads, width, context, vocabulary, bias, gelu, tied_head):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocabulary, width),
            "wpe": nn.Embedding(context, width),
            "h": nn.ModuleList(Block(width, heads, bias, gelu) for _ in range(layers)),
            "ln_f": nn.LayerNorm(width, bias=bias)})
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        if tied_head:
            self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, tokens):
        parts = self.transformer
        x = parts["wte"](tokens) + parts["wpe"](torch.arange(tokens.shape[1]))
        for block in parts["h"]:
            x = block(x)
        return self.lm_head(parts["ln_f"](x))

    def use_one_kernel(self, on: bool):
        for block in self.transformer["h"]:
            block.attn.one_kernel = on
