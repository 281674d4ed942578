# SPDX-License-Identifier: Apache-2.0
"""What the comparisons on a CPU and on a GPU share: generated data, tables, where they ran."""
import array
import pathlib
import platform
import random
import subprocess

PROJECT = pathlib.Path(__file__).resolve().parents[2]


def write_table(case, folder):
    """A CSV of standard normal features and uniform labels, every class present."""
    path = folder / f"{case.name}.csv"
    if not path.exists():
        generator = random.Random(1)
        features, classes = case.widths[0], case.widths[-1]
        with open(path, "w") as file:
            file.write(",".join(f"x{i}" for i in range(features)) + ",label\n")
            for row in range(case.samples):
                values = (f"{generator.gauss(0, 1):.6f}" for _ in range(features))
                file.write(",".join(values) + f",{row % classes}\n")
    return path


def write_tokens(path, vocabulary, count):
    """`count` 16-bit tokens below `vocabulary`, each as likely as the others."""
    if not path.exists():
        tokens = array.array("H", random.Random(1).choices(range(vocabulary), k=count))
        path.write_bytes(tokens.tobytes())
    return path


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def commit():
    git = subprocess.run(["git", "-C", str(PROJECT), "rev-parse", "--short", "HEAD"],
                         capture_output=True, text=True)
    kit = PROJECT / "kit.txt"  # of a bundle, which has no history
    if git.returncode != 0 and kit.exists():
        return dict(line.split(" ", 1) for line in kit.read_text().splitlines())["commit"]
    return git.stdout.strip() or "unknown"


def print_table(header, rows):
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for cells in rows:
        print("| " + " | ".join(cells) + " |")
