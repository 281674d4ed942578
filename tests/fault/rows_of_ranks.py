# SPDX-License-Identifier: Apache-2.0
"""Faults 1 to 9: ranks that die, freeze, fail, leave, differ or have no memory.

A row is a number, a name, and its variants: functions of (theatre, ranks, random) that play the
fault once and return a Verdict.
"""
import re
import resource
import signal
from time import monotonic

from played_run import RAN_OUT, Run, send
from verdict import T, Verdict, fatal, look_at_end, survived

DEAD = (1, 5, 137)  # where mpirun sees a death first, it says 128 + 9
STEPS = 400
ENDLESS = 2_000_000  # of a run that the fault has to find before its end


def watched(*flags):
    return (f"--timeout={T}", *flags)


def step_of(random):
    return random.randint(150, STEPS - 30)  # after the first checkpoints


def plan(random, rank, place, do):
    """The text of LOCKSTEP_FAULT for one of PLACES."""
    if place in ("start", "evaluation", "saving"):
        return f"rank={rank},stage={place},do={do}"
    return f"rank={rank},step={step_of(random)},stage=training,phase={place},do={do}"


PLACES = ("exchange", "forward", "evaluation", "start", "saving", "backward", "loading",
          "optimizer")


def victim(ranks, random, place):
    """Rank 0 alone saves."""
    return 0 if place == "saving" else random.randrange(ranks)


def play(theatre, ranks, fault, *flags, environment=None, **options):
    return Run(theatre.train(ranks, *watched(*flags), steps=STEPS), theatre.place(),
               environment={**({"LOCKSTEP_FAULT": fault} if fault else {}), **(environment or {})},
               **options)


def trains(run, ranks):
    """Whether all ranks are known and the first steps were told."""
    return len(run.ranks) == ranks and any(line.startswith("step ") for _, line in run.lines)


def killed(place):
    def variant(theatre, ranks, random):
        rank = victim(ranks, random, place)
        run = play(theatre, ranks, plan(random, rank, place, "kill"))
        return fatal(theatre, run, place, ranks, rank=rank, codes=DEAD, bound_s=2,
                     recorded=place != "start")
    return place, variant


def killed_from_outside(theatre, ranks, random):
    rank, moment, begin = random.randrange(ranks), random.uniform(0, 0.3), []

    def act(run):
        if not trains(run, ranks):
            return False
        begin.append(monotonic())
        if monotonic() < begin[0] + moment:
            return False
        run.begin_fault()
        send(run.ranks[rank], signal.SIGKILL)
        return True

    run = play(theatre, ranks, None, f"--steps={ENDLESS}", "--checkpoint-every=500", acts=[act])
    return fatal(theatre, run, "from outside", ranks, rank=rank, codes=DEAD, bound_s=2)


def frozen(place, do="stop"):
    def variant(theatre, ranks, random):
        rank = victim(ranks, random, place)

        def excuse(run):
            run.excused = {rank}
            return True

        run = play(theatre, ranks, plan(random, rank, place, do), acts=[excuse])
        return fatal(theatre, run, f"{place}, {do}", ranks, rank=rank, codes=(5,), bound_s=T + 1,
                     recorded=place != "start")
    return f"{place}, {do}", variant


def frozen_for_a_while(theatre, ranks, random):
    rank, place = random.randrange(ranks), random.choice(["exchange", "forward", "optimizer"])

    def act(run):
        if run.fault_at is None or monotonic() < run.fault_at + T / 2:
            return False
        run.find_ranks()
        send(run.ranks[rank], signal.SIGCONT)
        return True

    run = play(theatre, ranks, plan(random, rank, place, "stop"), acts=[act])
    verdict = survived(theatre, run, "goes on at T/2", ranks, sha=theatre.undisturbed(steps=STEPS))
    verdict.expect(not run.errors(), "an error was said")
    return verdict


