# SPDX-License-Identifier: Apache-2.0
"""The command lines that storage.py disturbs, and what has to come of each."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile

from played_run import LAUNCHER_PREFIXES, OPEN_MPI, ROWS
from rows_of_files import picture

STEPS = 8
TRAIN = ["--global-batch=8", "--micro-batch=4", f"--steps={STEPS}", "--lr=0.05",
         "--checkpoint-every=3", "--eval-every=4", "--checkpoint-keep=1", "--log-every=1",
         "--workers=1", "--ranks=1",
         "--tensorboard=on", "--out=run"]
MLP = ["--model=mlp", "--hidden=8", "--momentum=0.9"]
DATA = {
    "table": [*MLP, "--data=csv:{data}/table.csv", "--val-fraction=0.2"],
    "packed": [*MLP, "--data=packed:{data}/photos.pack", "--image-size=8"],
    "tokens": ["--model=gpt", "--layers=1", "--heads=1", "--width=8", "--context=8",
               "--data=tokens:{data}/tokens.bin", "--vocabulary=11", "--val-fraction=0.2"],
}
# Time for a save between two others: which steps are saved must not depend on the disk's speed.
PACE = {"LOCKSTEP_FAULT": "rank=*,stage=training,phase=loading,times=1000000000,do=sleep:0.01"}
NEWEST = f"run/checkpoints/step_{STEPS:08}"
LIMIT_S = 60


class Stage:
    """The program, its data and the runs that commands begin with, in a folder of their own."""

    def __init__(self, program, shim):
        self.program, self.shim = os.path.abspath(program), os.path.abspath(shim)
        if not os.path.exists(self.shim):
            raise SystemExit(f"{shim}: not built")  # the loader would only warn
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-storage-"))
        self.data = self.folder / "data"
        self.data.mkdir()
        # mpirun's own files lie in TMPDIR, never here.
        self.environment = {k: v for k, v in os.environ.items()
                            if not k.startswith(LAUNCHER_PREFIXES)}
        self.environment |= {"OMP_NUM_THREADS": "1", "LOCKSTEP_CHECKPOINT_PARTS": "small", **OPEN_MPI, **PACE}
        self.write_data()

    def write_data(self):
        (self.data / "table.csv").write_text("".join(ROWS.splitlines(True)[:61]))
        tokens = struct.pack("<400H", *(i * i % 11 for i in range(400)))
        (self.data / "tokens.bin").write_bytes(tokens)
        for part, count in (("train", 16), ("val", 8)):
            for i in range(count):
                path = self.data / f"photos/{part}/{'ab'[i % 2]}/{i:03}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(picture(i))
        self.need(["pack", f"--data=images:{self.data}/photos", "--out=photos.pack",
                   "--image-size=8"], self.data)
        for name in ("table", "packed"):
            (self.folder / f"done_{name}").mkdir()
            self.need(self.train(name), self.folder / f"done_{name}")
        self.cut_off()
        self.add_older_outputs()

    def cut_off(self):
        """A run that was killed after it had saved, in the midst of what came then."""
        folder = self.folder / "cut_off"
        for sleep in ("0.05", "0.2", "1"):  # until a save was done by then
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            fault = PACE["LOCKSTEP_FAULT"].replace("0.01", sleep)
            code, out, err = self.start(self.train("table"), folder, {
                "LOCKSTEP_FAULT": f"{fault};rank=0,stage=training,step=7,phase=forward,do=kill"})
            if code == -9 and list(folder.glob("run/checkpoints/step_*")):
                return
        raise SystemExit(f"the run to resume: {code}\n{out}{err}")

    def add_older_outputs(self):
        """Folders in which --force has something to write over."""
        (self.folder / "other_pack").mkdir()
        self.need(["pack", f"--data=images:{self.data}/photos/train", "--out=photos.pack",
                   "--image-size=8"], self.folder / "other_pack")
        other = self.folder / "other_export"
        shutil.copytree(self.folder / "done_table", other)
        self.need(["export", "--from=../cut_off/run", "--to=w.pth"], other)

    def train(self, name, *flags):
        return ["train", *TRAIN, *(f.format(data=self.data) for f in DATA[name]), *flags]

    def need(self, arguments, folder):
        code, out, err = self.start(arguments, folder, {})
        if code != 0:
            raise SystemExit(f"{' '.join(arguments)}: {code}\n{out}{err}")

    def start(self, arguments, folder, variables):
        """(exit code, None where it did not end; standard output; standard error)"""
        process = subprocess.Popen(
            [self.program, *arguments], cwd=folder, env={**self.environment, **variables},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True)
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            out, err = process.communicate()
            return None, out.decode(errors="replace"), err.decode(errors="replace")
        return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")


def read(path):
    """Bytes; None: it is not there."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def json_lines(content):
    return [json.loads(line) for line in (content or b"").splitlines()]


