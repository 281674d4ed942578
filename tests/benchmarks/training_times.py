# SPDX-License-Identifier: Apache-2.0
"""What a run's metrics.jsonl says of its speed: step times without the first steps, and how long it
trained until a validation loss was reached. Evaluations and checkpoints count in neither."""
import json


def read_rows(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def window_ms(rows, lead, batch=None):
    """Milliseconds a step between two log lines, each such window one number, but those in which
    one of the first `lead` steps is. With `batch`, for that many samples: the last batch of an
    epoch may have fewer."""
    times, before, samples = [], 0, 0
    for row in rows:
        if "step_ms" in row:
            if before >= lead:
                whole = 1.0
                if batch:
                    whole = (row["step"] - before) * batch / (row["samples"] - samples)
                times.append(row["step_ms"] * whole)
            before, samples = row["step"], row.get("samples", 0)
    return times


def reached(rows, loss):
    """(step, seconds of training) of the first validation at or below `loss`; None without one."""
    seconds, before = 0.0, 0
    for row in rows:
        if "step_ms" in row:
            seconds += (row["step"] - before) * row["step_ms"] / 1e3
            before = row["step"]
        elif row.get("val_loss") is not None and row["val_loss"] <= loss:
            if before != row["step"]:
                raise ValueError(f"validation after step {row['step']}, last logged is {before}")
            return row["step"], seconds
    return None


def least_loss(rows):
    """(loss, step) of the best validation; None without one."""
    return min(((row["val_loss"], row["step"]) for row in rows
                if row.get("val_loss") is not None), default=None)
