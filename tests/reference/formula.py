# SPDX-License-Identifier: Apache-2.0
"""The numbers of formula.h, to the bit."""
import functools

import numpy as np
import torch

SKETCHES = 8
# Of batch norm within MobileNetV2's blocks.
BEFORE_RELU6 = ("conv.0.1.weight", "conv.0.1.bias", "conv.1.1.weight", "conv.1.1.bias")


def random_key(name: str) -> int:
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def philox_words(key: int, count: int) -> np.ndarray:
    """The first `count` words of philox4x32-10 with counters 0, 1, 2, ..."""
    mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    c = [blocks & mask, blocks >> shift, np.zeros_like(blocks), np.zeros_like(blocks)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> shift) ^ c[1] ^ np.uint64(k0), p1 & mask,
             (p0 >> shift) ^ c[3] ^ np.uint64(k1), p0 & mask]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, axis=1).reshape(-1)[:count].astype(np.uint32)


def uniform(name: str, count: int) -> np.ndarray:
    return (philox_words(random_key(name), count) >> 8).astype(np.float32) * np.float32(2.0**-24)


def values(name: str, shape, bound: float, centre: float = 0.0) -> torch.Tensor:
    u = uniform(name, int(np.prod(shape)))
    scaled = np.float32(bound) * (np.float32(2) * u - np.float32(1))
    return torch.from_numpy((np.float32(centre) + scaled).reshape(shape))


def labels(name: str, count: int, classes: int) -> torch.Tensor:
    return torch.from_numpy((classes * uniform(name, count).astype(np.float64)).astype(np.int64))


@functools.lru_cache(maxsize=None)
def initial_parameter(name: str, shape) -> torch.Tensor:
    if len(shape) >= 2:
        return values(name, shape, np.sqrt(6.0 / np.prod(shape[1:])))
    before_relu6 = name.endswith(BEFORE_RELU6)
    if not name.endswith("weight"):
        return values(name, shape, 0.1, 2.0 if before_relu6 else 0.0)
    centre = 0.25 if name.endswith("bn3.weight") else 0.5 if before_relu6 else 1.0
    return values(name, shape, 0.5 * centre, centre)


@functools.lru_cache(maxsize=None)
def sketch_bits(count: int) -> np.ndarray:
    return philox_words(random_key("sketch"), count).astype(np.uint8)  # the low byte


def sketch(flat: np.ndarray) -> np.ndarray:
    bits = sketch_bits(2**25)[:flat.size]
    signed = [np.where(bits >> k & 1, flat, -flat).sum() for k in range(SKETCHES)]
    return np.array(signed) / np.sqrt(flat.size)


def rms(flat: np.ndarray) -> float:
    return np.linalg.norm(flat) / np.sqrt(flat.size)
