#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files of tests/io/torch, small state dicts as PyTorch writes them. Needs PyTorch.

usage: make_torch_files.py [FOLDER]      (default: tests/io/torch)

tests/io/torch_file_test.cpp knows their values. Committed are those of PyTorch 2.15.
"""
import argparse
import pathlib
from collections import OrderedDict

import torch
from torch import nn


def state_dict():
    """Every type, and views of every kind: element i of a storage is i, or i / 4."""
    whole = torch.arange(24, dtype=torch.float32)
    table = whole[:12].reshape(3, 4)
    result = OrderedDict(
        f32=table, transposed=table.t(), column=table[:, 1], tail=whole[20:],
        steps=whole[1:24:5], f64=torch.arange(3, dtype=torch.float64) / 4,
        f16=torch.arange(4, dtype=torch.float16) / 4, bf16=torch.arange(4).bfloat16() / 4,
        i64=torch.tensor(7), i32=torch.arange(2, dtype=torch.int32),
        i16=torch.arange(2, dtype=torch.int16), i8=torch.arange(2, dtype=torch.int8),
        u8=torch.arange(2, dtype=torch.uint8), bool=torch.tensor([True, False]),
        empty=torch.zeros(0, 3), parameter=nn.Parameter(torch.ones(2)),
        images=torch.arange(24, dtype=torch.float32).reshape(1, 2, 3, 4).contiguous(
            memory_format=torch.channels_last))
    result._metadata = OrderedDict([("", {"version": 1})])
    return result


def checkpoint():
    """As a training script writes it: names of DistributedDataParallel and torch.compile()."""
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    with torch.no_grad():
        for number, tensor in enumerate(model.state_dict().values()):
            tensor.copy_(torch.full_like(tensor, number))
    names = {f"module._orig_mod.{name}": t for name, t in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return {"epoch": 3, "model": names, "optimizer": optimizer.state_dict(), "best": 0.5,
            "tag": None, "size": torch.Size([2, 3]), "dtype": torch.float32, "big": 2**80}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    here = pathlib.Path(__file__).parent
    parser.add_argument("folder", type=pathlib.Path, nargs="?", default=here.parent / "io/torch")
    folder = parser.parse_args().folder
    folder.mkdir(exist_ok=True)
    legacy = {"_use_new_zipfile_serialization": False}
    torch.save(state_dict(), folder / "zip.pth")
    torch.save(state_dict(), folder / "legacy.pth", **legacy)
    torch.save(state_dict(), folder / "protocol5.pt", pickle_protocol=5)
    torch.save(checkpoint(), folder / "checkpoint.pth")
    torch.save(nn.Linear(2, 1), folder / "module.pth")
    torch.jit.save(torch.jit.script(nn.Linear(2, 1)), folder / "script.pt")


if __name__ == "__main__":
    main()
