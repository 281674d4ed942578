# SPDX-License-Identifier: Apache-2.0
"""A vision transformer in plain PyTorch, after Dosovitskiy et al. 2021, with the parameter names of timm's
VisionTransformer: what make_goldens.py compares core/nn/vit.h with."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class PatchEmbedding(nn.Module):
    def __init__(self, patch: int, width: int):
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch, stride=patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.one_kernel = False  # PyTorch's fused attention instead of products and softmax
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        n, tokens, width = x.shape
        q, k, v = (part.reshape(n, tokens, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(x).split(width, dim=2))
        if self.one_kernel:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            y = (q @ k.transpose(2, 3) / math.sqrt(width // self.heads)).softmax(3) @ v
        return self.proj(y.transpose(1, 2).reshape(n, tokens, width))


class FeedForward(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = FeedForward(width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    def __init__(self, image: int, patch: int, width: int, heads: int, classes: int, layers: int = 12):
        super().__init__()
        self.patch_embed = PatchEmbedding(patch, width)
        self.cls_token = nn.Parameter(torch.empty(1, 1, width))
        self.pos_embed = nn.Parameter(torch.empty(1, 1 + (image // patch)**2, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def use_one_kernel(self, use: bool):
        for block in self.blocks:
            block.attn.one_kernel = use

    def forward(self, x):
        x = self.patch_embed(x)
        x = torch.cat((self.cls_token.expand(len(x), -1, -1), x), 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])
