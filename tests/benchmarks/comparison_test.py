#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That compare_pytorch.py --device cuda, exchange_cost.py and one_launch.py calculate and judge as
they say, on measurements that are made up: no GPU and no PyTorch.

  comparison_test.py PROGRAM

PROGRAM is lockstep: it plans each case's training, so that flags exist and sizes go together.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "gpu")]

import compare_cuda  # noqa: E402
import exchange_cost  # noqa: E402
import one_launch  # noqa: E402
from comparison_cases_cuda import CUDA_CASES  # noqa: E402
from training_times import least_loss, reached, window_ms  # noqa: E402

CASES = {case.name: case for case in CUDA_CASES}

# lockstep train, each step of which took 2 ms but those of the first window, or 1.5 with algorithms
# timed; it says 4 GiB.
FAKE_LOCKSTEP = """#!/usr/bin/env python3
import json, os, pathlib, sys
flags = dict(zip(sys.argv[2::2], sys.argv[3::2]))
assert sys.argv[1] == "train" and flags["--device"] == "cuda", sys.argv
assert os.environ["LD_LIBRARY_PATH"] == "/ours", os.environ["LD_LIBRARY_PATH"]
out, every, steps = pathlib.Path(flags["--out"]), int(flags["--log-every"]), int(flags["--steps"])
assert steps == 9 * every, (steps, every)  # eight windows after one that is not timed
out.mkdir()
slow = 4 if os.environ.get("LOCKSTEP_GRAPH") == "0" else 0.75 if "--algorithms" in flags else 1
rows = [{"step": step, "samples": step * int(flags["--global-batch"]),
         "step_ms": 99 if step == every else 2 * slow}
        for step in range(every, steps + 1, every)]
(out / "metrics.jsonl").write_text("\\n".join(map(json.dumps, rows)) + "\\n")
(out / "summary.json").write_text(json.dumps({"gpus": [{"memory_bytes": {"most": 4 * 2**30}}]}))
"""
# A Python with PyTorch: eager 9 ms a step, compiled 3 ms, everything else 5 ms.
FAKE_PYTHON = """#!/usr/bin/env python3
import json, sys
if sys.argv[1] == "-c":
    print("9.9")
    sys.exit()
case = json.loads(sys.argv[2])
if case["mode"] == BROKEN:
    sys.exit(1)
print(json.dumps({"step_ms": {"eager": 9, "compiled": 3}.get(case["mode"], 5),
                  "held_bytes": 2**31, "micro_batch": case["micro_batch"]}))
"""
FAKE_SMI = "#!/bin/sh\necho 'Made-up GPU, 1.0, 1 MiB'\n"


def check(condition, message):
    if not condition:
        sys.exit(f"comparison_test: {message}")


def equal(found, expected, what):
    check(found == expected, f"{what}: {found!r}, expected {expected!r}")


def check_times():
    rows = [{"step": 10, "step_ms": 50.0}, {"step": 20, "step_ms": 2.0},
            {"step": 20, "val_loss": 1.6, "seconds": 9.0}, {"step": 30, "step_ms": 4.0},
            {"step": 30, "val_loss": 1.4, "seconds": 9.0}]
    equal(window_ms(rows, 10), [2.0, 4.0], "windows behind step 10")
    equal(window_ms(rows, 11), [4.0], "windows behind step 11")
    short = [{"step": 2, "step_ms": 3.0, "samples": 16}, {"step": 4, "step_ms": 3.0, "samples": 28}]
    equal(window_ms(short, 2, 8), [4.0], "a window with a short batch")
    equal(reached(rows, 1.5), (30, 0.56), "loss 1.5 reached")
    equal(reached(rows, 1.3), None, "loss 1.3 reached")
    equal(least_loss(rows), (1.4, 30), "least loss")


