#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep simulate` against NVIDIA's submissions of ResNet-50 to MLPerf Training, on 8 to 3,584 H100.

simulated_mlperf.py [--program FILE] [--max-gpus N] [--fitted SHARE US]

PUBLISHED has the images a second of the submissions' logs: of the five runs of each the median over the run's
`throughput` entries (tracked_stats), and of the five the median, without time between epochs. Batch a GPU is
global_batch_size / GPUs; "v4.0" is mlcommons/training_results_v4.0, and 512 and 768 GPUs were last submitted to v3.0, with
software that was then 2% slower on 8 GPUs and 6% on 64.

The simulated GPU takes for a kernel what a share of H100's peaks allows, and a time that every kernel takes (DGX H100, 8
GPUs a host, all-reduces after backward in place of Lockstep's own exchange, as in the submissions). The share is fitted to
8 GPUs of v4.0, on which nothing else counts, the fixed time to 64. All others are held out.

What differs from the submissions: bf16 for fp16 and gradients in fp32, which are twice the bytes; NCCL's rings
over InfiniBand for in-network reductions (SHARP); batch norm of each GPU's own samples where theirs spans two; loaders
are not simulated. Fitted numbers hold all that, too.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
# GPUs, batch a GPU, images/s, round and folder of the results
PUBLISHED = (
    (8, 400, 57_284, "v4.0 NVIDIA/eos_ngc24.04_mxnet"),
    (64, 50, 314_117, "v4.0 NVIDIA/eos_n8_ngc24.04_mxnet"),
    (2528, 16, 6_884_139, "v4.0 NVIDIA/eos_n316_ngc24.04_mxnet"),
    (3584, 16, 10_103_304, "v4.0 NVIDIA/coreweave_hgxh100_n448_ngc23.04_mxnet"),
    (16, 200, 100_347, "v4.0 HPE/HPE-Cray-XD670-Gen11-H100-SXM5-80GB_n2_mxnet_24.04"),
    (512, 40, 2_249_638, "v3.0 NVIDIA/dgxh100_n64_ngc23.04_mxnet"),
    (768, 42, 3_409_916, "v3.0 NVIDIA/dgxh100_n96_ngc23.04_mxnet"),
    (8, 400, 56_074, "v3.0 NVIDIA/dgxh100_ngc23.04_mxnet"),
    (64, 50, 294_759, "v3.0 NVIDIA/dgxh100_n8_ngc23.04_mxnet"),
)
FITTED = (0, 1)
BF16_FLOPS, FP32_FLOPS, BYTES = 989.4e12, 66.9e12, 3350e9  # NVIDIA's data sheet, dense


def images_per_s(options, folder, row, share, kernel_us):
    gpus, batch = PUBLISHED[row][:2]
    times = folder / "h100.json"
    times.write_text(json.dumps({
        "format": 1, "device": "gpu", "kernels_us": {}, "kernel_us": kernel_us, "launch_us": 0, "micro_batch_us": 0,
        "step_us": 0, "sum_bytes_per_s": 0, "peaks": {"bf16_flops": share * BF16_FLOPS, "fp32_flops": share * FP32_FLOPS,
                                "bytes_per_s": share * BYTES}}))
    result = subprocess.run(
        [str(options.program), "simulate", "--json", f"--hosts={gpus // 8}x8", "--network=nvlink",
         f"--kernel-times={times}", "--model=resnet50", f"--global-batch={gpus * batch}", f"--micro-batch={batch}",
         f"--shards={gpus}", "--precision=bf16", "--optimizer=lars", "--reduction=fast", "--overlap=off", "--no-sums",
         "--arrival-orders=0", "--steps=2", "--noise-scale-every=0"],
        capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(result.stdout + result.stderr)
    run = json.loads(result.stdout)["runs"][0]
    return run["predicted_samples_per_s"], run


def root(low, high, rises_to):
    """Where rises_to(x), which falls or grows in x, is 0."""
    for _ in range(14):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if rises_to(middle) < 0 else (low, middle)
    return math.sqrt(low * high)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--program", default=PROJECT / "build/release/lockstep", type=pathlib.Path)
    parser.add_argument("--max-gpus", type=int, default=1024, help="larger ones are only listed")
    parser.add_argument("--fitted", nargs=2, type=float, metavar=("SHARE", "US"), help="not to be fitted again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lockstep-mlperf-") as name:
        folder = pathlib.Path(name)
        share, kernel_us = options.fitted or (0.5, 1.0)
        for _ in range(0 if options.fitted else 3):  # each number decides about one size, and little about the other
            share = root(0.05, 1.0, lambda x: images_per_s(options, folder, 0, x, kernel_us)[0] / PUBLISHED[0][2] - 1)
            kernel_us = root(0.01, 100, lambda x: 1 - images_per_s(options, folder, 1, share, x)[0] / PUBLISHED[1][2])
        print(f"H100: {share:.1%} of its peaks and {kernel_us:.2f} us a kernel\n\n"
              "| GPUs | batch a GPU | published images/s | predicted | error | | step ms | here | source |\n"
              "|---|---|---|---|---|---|---|---|---|", flush=True)
        for row, (gpus, batch, rate, source) in enumerate(PUBLISHED):
            line = f"| {gpus:,} | {batch} | {rate:,} |"
            if gpus > options.max_gpus:
                print(f"{line} not run (--max-gpus) | | | | | {source} |", flush=True)
                continue
            predicted, run = images_per_s(options, folder, row, share, kernel_us)
            print(f"{line} {predicted:,.0f} | {predicted / rate - 1:+.1%} "
                  f"| {'calibrated' if row in FITTED else 'held out'} | {run['predicted_step_s'] * 1e3:.2f} "
                  f"| {run['wall_s']:.0f} s, {run['peak_bytes'] / 2**30:.1f} GiB | {source} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
