#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether `lockstep simulate` predicts the steps that ranks of this host then take.

simulated_times.py [--program FILE] [--repeats N] [--measured FILE] [--measure-only] [--fitted N] [--cases NAME,...]

Trains on 1, 2, 4, 8, 16 and 32 ranks, far more than cores, by `mpirun --oversubscribe`; the repeats of all counts
take turns. The simulation is then told what one rank and 4 say:

  kernels     of one rank with --profile (kernel_times.json)
  contention  a rank beside another one that it never talks to, over one that is alone
  turn        how long a rank that has waited is without its core (--core-turn): that with which the simulated step of 4
              ranks (--fitted) is the measured one; shared memory is what `lockstep plan` assumes of it

and predicts the others. Prints a row for each: the median of the measured windows of steps and over repeats the least
and the most, the median and interval of simulated steps, the error. Exit code 1 where a held-out count is off by
more than 10%.

--measured FILE: measurements are kept there, or taken from there. Measuring wants a machine that does nothing else;
predicting does not.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
LARGEST_ERROR = 0.10
COUNTS = (1, 2, 4, 8, 16, 32)
CASES = {
    "mlp": (("--model=mlp", "--hidden=512,512", "--data=synthetic:28x28x1:10", "--global-batch=1024",
             "--micro-batch=32", "--shards=32"), 60),
    "convnet": (("--model=convnet", "--data=synthetic:28x28x1:10", "--global-batch=256", "--micro-batch=8",
                 "--shards=32"), 24),
    "resnet20": (("--model=resnet20", "--data=synthetic:32x32x3:10", "--global-batch=64", "--micro-batch=2",
                  "--shards=32"), 12),
}
QUIET = ("--eval-every=0", "--checkpoint-every=0", "--tensorboard=off", "--noise-scale-every=0", "--workers=0",
         "--log-every=2", "--timeout=300", "--timeout-start=600")
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
SIMULATED_STEPS = 8
MAX_TURN_US = 20_000


