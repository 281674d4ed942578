#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicts the milliseconds of one micro-batch of gpt2-124m on an H100 or H200 by part: floating-point
operations, bytes and the machine instructions that tests/gpu/RESULTS.md counts, over the rates below. A
prediction: nothing of it ran on a GPU.

    python3 tests/registers/predict_gpt2.py [--bandwidth TB/s] [--products TFLOP/s] [--sequences N]
"""

import argparse

# The model: layers, columns, heads, rows of the padded head, tokens of a sequence.
LAYERS, WIDTH, HEADS, VOCABULARY, CONTEXT = 12, 768, 12, 50304, 1024
PARAMETERS = 124.4e6
# Warp instructions a second that 132 multiprocessors issue at 1.755 GHz, four a clock, 80% of them in use.
ISSUE = 132 * 4 * 1.755e9 * 0.8
MMA = 660e12  # FLOP/s that mma.sync reaches of bf16
MMA_FLOP = 4096  # of one m16n8k16
LAUNCHES, GAP = 430, 1.2e-6  # of a micro-batch in a graph; seconds from one kernel to the next
# The published rates of other libraries for causal attention of 64 columns, deterministic backward (cuDNN 9, H100).
CUDNN_FORWARD, CUDNN_BACKWARD = 273e12, 348e12


def parts(tokens, bandwidth, products, timed_gain):
    """[(part, seconds before, seconds after, bound by)] of one micro-batch."""
    copies = lambda passes, elems=tokens * WIDTH, size=2: passes * elems * size / bandwidth  # noqa: E731
    issue = lambda elems, instructions: elems * instructions / 32 / ISSUE  # noqa: E731
    layers = 3 * 2 * 12 * WIDTH**2 * LAYERS * tokens / products
    head = 3 * 2 * WIDTH * VOCABULARY * tokens / products
    sequences = tokens // CONTEXT
    attention = 2 * CONTEXT**2 * WIDTH * sequences * LAYERS  # FLOP forward, half of them masked away
    # Stages of 64 keys and 32 queries a warp; tiles of 32 by 16 of backward: those that are not all masked.
    stages = HEADS * sequences * LAYERS * (CONTEXT // 32) * (CONTEXT / 64 / 2 + 0.5)
    tiles = HEADS * sequences * LAYERS * (CONTEXT // 32) * (CONTEXT / 16 / 2 + 1)
    logits = tokens * VOCABULARY
    norms = 2 * LAYERS + 1
    return [
        ("products of the layers", layers, layers - timed_gain, "tensor cores; after: algorithms timed"),
        ("products of the head", head, head, "tensor cores"),
        ("attention forward", attention / 240e12, max(stages * 1033 / ISSUE, stages * 128 * MMA_FLOP / MMA),
         "issue: 1,033 instructions a stage"),
        ("attention backward", 2.5 * attention / 205e12,
         max(tiles * (383 + 303) / ISSUE, tiles * (64 + 48) * MMA_FLOP / MMA), "issue: 686 instructions a tile"),
        ("loss of the head", max(issue(logits, 33.2), copies(3, logits)), max(issue(logits, 17.2), copies(3, logits)),
         "memory: two reads and a write of the logits"),
        ("layer norms forward", copies(4 * norms), copies(4 * norms), "memory"),
        ("layer norms backward", max(issue(tokens * WIDTH * norms, 64), copies(4 * norms)),
         max(issue(tokens * WIDTH * norms, 36), copies(4 * norms)), "issue before, memory after"),
        ("embedding and its gradient", copies(4) + 0.5e-3, copies(4) + 0.15e-3, "latency of frequent tokens"),
        ("sums of gradients", copies(3, PARAMETERS, 4), copies(3, PARAMETERS, 4), "memory"),
        ("update, an eighth of a step's", copies(7.5, PARAMETERS, 4) / 8 + 0.06e-3, copies(7.5, PARAMETERS, 4) / 8,
         "memory"),
        ("from kernel to kernel", LAUNCHES * GAP, LAUNCHES * GAP, "launches in a graph"),
    ]


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--bandwidth", type=float, default=2.9, help="TB/s of a copy: 2.9 on an H100, 4.0 on an H200")
    options.add_argument("--products", type=float, default=650, help="TFLOP/s of cuBLASLt in bf16")
    options.add_argument("--sequences", type=int, default=64, help=f"of {CONTEXT} tokens in a micro-batch")
    options.add_argument("--timed-gain", type=float, default=5, help="ms that timed algorithms save of 64 sequences")
    chosen = options.parse_args()
    tokens = chosen.sequences * CONTEXT
    rows = parts(tokens, chosen.bandwidth * 1e12, chosen.products * 1e12, chosen.timed_gain * 1e-3 * chosen.sequences / 64)
    print("| part | before, ms | after, ms | bound by |\n|---|--:|--:|---|")
    for part, before, after, bound in rows:
        print(f"| {part} | {before * 1e3:.1f} | {after * 1e3:.1f} | {bound} |")
    before, after = (sum(row[i] for row in rows) for i in (1, 2))
    print(f"| together | {before * 1e3:.1f} | {after * 1e3:.1f} | |")
    print(f"| tokens a second | {tokens / before:,.0f} | {tokens / after:,.0f} | |")
    flop = 2 * CONTEXT**2 * WIDTH * chosen.sequences * LAYERS
    print(f"\ncuDNN's attention at its published rates: {flop / CUDNN_FORWARD * 1e3:.1f} ms forward, "
          f"{2.5 * flop / CUDNN_BACKWARD * 1e3:.1f} ms backward")


if __name__ == "__main__":
    main()
