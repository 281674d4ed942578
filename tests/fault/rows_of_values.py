# SPDX-License-Identifier: Apache-2.0
"""Faults 10, 11, 12, 19 and 20: what is computed goes wrong, is slow, or cannot be told."""
import os

from played_run import Run
from rows_of_ranks import STEPS, by_hand, play, step_of, watched
from verdict import T, fatal, survived

K = 10  # steps between two comparisons of replicas in these tests
LAYERS = ("0", "2", "4")  # linear layers of the mlp of played_run.Theatre


def same_fault_on_one_rank(theatre, fault, *flags):
    """weights_sha256 of one rank that meets the same fault."""
    key = (fault, flags)
    if key not in theatre.known:
        run = play(theatre, 1, fault, *flags)
        if run.code != 0:
            return f"one rank ended with {run.code}: {run.text()[-600:]}"
        theatre.known[key] = theatre.summary(run.folder)["weights_sha256"]
    return theatre.known[key]


def not_finite(theatre, ranks, random):
    rank, layer, step = random.randrange(ranks), random.choice(LAYERS), step_of(random)
    run = play(theatre, ranks, f"rank={rank},step={step},do=nan:{layer}")
    return fatal(theatre, run, "stop", ranks, rank=rank, codes=(7,), bound_s=2 + T,
                 words=(f"step {step}", layer))


def not_finite_skipped(theatre, ranks, random):
    rank, step, flag = random.randrange(ranks), step_of(random), "--on-nonfinite=skip"
    run = play(theatre, ranks, f"rank={rank},step={step},do=nan:{random.choice(LAYERS)}", flag)
    sha = same_fault_on_one_rank(theatre, f"rank=0,step={step},do=nan:{LAYERS[0]}", flag)
    return survived(theatre, run, "skip", ranks, sha=sha, words=("skip", f"step {step}"))


def spike(theatre, ranks, random):
    step, flag = step_of(random), "--on-spike=rollback"
    fault = f"rank=0,step={step},do=scale-batch:1e6"
    run = play(theatre, ranks, fault, flag)
    return survived(theatre, run, "rollback", ranks,
                    sha=same_fault_on_one_rank(theatre, fault, flag), words=("rollback from step",))


def flipped(what):
    def variant(theatre, ranks, random):
        rank, step = random.randrange(ranks), step_of(random)
        run = play(theatre, ranks, f"rank={rank},step={step},do={what}",
                   f"--check-replicas-every={K}")
        # Of two that differ it is unknown which is right.
        verdict = fatal(theatre, run, what, ranks, rank=rank, codes=(6,), bound_s=2 + T,
                        names_nobody=ranks < 3)
        if ranks < 3:
            said = " ".join(text for _, _, text in run.errors())
            verdict.culprit = all(f"rank {r} ({os.uname().nodename})" in said for r in range(ranks))
            verdict.expect(verdict.culprit, f"not both ranks with their hosts are named: {said}")
        steps = [record["step"] for _, record in run.records()]
        verdict.expect(steps and max(steps) <= step + K, f"seen at {steps}, not by {step + K}")
        return verdict
    return what, variant


def slow(phase):
    def variant(theatre, ranks, random):
        rank = random.randrange(ranks)
        run = play(theatre, ranks, f"rank={rank},stage=training,phase={phase},times=1000000,"
                   "do=sleep:0.02")
        verdict = survived(theatre, run, f"slow {phase}", ranks,
                           sha=theatre.undisturbed(steps=STEPS))
        named = [line for _, line in run.lines if "slow" in line.lower() or "straggl" in line]
        named = [line for line in named if "injects the fault" not in line]
        right = [line for line in named if f"rank {rank}" in line and phase[:4] in line]
        verdict.culprit = bool(right)
        verdict.expect(right, f"rank {rank} is not named as slow in {phase}: {named}")
        return verdict
    return f"slow {phase}", variant


def full_output(theatre, ranks, random):
    with open("/dev/full", "w", encoding="ascii") as full:
        run = play(theatre, ranks, None, stdout=full)
    return survived(theatre, run, "/dev/full", ranks, sha=theatre.undisturbed(steps=STEPS),
                    played=False)


def closed_output(theatre, ranks, random):
    reader, writer = os.pipe()
    os.close(reader)
    run = play(theatre, ranks, None, stdout=writer)
    os.close(writer)
    return survived(theatre, run, "closed", ranks, sha=theatre.undisturbed(steps=STEPS),
                    played=False)


def record_without_a_screen(theatre, ranks, random):
    """A rank that throws where nothing reads: its record is in the logs all the same."""
    rank = random.randrange(ranks)
    command = theatre.train(ranks, *watched(), steps=STEPS)
    run = Run(["sh", "-c", 'exec "$@" >/dev/full 2>/dev/full', "sh", *command], theatre.place(),
              environment={"LOCKSTEP_FAULT": f"rank={rank},step={step_of(random)},do=throw"})
    verdict = survived(theatre, run, "throws unheard", ranks, codes=(1,), played=False)
    found = [record["rank"] for _, record in run.records()]
    verdict.culprit = bool(found) and set(found) == {rank}
    verdict.expect(verdict.culprit, f"records name {found}, not {rank}")
    return verdict


def clock(days):
    def variant(theatre, ranks, random):
        jump = {"LD_PRELOAD": theatre.shim,
                "CLOCK_JUMP": f"{days * 86400}@{random.uniform(0.5, 1):.2f}"}
        rank = random.randrange(ranks)
        flags = watched("--steps=6000", "--checkpoint-every=2000", "--eval-every=0")
        groups = [(rank, flags, {}), (1, flags, jump), (ranks - rank - 1, flags, {})]
        run = Run(by_hand(theatre, [g for g in groups if g[0] > 0]), theatre.place())
        verdict = survived(theatre, run, f"clock {days:+} day", ranks, played=False,
                           sha=theatre.undisturbed("--eval-every=0", "--checkpoint-every=2000",
                                                   steps=6000))
        verdict.expect(not run.errors(), "an error was said")
        return verdict
    return f"clock {days:+} day", variant


ROWS = [
    (10, "NaN on one rank", [("stop", not_finite), ("skip", not_finite_skipped)]),
    (11, "loss spike", [("rollback", spike)]),
    (12, "silent divergence", [flipped("flip-weight"), flipped("flip-gradient")]),
    (19, "straggler", [slow("forward"), slow("loading")]),
    (20, "output and clock", [("/dev/full", full_output), clock(1), clock(-1),
                              ("closed", closed_output),
                              ("throws unheard", record_without_a_screen)]),
]