def check_verdicts():
    gpt2, iris, free = CASES["gpt2-124m"], CASES["iris"], CASES["resnet18-tf32"]
    fast = 524_288 / 615_000 * 1e3  # milliseconds a step that give what is asked for
    equal(compare_cuda.verdict(gpt2, fast * 0.999, 1.15), "yes", "as fast as asked for")
    equal(compare_cuda.verdict(gpt2, fast * 1.001, 1.15), "NO", "too slow")
    equal(compare_cuda.verdict(gpt2, fast * 0.999, 1.14), "NO", "too little faster")
    equal(compare_cuda.verdict(gpt2, fast * 0.999, None), "not measured", "without PyTorch")
    equal(compare_cuda.verdict(iris, 0.025, None), "yes", "25 us")
    equal(compare_cuda.verdict(iris, 0.0251, 9.0), "NO", "25.1 us")
    equal(compare_cuda.verdict(free, 1.0, 1.0), "", "nothing is asked for")


def plan(program, command, folder):
    """Has the program plan what a command trains."""
    words = [str(program), "plan", *command[2:]]
    run = subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=120,
                         check=False)
    check(run.returncode == 0, f"{' '.join(words)}\n{run.stderr[-2000:]}")
    return run.stdout


def check_cases(program, folder):
    equal(len(CASES), len(CUDA_CASES), "cases of one name")
    text = folder / "text.txt"
    text.write_text("".join(map(chr, range(65, 130))) * 100)
    options = argparse.Namespace(build=pathlib.Path("build"), ranks=1, text=text, steps=0, scale=1)
    for case in CUDA_CASES:
        for ours in case.ours:
            command = compare_cuda.lockstep_command(case, ours.flags, 9, 3, folder, options)
            plan(program, command, folder)
        flags = dict(zip(case.lockstep[::2], case.lockstep[1::2]))
        settings = compare_cuda.peer_settings(case, case.modes[0], options)
        equal(float(flags["--lr"]), settings["optimizer"]["lr"], f"{case.name}: rate")
        equal(settings["batch"] % settings["micro_batch"], 0, f"{case.name}: micro-batches")
        if case.model == "gpt" and flags["--model"] == "gpt":
            for size in ("layers", "heads", "width", "context", "dropout"):
                equal(float(flags[f"--{size}"]), case.gpt[size], f"{case.name}: {size}")
        if case.model == "mlp":
            equal(flags["--hidden"], ",".join(map(str, case.widths[1:-1])), "iris: widths")


def compare(folder, *flags, path=None):
    environment = {**os.environ, "PATH": path or f"{folder}:{os.environ['PATH']}"}
    return subprocess.run(
        [sys.executable, "-B", HERE / "compare_pytorch.py", "--device", "cuda", "--build", folder,
         "--python", folder / "python", "--libraries", "/ours", "--repetitions", "2", *flags],
        capture_output=True, text=True, env=environment, timeout=120, check=False)


def write_program(path, text):
    path.write_text(text)
    path.chmod(0o755)


def check_comparison(folder):
    write_program(folder / "lockstep", FAKE_LOCKSTEP)
    write_program(folder / "python", FAKE_PYTHON.replace("BROKEN", "None"))
    write_program(folder / "nvidia-smi", FAKE_SMI)
    run = compare(folder, "--cases", "iris,resnet50", "--steps", "64")
    check(run.returncode == 0, f"exit code {run.returncode}\n{run.stderr}")
    # 150 samples in 2 ms, 256 in 1.5; PyTorch's best takes 3 ms.
    for line in ("| iris | fp32 | 150 | 2,000.0 | 75,000 samples/s (Lockstep) | 50,000 (compiled) "
                 "| 1.50x | 25 us a step | NO |",
                 "| resnet50 | bf16 | 256 | 1,500.0 | 170,667 images/s (Lockstep, algorithms timed) "
                 "| 85,333 (compiled) | 2.00x | 5,000 images/s, 1.3x | yes |",
                 "| iris | Lockstep | 2 (2 to 2) | 75,000 samples/s | 1.00x | 4.00 |",
                 "| iris | Lockstep without graphs | 8 (8 to 8) | 18,750 samples/s "
                 "| 4.00x | 4.00 |",
                 "| resnet50 | eager | 9 (9 to 9) | 28,444 images/s | 4.50x | 2.00 |",
                 "cases met: 1 of 2, 0 not measured"):
        check(line in run.stdout.splitlines(), f"not printed: {line}\n{run.stdout}")
    write_program(folder / "python", FAKE_PYTHON.replace("BROKEN", '"compiled"'))
    run = compare(folder, "--cases", "iris", "--steps", "64")
    equal(run.returncode, 1, "exit code where a mode fails")
    check("| iris | compiled | not measured |" in run.stdout and "(compiled-" in run.stdout,
          f"a mode that fails\n{run.stdout}")
    equal(compare(folder, "--cases", "convnet").returncode, 2, "exit code of a CPU's case")
    (folder / "nvidia-smi").unlink()
    equal(compare(folder, path=str(folder)).returncode, 3, "exit code without a GPU")