def throws(place):
    def variant(theatre, ranks, random):
        rank = victim(ranks, random, place)
        run = play(theatre, ranks, plan(random, rank, place, "throw"))
        return fatal(theatre, run, place, ranks, rank=rank, codes=(1,), bound_s=2,
                     words=("asks for an exception",), recorded=place != "start")
    return place, variant


def leaves(place):
    def variant(theatre, ranks, random):
        rank = victim(ranks, random, place)
        run = play(theatre, ranks, plan(random, rank, place, "exit"))
        # mpirun alone would say 1, or 5 where it saw the end of another rank first.
        return fatal(theatre, run, place, ranks, rank=rank, codes=(5,), bound_s=2,
                     recorded=place != "start")
    return place, variant


def launcher_killed(how, direct):
    """`direct`: mpirun was started by hand, and no parent of ours stands by."""
    def variant(theatre, ranks, random):
        moments = {"SIGKILL": [(0, signal.SIGKILL)],
                   "SIGTERM twice": [(0, signal.SIGTERM), (0.5, signal.SIGTERM)]}[how]

        def act(run):
            if not trains(run, ranks):
                return False
            launcher = run.find_launcher()
            if launcher is None:
                return False
            run.begin_fault()
            for wait, number in moments:
                if monotonic() < run.fault_at + wait:
                    return False
                send(launcher, number)
            return True

        flags = watched(f"--steps={ENDLESS}", "--checkpoint-every=500")
        command = theatre.train(ranks, *flags)
        if direct:
            command = by_hand(theatre, [(ranks, flags, {})])
        run = Run(command, theatre.place(), acts=[act])
        return fatal(theatre, run, f"{how}{', by hand' if direct else ''}", ranks, bound_s=5,
                     codes=(137, 143, 1, -9, -15), names_nobody=True)
    return f"{how}{', by hand' if direct else ''}", variant


def by_hand(theatre, groups):
    """mpirun with groups of (ranks, flags, environment)."""
    command = ["mpirun", "--oversubscribe", "--bind-to", "none"]
    for i, (count, flags, environment) in enumerate(groups):
        arguments = [a for a in theatre.train(0, *flags) if not str(a).startswith("--ranks")]
        command += ([":"] if i else []) + ["-np", str(count)]
        if environment:
            command += ["env", *(f"{k}={v}" for k, v in environment.items())]
        command += arguments
    return command


def never_joins(theatre, ranks, random):
    rank = random.randrange(ranks)

    def excuse(run):
        run.excused = {rank}
        return True

    run = play(theatre, ranks, f"rank={rank},do=never-join", "--timeout-start=5", acts=[excuse])
    verdict = fatal(theatre, run, "asleep", ranks, codes=(5,), bound_s=6, names_nobody=True)
    said = [what for _, _, what in run.errors()]
    verdict.culprit = any(f"rank {rank} has not come" in text for text in said)
    verdict.expect(verdict.culprit, f"rank {rank} is not named as absent: {said}")
    return verdict


def differs(what, flag, key):
    def variant(theatre, ranks, random):
        rank = random.randrange(ranks)
        sizes = [(rank, ()), (1, (flag,)), (ranks - rank - 1, ())]
        run = Run(by_hand(theatre, [(n, watched(f"--steps={STEPS}", *more), {})
                                    for n, more in sizes if n > 0]), theatre.place())
        verdict = Verdict(what, ranks, seconds=run.ended - run.began)
        look_at_end(verdict, theatre, run)
        verdict.expect(run.code == 2, f"exit code {run.code}, not 2")
        verdict.expect(not (run.folder / "run/metrics.jsonl").exists(), "steps were done")
        said = " ".join(text for _, _, text in run.errors())
        verdict.culprit = key in said and "rank" in said
        verdict.expect(verdict.culprit, f"{key} is not named: {said}")
        return verdict
    return what, variant


