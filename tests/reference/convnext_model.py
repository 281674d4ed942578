# SPDX-License-Identifier: Apache-2.0
"""ConvNeXt-T in plain PyTorch, after Liu et al. 2022, with the parameter names of torchvision's convnext_tiny:
what make_goldens.py compares core/nn/convnext.h with."""
import torch
import torch.nn.functional as F
from torch import nn


class PixelNorm(nn.LayerNorm):
    """Over the channels of [N, C, H, W]."""

    def __init__(self, channels: int):
        super().__init__(channels, eps=1e-6)

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.layer_scale = nn.Parameter(torch.full((channels, 1, 1), 1e-6))
        self.block = nn.Sequential(nn.Conv2d(channels, channels, 7, padding=3, groups=channels), nn.Identity(),
                                   nn.LayerNorm(channels, eps=1e-6), nn.Linear(channels, 4 * channels),
                                   nn.Identity(), nn.Linear(4 * channels, channels))

    def forward(self, x):
        y = self.block[2](self.block[0](x).permute(0, 2, 3, 1))
        y = self.block[5](F.gelu(self.block[3](y))).permute(0, 3, 1, 2)
        return x + self.layer_scale * y


class ConvNextTiny(nn.Module):
    """patch: the side of the first convolution's windows."""

    def __init__(self, classes: int, patch: int = 4):
        super().__init__()
        layers = [nn.Sequential(nn.Conv2d(3, 96, patch, patch), PixelNorm(96))]
        for stage, blocks in enumerate((3, 3, 9, 3)):
            channels = 96 << stage
            if stage > 0:
                layers.append(nn.Sequential(PixelNorm(channels // 2), nn.Conv2d(channels // 2, channels, 2, 2)))
            layers.append(nn.Sequential(*(Block(channels) for _ in range(blocks))))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.LayerNorm(768, eps=1e-6), nn.Identity(), nn.Linear(768, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))
