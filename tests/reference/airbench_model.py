# SPDX-License-Identifier: Apache-2.0
"""The network of airbench94 (Jordan 2024, arXiv 2404.00498, section 3.1) with the parameter names of its code.
Weights start as PyTorch's; see initialise()."""
import torch
from torch import nn


def norm(channels):
    module = nn.BatchNorm2d(channels, eps=1e-12, momentum=0.4)
    module.weight.requires_grad = False
    return module


class Group(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1, bias=False)
        self.pool = nn.MaxPool2d(2)
        self.norm1 = norm(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.norm2 = norm(out)
        self.activation = nn.GELU()

    def forward(self, x):
        x = self.activation(self.norm1(self.pool(self.conv1(x))))
        return self.activation(self.norm2(self.conv2(x)))


class Scaled(nn.Module):
    def forward(self, x):
        return x / 9


def airbench94(classes: int = 10):
    first = nn.Conv2d(3, 24, 2)
    first.weight.requires_grad = False
    return nn.Sequential(first, nn.GELU(), Group(24, 64), Group(64, 256), Group(256, 256), nn.MaxPool2d(3),
                         nn.Flatten(), nn.Linear(256, classes, bias=False), Scaled())


@torch.no_grad()
def initialise(model, images):
    """How the paper's training starts: identities, and whitening of the 2x2 patches of `images` [N, 3, H, W]."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d) and module is not model[0]:
            nn.init.dirac_(module.weight[:module.in_channels])
    model[0].bias.zero_()
    patches = images.unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, 12).double()
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    filters = (vectors / (values + 5e-4).sqrt()).T.flip(0).reshape(12, 3, 2, 2)
    model[0].weight.copy_(torch.cat((filters, -filters)))
