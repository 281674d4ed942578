#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Muon against AdamW on nanoGPT's published CPU run: steps to AdamW's last loss, and time of a step.

usage: muon_steps.py [--build DIR] [--text FILE] [--rates 5e-4,1e-3,2e-3,4e-3] [--seeds 1,2,3]
                     [--steps N] [--shares 0.75,0.6] [--ranks N] [--precision fp32]

Both optimizers are tuned over the same learning rates, with the first seed; the best one of each then
runs with all seeds. Muon runs again with a share of the steps, its schedule shortened: where its loss
is at most AdamW's of the whole run, that share suffices. Losses are those on the whole validation tenth
after the last step. Exit code 1 where a run fails; the figures are for the reader to judge: asked
for is a share of at most 0.75.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from comparison_cases import NANOGPT_FLAGS, NANOGPT_STEPS

PROJECT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("LOCKSTEP_TEST_DATA", PROJECT.parent / "shared/data"))
WARMUP = 100
TUNED = {"--optimizer", "--lr", "--min-lr", "--decay-steps", "--beta1", "--beta2"}
BETAS = {"adamw": ["--beta1", "0.9", "--beta2", "0.99"], "muon": []}


def common_flags():
    pairs = zip(NANOGPT_FLAGS[::2], NANOGPT_FLAGS[1::2])
    return [text for name, value in pairs if name not in TUNED for text in (name, value)]


def train(options, optimizer, rate, seed, steps):
    """The run's summary."""
    with tempfile.TemporaryDirectory(prefix="lockstep-muon-") as folder:
        out = pathlib.Path(folder) / "run"
        command = [str(options.build / "lockstep"), "train", "--data", f"text:{options.text}",
                   *common_flags(), "--optimizer", optimizer, "--lr", str(rate), "--min-lr",
                   str(rate / 10), "--decay-steps", str(steps - WARMUP), *BETAS[optimizer],
                   "--steps", str(steps), "--seed", str(seed), "--precision", options.precision,
                   "--log-every", "0", "--eval-every", str(steps), "--checkpoint-every", "0",
                   "--micro-batch", str(12 // options.ranks), "--ranks", str(options.ranks),
                   "--out", str(out)]
        result = subprocess.run(command, capture_output=True, text=True, env={
            **os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        if result.returncode != 0:
            sys.exit(f"{' '.join(command)}\nfailed:\n{result.stderr[-2000:]}")
        return json.loads((out / "summary.json").read_text())


def tune(options, optimizer):
    """The learning rate with the least loss."""
    losses = {}
    for rate in options.rates:
        losses[rate] = train(options, optimizer, rate, options.seeds[0], options.steps)["val_loss"]
        print(f"| {optimizer} | {rate:g} | {options.seeds[0]} | {losses[rate]:.4f} |", flush=True)
    return min(losses, key=losses.get)


def compare(options, rates):
    runs = {}
    for name, optimizer, share in [("adamw", "adamw", 1), ("muon", "muon", 1),
                                   *((f"muon, {share:g} of the steps", "muon", share)
                                     for share in options.shares)]:
        steps = round(share * options.steps)
        runs[name] = [train(options, optimizer, rates[optimizer], seed, steps)
                      for seed in options.seeds]
        losses = [run["val_loss"] for run in runs[name]]
        step_ms = statistics.median(1000 * run["wall_s"] / steps for run in runs[name])
        print(f"| {name} | {rates[optimizer]:g} | {steps} | "
              f"{', '.join(f'{loss:.4f}' for loss in losses)} | {statistics.mean(losses):.4f} | "
              f"{step_ms:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=PROJECT / "build" / "release")
    parser.add_argument("--text", type=pathlib.Path, default=DATA / "tinyshakespeare.txt")
    numbers = lambda kind: lambda text: [kind(part) for part in text.split(",")]
    parser.add_argument("--rates", type=numbers(float), default=[5e-4, 1e-3, 2e-3, 4e-3])
    parser.add_argument("--seeds", type=numbers(int), default=[1, 2, 3])
    parser.add_argument("--shares", type=numbers(float), default=[0.75, 0.6])
    parser.add_argument("--steps", type=int, default=NANOGPT_STEPS)
    parser.add_argument("--ranks", type=int, default=2, choices=[1, 2, 4])
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    options = parser.parse_args()
    if not options.text.is_file():
        parser.error(f"no {options.text} (--text FILE)")
    print(f"load average at the start {os.getloadavg()[0]:.1f}, "
          f"{len(os.sched_getaffinity(0))} cores, {options.precision}, {options.ranks} ranks\n\n"
          f"| optimizer | lr | seed | loss after {options.steps} steps |\n|---|---|---|---|")
    rates = {optimizer: tune(options, optimizer) for optimizer in BETAS}
    print(f"\n| run | lr | steps | losses, seeds {options.seeds} | mean | ms a step |\n"
          "|---|---|---|---|---|---|", flush=True)
    compare(options, rates)


if __name__ == "__main__":
    main()