def check_exchange(program, folder):
    calls = []
    takes = {"a": iter([1.06, 1.04, 1.03]), "b": iter([1.0, 1.0, 1.0])}

    def run(kind):
        calls.append(kind)
        return next(takes[kind])

    times = exchange_cost.pairs_of(run, ["a", "b"], 3)
    equal("".join(calls), "abbaab", "order of the runs")
    equal(exchange_cost.row("m", 2, "fast", times),
          ["m", "2", "fast", "1.04", "1", "+4.00% (+3.00% to +6.00%)", "5.0%", "yes", "0.0%"],
          "a cost of 4%")
    equal(exchange_cost.row("m", 1, "one shard", [(1.006, 1.0)])[6:8], ["0.5%", "NO"],
          "0.6% on one rank")
    equal(exchange_cost.row("m", 4, "fast", [(0.99, 1.0), (1.01, 1.02)])[7], "yes", "a gain")
    equal(exchange_cost.pairs_of(lambda kind: None, ["a", "b"], 2), None, "a run that fails")
    for batch, model, *_ in exchange_cost.MODELS.values():
        for ranks in (1, 2):
            for _, other in exchange_cost.comparisons(ranks):
                for flags in (exchange_cost.REPRODUCIBLE, other):
                    plan(program, ["", "", *model, "--global-batch", str(batch), "--ranks",
                                   str(ranks), "--micro-batch",
                                   str(batch // exchange_cost.SHARDS), *flags], folder)


def check_launches():
    good = {"trouble": None, "first": 200, "last": 400, "launches": 600, "calls_in_all": 9000,
            "runtime": {"cudaGraphLaunch_v10000 311": 200, "cudaMemcpyAsync_v3020 41": 200,
                        "cudaEventQuery_v3020 1": 200}, "driver": {"cuGraphLaunch 514": 200}}
    equal(one_launch.faults(good, 1), [], "one launch a step")
    for change, what in (({"trouble": "no CUPTI"}, "nothing could be counted"),
                         ({"launches": 300}, "are needed to count between"),
                         ({"launches": 1200}, "launches of graphs in 600 steps of 1"),
                         ({"driver": {"cuLaunchKernel 307": 1}}, "beside the graph"),
                         ({"runtime": {"cudaStreamSynchronize_v3020 131": 1}}, "waits for all"),
                         ({"runtime": {"cudaMemcpy_v3020 31": 1}}, "waits for copies")):
        found = one_launch.faults({**good, **change}, 1)
        check(len(found) == 1 and what in found[0], f"{change}: {found}")
    equal(one_launch.faults({**good, "launches": 2400}, 4), [], "a launch a micro-batch")


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    check_times()
    check_verdicts()
    check_launches()
    with tempfile.TemporaryDirectory() as name:
        check_cases(program, pathlib.Path(name))
        check_exchange(program, pathlib.Path(name))
    with tempfile.TemporaryDirectory() as name:
        check_comparison(pathlib.Path(name))


main()