def start(options, ranks, flags, steps, out, *more):
    command = [options.program, "train", *flags, *QUIET, f"--steps={steps}", f"--out={out}", *more]
    command = [*command, "--ranks=1"] if ranks == 1 else [
        "mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks), *command]
    with open(f"{out}.log", "w") as log:
        return subprocess.Popen([str(word) for word in command], env=ENVIRONMENT, stdout=log, stderr=subprocess.STDOUT)


def finish(run, out):
    if run.wait(timeout=1200) != 0 and not (out / "summary.json").exists():
        raise RuntimeError(f"{out}: ended with {run.returncode}:\n{pathlib.Path(f'{out}.log').read_text()[-2000:]}")


def step_ms(out):
    """The median of the logged windows but the first third."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [line["step_ms"] for line in lines if "step_ms" in line]
    return statistics.median(steps[len(steps) // 3:])


def measure(options, name, folder, found):
    """By rank count the median step of each repeat, and so of a rank beside another; the kernels of one."""
    flags, steps = CASES[name]
    for repeat in range(len(found["kernels"]), options.repeats):
        row = {}
        out = folder / f"{name}-{repeat}-profile"
        finish(start(options, 1, flags, steps, out, "--profile"), out)
        kernels = json.loads((out / "kernel_times.json").read_text())
        for ranks in COUNTS:
            out = folder / f"{name}-{repeat}-{ranks}"
            finish(start(options, ranks, flags, steps, out), out)
            row[str(ranks)] = step_ms(out)
        outs = [folder / f"{name}-{repeat}-beside-{i}" for i in range(2)]
        for run, out in [(start(options, 1, flags, steps, out), out) for out in outs]:
            finish(run, out)
        found["beside"].append(statistics.mean(step_ms(out) for out in outs))
        found["kernels"].append(kernels)
        for ranks, step in row.items():
            found["steps"][ranks].append(step)
        yield


class Simulation:
    """Of one case, with the kernels of one of its runs and the contention of another."""

    def __init__(self, options, name, kernels, contention, folder):
        self.options, self.flags, self.folder = options, CASES[name][0], folder
        self.contention = max(1.0, contention)
        self.kernels = folder / "kernel_times.json"
        self.kernels.write_text(json.dumps(kernels))

    def predict(self, ranks, turn_us, repeats=1):
        cores = os.cpu_count()
        result = subprocess.run(
            [str(self.options.program), "simulate", "--json", *self.flags, f"--ranks={ranks}", "--arrival-orders=0",
             "--no-sums", f"--steps={SIMULATED_STEPS}", f"--repeats={repeats}", f"--kernel-times={self.kernels}",
             f"--cores={cores}", f"--core-turn={turn_us}",
             *([f"--contention={self.contention}"] if cores > 1 else [])],
            capture_output=True, text=True)
        if result.returncode != 0:
            raise RuntimeError(result.stdout + result.stderr)
        return json.loads(result.stdout)["runs"][0]["prediction"]

    def fit(self, measured_ms):
        """The turn with which so many ranks take so long; steps grow with it."""
        low, high = 0.0, MAX_TURN_US
        for _ in range(12):
            middle = (low + high) / 2
            predicted = self.predict(self.options.fitted, middle, repeats=3)["step_s"]["median"] * 1e3
            low, high = (middle, high) if predicted < measured_ms else (low, middle)
        return (low + high) / 2


def compare(options, name, found, folder):
    """Predicts from the medians over repeats; prints a row a count, and gives the largest held-out error."""
    alone = statistics.median(found["steps"]["1"])
    middle = sorted(range(len(found["kernels"])), key=lambda i: found["steps"]["1"][i])[len(found["kernels"]) // 2]
    simulation = Simulation(options, name, found["kernels"][middle], statistics.median(found["beside"]) / alone, folder)
    turn_us = simulation.fit(statistics.median(found["steps"][str(options.fitted)]))
    print(f"{name}: contention {simulation.contention:.3f}, turn {turn_us / 1e3:.2f} ms", flush=True)
    worst = 0.0
    for ranks in COUNTS:
        steps = found["steps"][str(ranks)]
        predicted = simulation.predict(ranks, turn_us, repeats=5)
        step, exposed = predicted["step_s"], predicted["exposed_s"]
        error = step["median"] * 1e3 / statistics.median(steps) - 1
        held_out = ranks not in (1, options.fitted)
        worst = max(worst, abs(error)) if held_out else worst
        print(f"| {name} | {ranks} | {statistics.median(steps):.2f} ({min(steps):.2f} to {max(steps):.2f}) "
              f"| {step['median'] * 1e3:.2f} ({step['low'] * 1e3:.2f} to {step['high'] * 1e3:.2f}) "
              f"| {exposed['median'] * 1e3:.2f} | {predicted['efficiency'] or 0:.1%} | {error:+.1%} "
              f"| {'held out' if held_out else 'calibrated'}"
              f"{', TOO FAR' if held_out and abs(error) > LARGEST_ERROR else ''} |", flush=True)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--program", default=PROJECT / "build/release/lockstep", type=pathlib.Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measured", type=pathlib.Path)
    parser.add_argument("--measure-only", action="store_true")
    parser.add_argument("--fitted", type=int, default=4, choices=COUNTS[1:])
    parser.add_argument("--cases", default="mlp,convnet")
    options = parser.parse_args()
    worst = 0.0
    with tempfile.TemporaryDirectory(prefix="lockstep-simulated-") as temporary:
        folder = pathlib.Path(temporary)
        found = json.loads(options.measured.read_text()) if options.measured and options.measured.exists() else {}
        for name in options.cases.split(","):
            case = found.setdefault(name, {"steps": {str(ranks): [] for ranks in COUNTS}, "beside": [], "kernels": []})
            for _ in measure(options, name, folder, case):
                if options.measured:
                    options.measured.write_text(json.dumps(found))
        if options.measure_only:
            return 0
        print("| model | ranks | measured ms | predicted ms | exposed ms | efficiency | error | |\n"
              "|---|---|---|---|---|---|---|---|", flush=True)
        for name in options.cases.split(","):
            worst = max(worst, compare(options, name, found[name], folder))
    return int(worst > LARGEST_ERROR)


if __name__ == "__main__":
    sys.exit(main())