def records(content):
    """How many records a file of TensorBoard has; -1: it ends within one."""
    at, count = 0, 0
    while at < len(content):
        if at + 12 > len(content):
            return -1
        at += 16 + struct.unpack_from("<Q", content, at)[0]
        count += 1
    return count if at == len(content) else -1


class Case:
    """A command line. `begin` copies what it starts with; `wrong_files` compares what it leaves
    with what the undisturbed one left in `known`."""
    ranks, rank = 1, 0

    def __init__(self, name, arguments, *, begins=None, outputs=()):
        self.name, self.arguments, self.begins, self.outputs = name, arguments, begins, outputs

    def begin(self, stage, folder):
        if self.begins:
            shutil.copytree(stage.folder / self.begins, folder)
        else:
            folder.mkdir()

    def again(self, folder):
        """The command that has to come to the end where this one was disturbed."""
        there = any((folder / name).exists() for name in self.outputs)
        forced = there and "--force" not in self.arguments
        return [*self.arguments, "--force"] if forced else self.arguments

    def lost(self, folder, known):
        """What the undisturbed command leaves and this one did not."""
        return [f"{name} is {'missing' if read(folder / name) is None else 'another'}"
                for name in self.outputs if read(folder / name) != read(known / name)]

    def lost_again(self, folder, known, outcome):
        """What is not as it should be after the command was disturbed and then repeated."""
        return self.lost(folder, known)

    def partial(self, folder, known, before):
        """Results that are neither whole nor what was there before."""
        return [f"{name} is partial" for name in self.outputs
                if read(folder / name) not in (None, read(known / name),
                                               before and read(before / name))]

    def leftovers(self, folder):
        return [str(p.relative_to(folder)) for p in folder.rglob("*") if ".tmp" in p.name]


class PredictCase(Case):
    """Its result is what it prints."""


