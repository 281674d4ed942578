#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ONNX Runtime says of exported models, against what Lockstep said.

usage: compare_onnx.py FOLDER...

Each folder is one of onnx_test.cpp's: model.onnx, `samples` as Lockstep has them (images [N, H, W, C]) and `said`, its
prediction. Files are checked by the package onnx, with the shapes that it infers. Exit code 1 where a prediction is
further than 1e-4 from Lockstep's, of the largest.
"""
import pathlib
import sys

import numpy
import onnx
import onnxruntime

TYPES = {"tensor(uint8)": (numpy.uint8, numpy.uint8), "tensor(float)": (numpy.float32, numpy.float32),
         "tensor(int64)": (numpy.int32, numpy.int64)}
SAMPLES = 3


def difference(folder):
    file = str(folder / "model.onnx")
    onnx.checker.check_model(file, full_check=True)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (wanted,) = session.get_inputs()
    stored, given = TYPES[wanted.type]
    samples = numpy.fromfile(folder / "samples", stored)
    shape = [extent for extent in wanted.shape if isinstance(extent, int)]
    if len(shape) == 3:  # an image's channels lie last in Lockstep
        samples = samples.reshape(SAMPLES, shape[1], shape[2], shape[0]).transpose(0, 3, 1, 2)
    samples = samples.reshape(SAMPLES, *shape or [-1]).astype(given)
    said = numpy.fromfile(folder / "said", numpy.float32)
    largest = abs(said).max()
    results = session.run(None, {wanted.name: samples})[0]
    worst = abs(results.reshape(-1) - said).max() / largest
    # Any number of samples, and of tokens: the first ones do not know of those after them.
    if given is numpy.int64:
        short = session.run(None, {wanted.name: samples[:1, :5]})[0]
        worst = max(worst, abs(short - results[:1, :5]).max() / largest)
    else:
        worst = max(worst, abs(session.run(None, {wanted.name: samples[1:2]})[0] - results[1:2]).max() / largest)
    return worst


def main():
    failed = False
    for folder in map(pathlib.Path, sys.argv[1:]):
        worst = difference(folder)
        print(f"{folder.name:22s} {worst:.2e}")
        failed = failed or not worst < 1e-4
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