def mismatched(do):
    def variant(theatre, ranks, random):
        rank = random.randrange(ranks)
        run = play(theatre, ranks, f"rank={rank},step={step_of(random)},do={do}",
                   environment={"LOCKSTEP_CHECK_COLLECTIVES": "1"})
        verdict = fatal(theatre, run, do, ranks, rank=rank, codes=(1,), bound_s=2,
                        words=("ranks call different collectives",), names_nobody=ranks == 2)
        if ranks == 2:  # either may be wrong: what each wanted
            said = " ".join(text for _, _, text in run.errors())
            verdict.culprit = all(re.search(rf"rank {r}\b", said) for r in range(ranks))
            verdict.expect(verdict.culprit, f"both ranks are not named: {said}")
            verdict.expect("ranks call different collectives" in said, f"another cause: {said}")
        return verdict
    return do, variant


def limited():
    """Of address space: far above what a rank needs, far below what it may take from others."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


def out_of_memory(theatre, ranks, random):
    rank = random.randrange(ranks)
    place = random.choice(["forward", "exchange", "optimizer"])
    run = play(theatre, ranks, plan(random, rank, place, "memory"), before=limited)
    verdict = fatal(theatre, run, f"taken, {place}", ranks, rank=rank, codes=(4,), bound_s=2,
                    words=("memory", "bytes"))
    verdict.expect(RAN_OUT in run.text(), "the memory did not run out")
    return verdict


def small_limit(theatre, ranks, random):
    """prlimit on one rank, too little for its model."""
    rank = random.randrange(ranks)
    flags = watched(f"--steps={STEPS}", "--hidden=4096,4096,4096")
    sizes = [(rank, False), (1, True), (ranks - rank - 1, False)]
    command = ["mpirun", "--oversubscribe", "--bind-to", "none"]
    for i, (count, small) in enumerate(s for s in sizes if s[0] > 0):
        arguments = [a for a in theatre.train(0, *flags) if not str(a).startswith("--ranks")]
        command += ([":"] if i else []) + ["-np", str(count)]
        command += (["prlimit", f"--as={small_bytes(theatre)}"] if small else []) + arguments
    run = Run(command, theatre.place())
    verdict = fatal(theatre, run, "prlimit", ranks, rank=rank, codes=(4,), bound_s=90,
                    words=("bytes",), recorded=False)
    verdict.wrong = [w for w in verdict.wrong if w != "the fault was not played"]
    return verdict


def small_bytes(theatre):
    """What a rank of the small model takes in address space, and 64 MiB for what is to fail."""
    if not hasattr(theatre, "address_space"):
        seen = [0]

        def act(run):
            for pid in run.ranks.values():
                try:
                    for line in open(f"/proc/{pid}/status", encoding="ascii"):
                        if line.startswith("VmPeak"):
                            seen[0] = max(seen[0], int(line.split()[1]) << 10)
                except OSError:
                    continue
            return False

        Run(theatre.train(2, *watched("--steps=2000")), theatre.place(), acts=[act])
        theatre.address_space = seen[0] + (64 << 20)
    return theatre.address_space


ROWS = [
    (1, "rank killed", [killed(p) for p in PLACES] + [("from outside", killed_from_outside)]),
    (2, "rank frozen", [frozen("exchange"), ("goes on at T/2", frozen_for_a_while),
                        frozen("forward", "hang"), frozen("evaluation"), frozen("start"),
                        frozen("saving"), frozen("optimizer"), frozen("loading"),
                        frozen("exchange", "hang")]),
    (3, "rank throws", [throws(p) for p in PLACES]),
    (4, "early clean exit", [leaves(p) for p in PLACES]),
    (5, "launcher killed", [launcher_killed("SIGKILL", False), launcher_killed("SIGKILL", True),
                            launcher_killed("SIGTERM twice", False),
                            launcher_killed("SIGTERM twice", True)]),
    (6, "rank never joins", [("asleep", never_joins)]),
    (7, "settings differ", [differs("learning rate", "--lr=0.02", "lr="),
                            differs("seed", "--seed=7", "seed"),
                            differs("layer", "--hidden=32,16", "model")]),
    (8, "collectives differ", [mismatched("skip-bucket"), mismatched("halve-count")]),
    (9, "out of memory", [("taken", out_of_memory), ("prlimit", small_limit)]),
]
