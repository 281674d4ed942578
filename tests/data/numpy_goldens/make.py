#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the .npy and .npz files next to it with NumPy (these are of 2.4.6), which NumpyGoldens reads.

Element i of each array, counted in C order, is i % 7 (x) or i % 3 (y)."""
import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parent


def counting(shape, dtype, period=7):
    return (np.arange(np.prod(shape)) % period).reshape(shape).astype(dtype)


if __name__ == "__main__":
    x, y = counting((6, 4, 4, 3), np.uint8), counting((6,), np.int64, 3)
    np.savez(FOLDER / "stored.npz", x=x, y=y)
    np.savez_compressed(FOLDER / "deflated.npz", x=x, y=y)
    np.savez(FOLDER / "unnamed.npz", x, y)
    for name, dtype in {"f2": np.float16, "f4": np.float32, "f8": np.float64, "i1": np.int8, "i2": np.int16,
                        "i4": np.int32, "i8": np.int64, "u2": np.uint16, "u4": np.uint32, "u8": np.uint64}.items():
        np.save(FOLDER / f"{name}.npy", counting((3, 4), dtype))
    np.save(FOLDER / "bool.npy", counting((3, 4), np.uint8) > 0)
    np.save(FOLDER / "fortran.npy", np.asfortranarray(counting((2, 3, 4), np.float32)))
    for version in ((2, 0), (3, 0)):
        with open(FOLDER / f"version{version[0]}.npy", "wb") as file:
            np.lib.format.write_array(file, counting((3, 4), np.float32), version=version)
