# SPDX-License-Identifier: Apache-2.0
"""Faults 13 to 18: disks, checkpoints, signals, restarts and records."""
import shutil
import signal
import struct
import zlib
from time import monotonic

from played_run import Run, send
from rows_of_ranks import DEAD, ENDLESS, STEPS, play, trains, watched
from verdict import T, Verdict, fatal, look_at_end, survived


def shim(theatre, calls, at, count=1, within="/checkpoints", number=None):
    """Environment that lets `calls` of the program fail."""
    environment = {"LD_PRELOAD": theatre.shim, "FAIL_PROGRAM": theatre.program,
                   "FAIL_CALLS": calls, "FAIL_AT": str(at), "FAIL_FOR": str(count),
                   "LOCKSTEP_CHECKPOINT_PARTS": "small"}
    if within:
        environment["FAIL_WITHIN"] = within
    if number:
        environment["FAIL_ERRNO"] = str(number)
    return environment


def no_leftover_files(verdict, run):
    names = [p.name for p in (run.folder / "run/checkpoints").glob("*")]
    wrong = [n for n in names if not n.startswith("step_") or len(n) != len("step_00000001")]
    verdict.expect(not wrong, f"left in checkpoints/: {wrong}")


def failing(call, number=5):
    """One call fails once in some save: a warning, and training ends with the same bits; the exit
    code is 1 where that was the last save."""
    def variant(theatre, ranks, random):
        # In the first saves; how many there are depends on how fast the disk is.
        most = {"write": 10, "fsync": 12, "rename": 2, "close": 12, "open": 12}[call]
        run = play(theatre, ranks, None,
                   environment=shim(theatre, call, random.randint(1, most), number=number))
        verdict = survived(theatre, run, f"{call} fails", ranks, played=False,
                           codes=(0,) if run.code == 0 else (1,))
        summary = theatre.summary(run.folder)
        verdict.expect(summary and summary["weights_sha256"] == theatre.undisturbed(steps=STEPS),
                       "other bits than the undisturbed run")
        warned = "was not written" in run.text() or "not removed" in run.text()
        verdict.culprit = "rank 0" in run.text() and warned
        verdict.expect(verdict.culprit or call in ("close", "open"), "no warning")
        verdict.expect(verdict.checkpoint, "no checkpoint is left")
        no_leftover_files(verdict, run)
        return verdict
    return f"{call} fails", variant


def full_for_good(theatre, ranks, random):
    """From some call on nothing more is taken: the run trains on, ends with 1, and the last
    checkpoint that fitted is whole."""
    # While the writer is busy nothing is saved: at full speed there may be two saves in all.
    run = play(theatre, ranks, "rank=*,stage=training,phase=loading,times=1000000000,do=sleep:0.005",
               environment=shim(theatre, "write", random.randint(40, 70), count=0, number=28))
    verdict = survived(theatre, run, "full for good", ranks, codes=(1,), played=False,
                       words=("was not written", "no space left", "hint: "))
    verdict.expect(verdict.checkpoint, "no checkpoint is left")
    no_leftover_files(verdict, run)
    summary = theatre.summary(run.folder)
    verdict.expect(summary and summary["weights_sha256"] == theatre.undisturbed(steps=STEPS),
                   "training did not go on")
    return verdict


def small_disk(theatre, ranks, random):
    """A disk of one megabyte below checkpoints/, seen by this run alone."""
    folder = theatre.place()
    checkpoints, kept = folder / "run/checkpoints", folder / "kept"
    checkpoints.mkdir(parents=True)
    flags = watched("--hidden=256,256", "--force", "--checkpoint-keep=2")
    script = (f"mount -t tmpfs -o size=1m none {checkpoints} || exit 77; \"$@\"; code=$?; "
              f"cp -r {checkpoints} {kept}; umount {checkpoints}; exit $code")
    run = Run(["unshare", "-m", "sh", "-c", script, "sh",
               *theatre.train(ranks, *flags, steps=STEPS)], folder)
    verdict = Verdict("disk of 1 MB", ranks)
    if run.code == 77 or run.text().startswith("unshare: "):
        verdict.not_played = "nothing may be mounted here"
        return verdict
    if kept.exists():
        checkpoints.rmdir()
        shutil.move(kept, checkpoints)
    look_at_end(verdict, theatre, run)
    verdict.expect(run.code in (0, 1), f"exit code {run.code}")
    verdict.expect("No space left" in run.text() and "hint: " in run.text(), "no warning")
    verdict.culprit = "[rank 0 " in run.text()
    verdict.expect(verdict.checkpoint, "no checkpoint is left")
    no_leftover_files(verdict, run)
    return verdict


def goes_on(theatre, verdict, run, ranks, what="the run that goes on"):
    """--resume auto has to end with the bits of the undisturbed run."""
    after = Run(theatre.train(ranks, *watched("--resume=auto"), steps=STEPS), run.folder)
    if verdict.expect(after.code == 0, f"{what}: exit code {after.code}: {after.text()[-500:]}"):
        sha = theatre.summary(run.folder)["weights_sha256"]
        verdict.expect(sha == theatre.undisturbed(steps=STEPS), f"{what}: other bits")
    return after


