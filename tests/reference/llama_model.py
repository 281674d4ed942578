# SPDX-License-Identifier: Apache-2.0
"""A Llama in plain PyTorch, after the papers (RMSNorm: Zhang and Sennrich 2019; rotary positions: Su et al. 2021;
SwiGLU: Shazeer 2020; grouped-query attention: Ainslie et al. 2023), with the parameter names of Hugging Face's
LlamaForCausalLM: what make_goldens.py compares core/nn/llama.h with."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class RmsNorm(nn.Module):
    def __init__(self, width: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x):
        return self.weight * x * (x.square().mean(-1, keepdim=True) + self.eps)**-0.5


def angles(tokens: int, depth: int, theta: float, dtype) -> torch.Tensor:
    """[tokens, depth / 2]"""
    frequencies = theta**(-2 * torch.arange(depth // 2, dtype=torch.float64) / depth)
    return torch.outer(torch.arange(tokens, dtype=torch.float64), frequencies).to(dtype)


def turn(x: torch.Tensor, theta: float) -> torch.Tensor:
    """Pairs (j, j + D / 2) of x, [N, heads, T, D], as complex numbers, times e^(i angle)."""
    angle = angles(x.shape[2], x.shape[3], theta, x.dtype)
    first, second = x.chunk(2, dim=3)
    turned = torch.complex(first, second) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat((turned.real, turned.imag), 3)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int, theta: float):
        super().__init__()
        self.heads, self.kv_heads, self.theta = heads, kv_heads, theta
        self.one_kernel = False  # PyTorch's fused attention instead of products and softmax
        depth = width // heads
        self.q_proj = nn.Linear(width, heads * depth, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * depth, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * depth, bias=False)
        self.o_proj = nn.Linear(heads * depth, width, bias=False)

    def forward(self, x):
        n, tokens, width = x.shape
        q, k, v = (projection(x).reshape(n, tokens, -1, width // self.heads).transpose(1, 2)
                   for projection in (self.q_proj, self.k_proj, self.v_proj))
        q, k = turn(q, self.theta), turn(k, self.theta)
        k, v = (part.repeat_interleave(self.heads // self.kv_heads, dim=1) for part in (k, v))
        if self.one_kernel:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(2, 3) / math.sqrt(width // self.heads)
            later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
            y = scores.masked_fill(later, -math.inf).softmax(3) @ v
        return self.o_proj(y.transpose(1, 2).reshape(n, tokens, width))


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        gate = self.gate_proj(x)
        return self.down_proj(gate * gate.sigmoid() * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, width: int, hidden: int, heads: int, kv_heads: int, theta: float, eps: float):
        super().__init__()
        self.input_layernorm = RmsNorm(width, eps)
        self.self_attn = Attention(width, heads, kv_heads, theta)
        self.post_attention_layernorm = RmsNorm(width, eps)
        self.mlp = FeedForward(width, hidden)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, layers, heads, kv_heads, width, hidden, vocabulary, tied_head, theta=10000.0, eps=1e-5):
        super().__init__()
        self.model = nn.ModuleDict({
            "embed_tokens": nn.Embedding(vocabulary, width),
            "layers": nn.ModuleList(Block(width, hidden, heads, kv_heads, theta, eps) for _ in range(layers)),
            "norm": RmsNorm(width, eps)})
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        if tied_head:
            self.lm_head.weight = self.model["embed_tokens"].weight

    def forward(self, tokens):
        x = self.model["embed_tokens"](tokens)
        for block in self.model["layers"]:
            x = block(x)
        return self.lm_head(self.model["norm"](x))

    def use_one_kernel(self, on: bool):
        for block in self.model["layers"]:
            block.self_attn.one_kernel = on
