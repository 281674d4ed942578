# SPDX-License-Identifier: Apache-2.0
"""What is asked of every run in which a fault was played."""
import dataclasses

T = 3  # seconds of --timeout in these tests


@dataclasses.dataclass
class Verdict:
    """What one played fault came to; `wrong` is empty where all was as promised."""
    variant: str
    ranks: int
    seconds: float | None = None   # from the fault until no other rank lived
    culprit: bool | None = None    # None: there is nobody to name
    code: int | None = None
    left: int = 0
    checkpoint: bool | None = None  # None: there is none yet
    not_played: str = ""  # why, where this machine does not allow it
    wrong: list = dataclasses.field(default_factory=list)
    text: str = ""

    def expect(self, holds, what):
        if not holds:
            self.wrong.append(what)
        return bool(holds)


def names(run, rank, words=(), recorded=True):
    """What is wrong with whom a run accuses: its last error on the screen and its records have to
    be of `rank`; `words` stand in the error (in lower case)."""
    wrong = []
    errors = run.errors()
    if not errors:
        return ["no error on the screen"]
    if errors[-1][1] != rank:
        wrong.append(f"the screen names rank {errors[-1][1]}, not {rank}: {errors[-1][2]}")
    said = run.text().lower()
    wrong += [f"'{word}' is not said" for word in words if word.lower() not in said]
    if "hint: " not in run.text():
        wrong.append("no hint on the screen")
    records = run.records()
    if recorded and not records:
        wrong.append("no record in any rank's log")
    wrong += [f"rank {by}'s log names rank {record['rank']}, not {rank}: {record['cause']}"
              for by, record in records if record["rank"] != rank]
    return wrong


def look_at_end(verdict, theatre, run):
    """What holds of every fault: it ended, nothing is left, the newest checkpoint is whole."""
    verdict.code, verdict.left, verdict.text = run.code, len(run.left), run.text()
    verdict.expect(not run.timed_out, "a hang")
    verdict.expect(not run.left, f"left over: {'; '.join(run.left)}")
    checkpoint = theatre.newest_checkpoint(run.folder)
    if checkpoint:
        wrong = theatre.loads(checkpoint)
        verdict.checkpoint = not wrong
        verdict.expect(not wrong, f"{checkpoint.name}: {wrong}")


def fatal(theatre, run, variant, ranks, *, rank=None, codes, bound_s, words=(), recorded=True,
          names_nobody=False):
    """The run had to end within `bound_s`, with one of `codes`, naming `rank`."""
    verdict = Verdict(variant, ranks)
    look_at_end(verdict, theatre, run)
    verdict.expect(run.code in codes, f"exit code {run.code}, not {' or '.join(map(str, codes))}")
    verdict.expect(run.fault_at is not None, "the fault was not played")
    verdict.seconds = run.detection_s()
    if run.fault_at is not None:
        if verdict.expect(run.knows_ranks(), f"only ranks {sorted(run.ranks)} were seen"):
            verdict.expect(verdict.seconds is not None and verdict.seconds <= bound_s,
                           f"{verdict.seconds} s, not within {bound_s} s")
    if not names_nobody:
        wrong = names(run, rank, words, recorded)
        verdict.culprit = not wrong
        verdict.wrong += wrong
    return verdict


def survived(theatre, run, variant, ranks, *, sha=None, codes=(0,), words=(), played=True):
    """The run had to end as if nothing had happened, with the bits of `sha`."""
    verdict = Verdict(variant, ranks)
    look_at_end(verdict, theatre, run)
    verdict.expect(run.code in codes, f"exit code {run.code}, not {codes[0]}")
    verdict.expect(not played or run.fault_at is not None, "the fault was not played")
    summary = theatre.summary(run.folder)
    if codes == (0,) and verdict.expect(summary, "no summary.json") and sha:
        verdict.expect(summary["weights_sha256"] == sha, "other bits than the undisturbed run")
    said = run.text().lower()
    for word in words:
        verdict.expect(word.lower() in said, f"'{word}' is not said")
    return verdict