class TrainCase(Case):
    def __init__(self, name, arguments, *, begins=None, ranks=1, rank=0):
        """`rank`: whose calls fail."""
        super().__init__(name, arguments, begins=begins, outputs=["run/model.safetensors"])
        self.ranks, self.rank = ranks, rank

    def again(self, folder):
        anew = {"--force", "--resume=auto"} & set(self.arguments)
        return self.arguments if anew else [*self.arguments, "--resume=auto"]

    def lost(self, folder, known):
        result = self.other_weights(folder, known)
        if read(folder / "run/preprocessing.json") != read(known / "run/preprocessing.json"):
            result.append("preprocessing.json differs")
        if self.config(folder) != self.config(known):
            result.append("config.toml differs")
        if self.settings(folder) != self.settings(known):
            result.append("the last checkpoint's settings differ")
        for name in ("environment.json", "memory.json", "history.jsonl"):
            if not read(folder / "run" / name):
                result.append(f"{name} is missing")
        if more := self.checkpoints(folder) - self.checkpoints(known):
            result.append(f"{', '.join(sorted(more))} of before")
        if self.metrics(folder) != self.metrics(known):
            result.append("metrics.jsonl has other records")
        if b"output  " not in (read(folder / "run/logs/rank_0.log") or b""):
            result.append("logs/rank_0.log has no end")
        if self.events(folder) < self.events(known):
            result.append("TensorBoard's file has fewer records")
        return result

    def partial(self, folder, known, before):
        run, wholes = folder / "run", [known, *([before] if before else [])]
        result = super().partial(folder, known, before)
        for name in ("summary.json", "environment.json", "memory.json", "preprocessing.json"):
            try:
                json.loads(read(run / name) or b"{}")
            except ValueError:
                result.append(f"{name} is partial")
        if self.weights(folder) not in (None, *map(self.weights, wholes)):
            result.append("summary.json has other weights")
        return result

    def lost_again(self, folder, known, outcome):
        """Of a run that said at its end what it could not write, results alone can be asked."""
        result = self.other_weights(folder, known)
        if outcome == "killed" and self.metrics(folder) != self.metrics(known):
            result.append("metrics.jsonl has other records")
        return result

    def other_weights(self, folder, known):
        result = []
        if read(folder / "run/model.safetensors") != read(known / "run/model.safetensors"):
            result.append("model.safetensors differs")
        for name in ("model.safetensors", "optimizer.safetensors"):
            if read(folder / NEWEST / name) != read(known / NEWEST / name):
                result.append(f"the last checkpoint's {name} differs")
        if self.weights(folder) != self.weights(known):
            result.append("weights_sha256 differs")
        return result

    @staticmethod
    def checkpoints(folder):
        return {path.name for path in (folder / "run/checkpoints").glob("*")}

    @staticmethod
    def config(folder):
        lines = (read(folder / "run/config.toml") or b"").splitlines()
        return [line for line in lines if not line.startswith((b"resume", b"working-folder"))]

    @staticmethod
    def settings(folder):
        """What a resume compares, the hash of the data among it."""
        try:
            return json.loads(read(folder / NEWEST / "state.json") or b"{}").get("settings")
        except ValueError:
            return None

    @staticmethod
    def weights(folder):
        try:
            return json.loads(read(folder / "run/summary.json") or b"{}").get("weights_sha256")
        except ValueError:
            return None

    @staticmethod
    def metrics(folder):
        try:
            lines = json_lines(read(folder / "run/metrics.jsonl"))
        except ValueError:
            return None
        return sorted((line["step"], "val_loss" in line, line.get("step_loss"),
                       line.get("val_loss")) for line in lines if "checkpoint" not in line)

    @staticmethod
    def events(folder):
        return sum(records(f.read_bytes()) for f in (folder / "run/tensorboard").glob("*"))


def cases(stage):
    """All command lines, by name."""
    pack = ["pack", f"--data=images:{stage.data}/photos", "--out=photos.pack", "--image-size=8"]
    export, report = ["export", "--from=run"], ["report", "run", "--out=r.html", "--csv=r.csv"]
    resume = ["train", "--resume=auto", "--out=run"]  # all else is in config.toml
    two = ["--ranks=2", "--timeout=5"]
    found = [TrainCase(f"train {name}", stage.train(name)) for name in DATA]
    found += [
        TrainCase("train --resume auto", resume, begins="cut_off"),
        TrainCase("train --force", stage.train("table", "--force"), begins="done_packed"),
        *(TrainCase(f"train, rank {rank} of 2", stage.train("table", *two), ranks=2, rank=rank)
          for rank in (0, 1)),
        TrainCase("train --resume auto, rank 0 of 2", [*resume, *two], begins="cut_off", ranks=2),
        Case("pack", pack, outputs=["photos.pack"]),
        Case("pack --force", [*pack, "--force"], begins="other_pack", outputs=["photos.pack"]),
        Case("report", report, begins="done_table", outputs=["r.html", "r.csv"]),
        PredictCase("predict table", ["predict", "--from=run", f"{stage.data}/table.csv"],
             begins="done_table"),
        PredictCase("predict images", ["predict", "--from=run", "--format=csv",
                                f"{stage.data}/photos/val"], begins="done_packed"),
        Case("export", [*export, "--to=w.safetensors"], begins="done_table",
             outputs=["w.safetensors", "w.preprocessing.json"]),
        Case("export .pth --force", [*export, "--to=w.pth", "--force"], begins="other_export",
             outputs=["w.pth", "w.preprocessing.json"]),
    ]
    return {case.name: case for case in found}
