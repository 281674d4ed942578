#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The recipe cifar10-fast in PyTorch: accuracy and seconds to compare with. Needs PyTorch and torchvision.

usage: torch_cifar10.py IMAGES [--epochs 9.9] [--steps N] [--precision bf16|fp32] [--threads 2] [--seed 1]

IMAGES has the folders train and test with a folder of image files per class. One process; the batch norm is over
the whole batch of 1024, the average of weights, schedule and augmentation are the recipe's. After each epoch a line with
the accuracy of the weights and of their average, of images and their mirror images; the seconds are of training alone.
"""
import argparse
import contextlib
import copy
import pathlib
import sys
import time

import torch
import torch.nn.functional as F
from torchvision.io import ImageReadMode, decode_image

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "reference"))
from airbench_model import airbench94, initialise  # noqa: E402

BATCH, LR, MOMENTUM, WARMUP, LAST, BIAS_SCALE, SHIFT = 1024, 1.5, 0.85, 0.23, 0.07, 64, 2
DECAY = 0.00133
MEAN, DEVIATION = (torch.tensor(x).view(1, 3, 1, 1) for x in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))


def read(folder):
    classes = sorted(path.name for path in folder.iterdir())
    files = [(path, label) for label, name in enumerate(classes) for path in sorted((folder / name).iterdir())]
    images = torch.stack([decode_image(str(path), ImageReadMode.RGB) for path, _ in files])
    images = (images.float() / 255 - MEAN) / DEVIATION
    return images.contiguous(memory_format=torch.channels_last), torch.tensor([label for _, label in files])


def augmented(images, indices, epoch, first_flips):
    """Shifted with reflection, and every image flipped in every other epoch."""
    padded = F.pad(images[indices], (SHIFT,) * 4, "reflect")
    result = torch.empty_like(images[indices])
    moves = torch.randint(0, 2 * SHIFT + 1, (len(indices), 2))
    side = images.shape[2]
    for dy in range(2 * SHIFT + 1):
        for dx in range(2 * SHIFT + 1):
            mask = (moves[:, 0] == dy) & (moves[:, 1] == dx)
            result[mask] = padded[mask, :, dy:dy + side, dx:dx + side]
    flips = first_flips[indices] ^ bool(epoch % 2)
    result[flips] = result[flips].flip(3)
    return result


def rate(step, steps):
    warmup = int(WARMUP * steps)
    if step < warmup:
        return (step + 1) / warmup
    return 1 + (LAST - 1) * (step - warmup) / (steps - warmup)


@torch.no_grad()
def accuracy(model, images, labels, precision):
    model.eval()
    right = 0
    for x, y in zip(images.split(500), labels.split(500)):
        with precision():
            right += ((model(x) + model(x.flip(3))).argmax(1) == y).sum().item()
    model.train()
    return right / len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("images", type=pathlib.Path)
    parser.add_argument("--epochs", type=float, default=9.9)
    parser.add_argument("--steps", type=int, help="end after so many, of the schedule of --epochs")
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    precision = ((lambda: torch.autocast("cpu", torch.bfloat16)) if options.precision == "bf16"
                 else contextlib.nullcontext)
    images, labels = read(options.images / "train")
    tests = read(options.images / "test")
    model = airbench94(len(labels.unique())).to(memory_format=torch.channels_last)
    initialise(model, images[torch.arange(5000) * len(images) // 5000])
    average = copy.deepcopy(model)
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(
        [{"params": [p for name, p in trained if "norm" in name], "lr": BIAS_SCALE * LR, "weight_decay": DECAY / BIAS_SCALE},
         {"params": [p for name, p in trained if "norm" not in name]}],
        lr=LR, momentum=MOMENTUM, nesterov=True, weight_decay=DECAY)
    per_epoch = -(-len(images) // BATCH)
    steps = round(options.epochs * per_epoch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step, steps))
    first_flips = torch.rand(len(images)) < 0.5
    seconds = 0.0
    last = min(steps, options.steps or steps)
    for step in range(last):
        begin = time.perf_counter()
        if step % per_epoch == 0:
            order = torch.randperm(len(images))
        indices = order[step % per_epoch * BATCH:][:BATCH]
        x = augmented(images, indices, step // per_epoch, first_flips)
        with precision():
            loss = F.cross_entropy(model(x), labels[indices], label_smoothing=0.2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        decay = min(0.95, (1 + step) / (10 + step))
        with torch.no_grad():
            for kept, new in zip(average.state_dict().values(), model.state_dict().values()):
                if kept.is_floating_point():
                    kept.lerp_(new, 1 - decay)
        seconds += time.perf_counter() - begin
        if (step + 1) % per_epoch == 0 or step + 1 == last:
            accuracies = [accuracy(m, *tests, precision) for m in (model, average)]
            print(f"step {step + 1} of {steps}: loss {loss.item():.4f}, accuracy {accuracies[0]:.2%}, of the "
                  f"average {accuracies[1]:.2%}, {seconds:.1f} s, {seconds / (step + 1) * 1000:.0f} ms a step", flush=True)


if __name__ == "__main__":
    main()
