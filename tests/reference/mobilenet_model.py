# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 in plain PyTorch, after table 2 of Sandler et al. 2018, with the parameter names of torchvision's
mobilenet_v2: what make_goldens.py compares core/nn/mobilenet.h with."""
from torch import nn

# expansion, channels, blocks, stride
STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
          (6, 320, 1, 1)]


def convolution(channels: int, out: int, kernel: int = 1, stride: int = 1, groups: int = 1):
    return [nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(out)]


def activated(*arguments):
    return nn.Sequential(*convolution(*arguments), nn.ReLU6())


class InvertedResidual(nn.Module):
    def __init__(self, channels: int, expansion: int, out: int, stride: int):
        super().__init__()
        hidden = expansion * channels
        self.is_residual = stride == 1 and channels == out
        self.conv = nn.Sequential(
            *([activated(channels, hidden)] if expansion > 1 else []),
            activated(hidden, hidden, 3, stride, hidden),
            *convolution(hidden, out))

    def forward(self, x):
        return x + self.conv(x) if self.is_residual else self.conv(x)


class MobileNetV2(nn.Module):
    """small_images: the first convolution and the first block of 24 channels have stride 1."""

    def __init__(self, classes: int, small_images: bool = False):
        super().__init__()
        layers, channels = [activated(3, 32, 3, 1 if small_images else 2)], 32
        for expansion, out, blocks, stride in STAGES:
            for block in range(blocks):
                halves = stride == 2 and block == 0 and not (small_images and out == 24)
                layers.append(InvertedResidual(channels, expansion, out, 2 if halves else 1))
                channels = out
        self.features = nn.Sequential(*layers, activated(channels, 1280))
        self.classifier = nn.Sequential(nn.Identity(), nn.Linear(1280, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))