def hit_while_saving(what):
    """A rank, any of those that write, is killed or stopped in the midst of a save."""
    number = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}[what]

    def variant(theatre, ranks, random):
        victim = random.randrange(ranks)
        moment, begin = random.uniform(0, 0.01), []

        def act(run):
            folder = run.folder / "run/checkpoints"
            names = [p.name for p in folder.glob("*")] if folder.exists() else []
            writing = [n for n in names if len(n) != len("step_00000001")]
            if len(run.ranks) < ranks or len(names) == len(writing) or not writing:
                return False
            begin.append(monotonic())
            while monotonic() < begin[0] + moment:
                pass
            run.begin_fault()
            if what == "stopped":
                run.excused = {victim}
            send(run.ranks[victim], number)
            return True

        # Ever new checkpoints, so that one is always being written.
        run = play(theatre, ranks, None, f"--steps={ENDLESS}", "--checkpoint-every=1", acts=[act])
        verdict = fatal(theatre, run, what, ranks, rank=victim,
                        codes=DEAD if what == "killed" else (5,),
                        bound_s=2 if what == "killed" else T + 1)
        verdict.expect(verdict.checkpoint, "no checkpoint is left")
        again = Run(theatre.train(ranks, *watched("--resume=auto", f"--steps={ENDLESS}",
                                                  f"--checkpoint-every={ENDLESS}", "--eval-every=0",
                                                  "--resume-override")), run.folder,
                    acts=[lambda r: trains(r, ranks) and stop(r)])
        verdict.expect(again.code in (0, 75), f"resume: exit code {again.code}: "
                       f"{again.text()[-300:]}")
        no_leftover_files(verdict, again)
        return verdict
    return what, variant


def stop(run):
    run.begin_fault()
    send(run.process.pid, signal.SIGTERM)
    return True


def damaged(how):
    def variant(theatre, ranks, random):
        run = play(theatre, ranks, None, "--checkpoint-keep=3")
        verdict = Verdict(how, ranks)
        newest = theatre.newest_checkpoint(run.folder)
        file = newest / random.choice(["model.safetensors", "optimizer.safetensors", "state.json"])
        content = bytearray(file.read_bytes())
        at = random.randrange(len(content))
        if how == "truncated":
            content = content[:at]
        else:
            content[at] ^= 1 << random.randrange(8)
        file.write_bytes(content)
        refused = Run(theatre.train(ranks, *watched(f"--resume={newest}"), out="branch",
                                    steps=STEPS), run.folder)
        verdict.expect(refused.code == 1, f"damaged: exit code {refused.code}, not 1")
        verdict.culprit = file.name in refused.text() and "hint: " in refused.text()
        verdict.expect(verdict.culprit, f"{file.name} is not named: {refused.text()[-300:]}")
        after = goes_on(theatre, verdict, run, ranks)
        verdict.expect(f"skipped    {newest.name}" in after.text(), "it was not skipped")
        look_at_end(verdict, theatre, after)
        verdict.code = refused.code
        return verdict
    return how, variant


def signalled(name, whom, when):
    number = getattr(signal, name)

    def ready(run, ranks):
        if when == "start":
            return len(run.ranks) == ranks and (run.folder / "run/logs/rank_0.log").exists()
        if when == "evaluation":
            return trains(run, ranks) and "validation" in run.text()
        return trains(run, ranks)

    def variant(theatre, ranks, random):
        rank = random.randrange(ranks)

        def act(run):
            if not ready(run, ranks):
                return False
            run.begin_fault()
            victim = run.process.pid if whom == "launcher" else run.ranks[rank]
            send(victim, number)
            send(victim, number)
            return True

        run = play(theatre, ranks, None, "--steps=100000000", "--checkpoint-every=5000",
                   "--eval-every=300" if when == "evaluation" else "--eval-every=0", acts=[act])
        verdict = Verdict(f"{name} to {whom}, {when}", ranks)
        look_at_end(verdict, theatre, run)
        verdict.seconds = run.detection_s()
        verdict.expect(run.code == 75, f"exit code {run.code}, not 75")
        verdict.expect(verdict.checkpoint, "no checkpoint is left")
        return verdict
    return f"{name} to {whom}, {when}", variant


