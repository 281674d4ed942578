#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether a GPU holds what `lockstep plan` says it will.

  memory_use.py LOCKSTEP FOLDER [CASE...]
  memory_use.py --self-test

For each case: what the device reports in use with nobody there, the plan, a training of some
seconds, and the most that the device reported in use meanwhile. The difference of the last and the
first is compared with the plan's `limited_bytes` and `context_and_libraries`: exit code 1 where they
are more than 2% apart. The same training without CUDA graphs shows what those add. --self-test checks that arithmetic on made-up numbers.
"""
import json
import os
import pathlib
import subprocess
import sys

MOST_APART = 0.02
GPT2 = ["--model", "gpt2-124m", "--optimizer", "adamw", "--global-batch", "64", "--micro-batch", "16",
        "--clip-norm", "1"]
CASES = {
    "resnet50": ["--data", "synthetic:224x224x3:1000", "--model", "resnet50", "--momentum", "0.9",
                 "--global-batch", "256", "--micro-batch", "64"],
    "gpt2-124m": GPT2,
}
EVERYWHERE = ["--device", "cuda", "--ranks", "1", "--precision", "bf16", "--eval-every", "0"]
HEADING = ("| case | on the device as planned | context and libraries | before | most in use | apart "
           "| without graphs |\n|---|---|---|---|---|---|---|")


def compare(plan, summary, before):
    """(cells of the table, whether plan and device agree). Bytes."""
    if not plan["complete"]:
        raise SystemExit(f"memory_use: the plan does not know all of {plan['device']}")
    context = plan["categories"]["context_and_libraries"]
    if context is None:
        raise SystemExit("memory_use: the plan does not know context and libraries: NVML is silent")
    gpu, = summary["gpus"]
    if gpu["trouble"] is not None or gpu["memory_bytes"] is None:
        raise SystemExit(f"memory_use: the GPU was not watched: {gpu['trouble']}")
    most = gpu["memory_bytes"]["most"]
    planned = plan["limited_bytes"] + context
    apart = (most - before - planned) / planned
    cells = [f"{bytes_ / 2 ** 20:,.0f} MiB"
             for bytes_ in (plan["limited_bytes"], context, before, most)]
    return [*cells, f"{100 * apart:+.2f}%"], abs(apart) <= MOST_APART


def run(command, **variables):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=False,
                          env={**os.environ, **variables})
    if done.returncode != 0:
        raise SystemExit(f"memory_use: exit code {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout


def in_use():
    text = run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"])
    return int(text.splitlines()[0]) * 2 ** 20


def tokens_in(folder):
    """A text of 8 MiB in bytes of tokens, made once."""
    file = folder / "text.txt"
    if not file.exists():
        file.write_text("The cat sat on the mat and looked at the moon. " * 180_000, encoding="ascii")
    return ["--data", f"text:{file}"]


def without_graphs(summary):
    gpu, = summary["gpus"]
    held = gpu["memory_bytes"]
    return f"{held['most'] / 2 ** 20:,.0f} MiB" if held else "not watched"


def measure(lockstep, folder, name):
    flags = CASES[name] + EVERYWHERE + (tokens_in(folder) if name.startswith("gpt") else [])
    before = in_use()
    plan = json.loads(run([lockstep, "plan", "--json", *flags]))
    out = folder / name

    def train(**variables):
        run([lockstep, "train", "--out", out, "--force", "--steps", "60", "--log-every", "10",
             "--checkpoint-every", "0", *flags], **variables)
        return json.loads((out / "summary.json").read_text(encoding="utf-8"))

    cells, agrees = compare(plan, train(), before)
    return [*cells, without_graphs(train(LOCKSTEP_GRAPH="0"))], agrees


def self_test():
    def outcome(most, context=500, trouble=None, complete=True):
        plan = {"complete": complete, "device": "x", "limited_bytes": 9500,
                "categories": {"context_and_libraries": context}}
        used = None if trouble else {"most": most}
        try:
            return compare(plan, {"gpus": [{"trouble": trouble, "memory_bytes": used}]}, 1000)
        except SystemExit as refusal:
            return str(refusal)

    assert without_graphs({"gpus": [{"memory_bytes": {"most": 3 * 2 ** 20}}]}) == "3 MiB"
    assert without_graphs({"gpus": [{"memory_bytes": None}]}) == "not watched"
    assert outcome(11_000) == (["0 MiB"] * 4 + ["+0.00%"], True)
    assert outcome(11_200)[1] and not outcome(11_201)[1], "2% more is the most"
    assert outcome(10_800)[1] and not outcome(10_799)[1], "2% less is the least"
    assert "context and libraries" in outcome(11_000, context=None)
    assert "not watched: lost" in outcome(11_000, trouble="lost")
    assert "does not know all" in outcome(11_000, complete=False)
    print("memory_use: self-test passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    lockstep, folder, *names = sys.argv[1:]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    print(HEADING)
    apart = []
    for name in names or CASES:
        cells, agrees = measure(lockstep, folder, name)
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        if not agrees:
            apart.append(name)
    print(f"\nWithin {100 * MOST_APART:.0f}% of the plan: {len(names or CASES) - len(apart)} of "
          f"{len(names or CASES)}")
    return 1 if apart else 0


sys.exit(main())