def other_ranks(theatre, ranks, random):
    """4, 2, 3, 1 ranks in turn, each stopped somewhere."""
    steps, turns = 4000, [4, 2, 3, 1]
    flags = watched("--checkpoint-every=4000", "--eval-every=0", "--resume=auto")
    folder, verdict = theatre.place(), Verdict("4, 2, 3, 1", 4)
    for i, count in enumerate(turns):
        moment, begin = random.uniform(0, 0.2), []

        def act(run, count=count, moment=moment, begin=begin):
            if not (trains(run, count) if count > 1 else "step " in run.text()):
                return False
            begin.append(monotonic())
            return monotonic() > begin[0] + moment and stop(run)

        run = Run(theatre.train(count, *flags, steps=steps), folder,
                  acts=[act] if i + 1 < len(turns) else [])
        verdict.expect(run.code in (0, 75), f"{count} ranks: exit code {run.code}: "
                       f"{run.text()[-300:]}")
    look_at_end(verdict, theatre, run)
    summary = theatre.summary(folder)
    known = theatre.undisturbed("--checkpoint-every=4000", "--eval-every=0", steps=steps)
    verdict.expect(summary and summary["weights_sha256"] == known, "other bits")
    return verdict


def picture(seed):
    """A PNG of 8x8."""
    def chunk(name, body):
        return (struct.pack(">I", len(body)) + name + body +
                struct.pack(">I", zlib.crc32(name + body)))
    rows = b"".join(b"\0" + bytes((seed * 40 + x * y * 3 + c) % 256 for x in range(8)
                                  for c in range(3)) for y in range(8))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def pictures(folder):
    """48 images in two classes; returns those for training."""
    for part, count in (("train", 40), ("val", 8)):
        for i in range(count):
            path = folder / f"photos/{part}/{'ab'[i % 2]}/{i:03}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture(i))
    return sorted((folder / "photos/train").glob("*/*.png"))


PICTURES = ("--image-size=8", "--val-fraction=0", "--data=images:photos", "--checkpoint-every=5")


def train_pictures(theatre, ranks, folder, *flags, steps=40, **options):
    command = [a for a in theatre.train(ranks, *watched(*PICTURES, *flags), steps=steps)
               if not str(a).startswith("--val-fraction")]
    return Run(command, folder, **options)


def flip(path, random):
    content = bytearray(path.read_bytes())
    content[random.randrange(40, len(content) - 20)] ^= 0x10  # in or around the pixels' stream
    path.write_bytes(content)


def corrupt(theatre, ranks, random):
    folder = theatre.place()
    bad = random.choice(pictures(folder))
    flip(bad, random)
    run = train_pictures(theatre, ranks, folder)
    verdict = Verdict("a flipped byte", ranks, seconds=run.ended - run.began)
    look_at_end(verdict, theatre, run)
    verdict.expect(run.code == 1, f"exit code {run.code}, not 1")
    verdict.culprit = bad.name in run.text() and "--skip-bad-samples" in run.text()
    verdict.expect(verdict.culprit, f"{bad.name} is not named: {run.text()[-300:]}")
    return verdict


def corrupt_skipped(theatre, ranks, random):
    folder = theatre.place()
    bad = random.choice(pictures(folder))
    flip(bad, random)
    run = train_pictures(theatre, ranks, folder, "--skip-bad-samples")
    verdict = survived(theatre, run, "skip mode", ranks, played=False, words=(bad.name,))
    alone = train_pictures(theatre, 1, folder, "--skip-bad-samples", "--out=alone")
    first, second = theatre.summary(folder), theatre.summary(folder, "alone")
    if verdict.expect(first and second, "no summary.json: " + alone.text()[-200:]):
        for key in ("weights_sha256", "skipped_samples"):
            verdict.expect(first[key] == second[key], f"one rank has another {key}")
        verdict.expect(first["skipped_samples"] > 0, "nothing was counted")
    return verdict


def deleted(theatre, ranks, random):
    folder = theatre.place()
    bad = random.choice(pictures(folder))

    def act(run):
        if not trains(run, ranks):
            return False
        run.begin_fault()
        bad.unlink()
        return True

    run = train_pictures(theatre, ranks, folder, steps=ENDLESS, acts=[act])
    verdict = Verdict("deleted in mid-run", ranks, seconds=run.detection_s())
    look_at_end(verdict, theatre, run)
    verdict.expect(run.code == 1, f"exit code {run.code}, not 1")
    verdict.culprit = bad.name in run.text()
    verdict.expect(verdict.culprit, f"{bad.name} is not named: {run.text()[-300:]}")
    return verdict


ROWS = [
    (13, "disk full, I/O error", [("1 MB", small_disk), failing("fsync"), failing("rename"),
                                  ("full for good", full_for_good), failing("write"),
                                  failing("open"), failing("close")]),
    (14, "crash while saving", [hit_while_saving("killed"), hit_while_saving("stopped")]),
    (15, "damaged checkpoint", [damaged("truncated"), damaged("bit flipped")]),
    (16, "SIGTERM, SIGUSR1", [signalled("SIGTERM", "launcher", "training"),
                              signalled("SIGUSR1", "one rank", "training"),
                              signalled("SIGTERM", "one rank", "evaluation"),
                              signalled("SIGTERM", "launcher", "start")]),
    (17, "other rank counts", [("4, 2, 3, 1", other_ranks)]),
    (18, "corrupt record", [("flipped", corrupt), ("skip mode", corrupt_skipped),
                            ("deleted", deleted)]),
]
