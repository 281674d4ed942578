# SPDX-License-Identifier: Apache-2.0
"""One run of the built program in which a fault is played, watched from outside: when the fault
began, when the ranks were gone, what was said, what is left. Python's standard library alone."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid

MARK = "FAULT_SUITE_RUN"
LAUNCHER_PREFIXES = ("OMPI_", "PMI", "MV2_", "SLURM_", "LOCKSTEP_", "RANK", "WORLD_SIZE",
                     "LOCAL_RANK")
OPEN_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_mpi_yield_when_idle": "1"}
# As a rank says it, and as the parent of mpirun does for one that cannot.
ERROR = re.compile(r"(?:\[rank (\d+) [^\]]*\] |(?=error: rank (\d+) on ))error: (.*)")
PLAYED = "injects the fault"
RAN_OUT = "has run out of memory, as "  # the fault begins here: taking memory takes time
ROWS = "a,b,label\n" + "".join(
    f"{i % 3 + 0.01 * (i % 7)},{2 - i % 3 + 0.01 * (i % 5)},k{i % 3}\n" for i in range(240))


def state_of(pid):
    """R, S, D, T, Z ...; empty: there is no such process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def lives(pid):
    return state_of(pid) not in ("", "Z", "X")


def environment_of(pid):
    try:
        entries = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return dict(e.decode(errors="replace").split("=", 1) for e in entries if b"=" in e)


def ranks_of(command):
    """How many a command starts."""
    words = [str(word) for word in command]
    groups = [int(words[i + 1]) for i, word in enumerate(words) if word == "-np"]
    given = [int(word.split("=")[1]) for word in words if word.startswith("--ranks=")]
    return sum(groups) if groups else max(given, default=1)


def marked(mark):
    """{pid: environment} of what lives and has `mark` in its environment."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        environment = environment_of(entry)
        if environment.get(MARK) == mark and lives(entry):
            found[int(entry)] = environment
    return found


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Run:
    """A started command, its output read as it comes. `acts` are called again and again with the
    run until they answer True: what is done to it from outside, one after the other. `before` is
    called in the child, before the command."""

    def __init__(self, command, folder, environment=None, acts=(), stdout=None, limit_s=90,
                 before=None):
        self.mark = uuid.uuid4().hex
        self.folder = pathlib.Path(folder)
        self.lines, self.ranks, self.fault_at, self.ranks_out_at = [], {}, None, None
        self.wanted = ranks_of(command)
        self.excused = set()  # ranks whose end is not waited for: the one that froze
        clean = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_PREFIXES)}
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [str(part) for part in command], cwd=folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if stdout is None else stdout, stderr=subprocess.PIPE,
            env={**clean, **OPEN_MPI, MARK: self.mark, **(environment or {})},
            start_new_session=True, preexec_fn=before)
        streams = [s for s in (self.process.stdout, self.process.stderr) if s is not None]
        self.readers = [threading.Thread(target=self._read, args=(s,), daemon=True)
                        for s in streams]
        for reader in self.readers:
            reader.start()
        self.timed_out = not self._watch(list(acts), limit_s)
        self.ended = time.monotonic()
        self.code = self.process.returncode
        self.left = self._leftovers()
        for reader in self.readers:
            reader.join(timeout=2)

    def _read(self, stream):
        for line in iter(stream.readline, b""):
            text = line.decode(errors="replace").rstrip("\n")
            self.lines.append((time.monotonic(), text))
            if PLAYED in text:
                self.begin_fault()
            if RAN_OUT in text:
                self.fault_at = time.monotonic()
        stream.close()

    def begin_fault(self):
        """From here on times count; called by an act, or by what the program says."""
        if self.fault_at is None:
            self.fault_at = time.monotonic()

    def find_ranks(self):
        """{rank: pid} of those that live."""
        for pid, environment in marked(self.mark).items():
            if "OMPI_COMM_WORLD_RANK" in environment and self._is_program(pid):
                self.ranks[int(environment["OMPI_COMM_WORLD_RANK"])] = pid
        return self.ranks

    def _is_program(self, pid):
        try:
            return os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "lockstep"
        except OSError:
            return False

    def find_launcher(self):
        for pid in marked(self.mark):
            try:
                name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            except OSError:
                continue
            if name in ("mpirun", "orterun", "prterun"):
                return pid
        return None

    def _watch(self, acts, limit_s):
        end, next_look, looked_since = self.began + limit_s, 0.0, False
        # Ranks that were not found could not be waited for: looked for until all are known.
        while self.process.poll() is None or (self.fault_at and not self._ranks_are_out()):
            now = time.monotonic()
            if now > end:
                return False
            if not looked_since and now > next_look:
                self.find_ranks()
                looked_since = self.fault_at is not None and self.knows_ranks()
                next_look = now + 0.1
            if acts and acts[0](self):
                acts.pop(0)
            self._ranks_are_out()
            time.sleep(0.005)
        self._ranks_are_out()
        return True

    def knows_ranks(self):
        """Whether all were seen. One rank has no launcher that would say which it is."""
        return self.wanted == 1 or len(self.ranks) >= self.wanted

    def _ranks_are_out(self):
        if self.fault_at is None or (not self.knows_ranks() and self.process.poll() is None):
            return False
        if self.ranks_out_at is None and not any(
                lives(pid) for rank, pid in self.ranks.items() if rank not in self.excused):
            self.ranks_out_at = time.monotonic()
        return self.ranks_out_at is not None

    def _leftovers(self):
        """What lives 2 s after the end, which is then killed."""
        end = time.monotonic() + (0 if self.timed_out else 2)
        while (left := marked(self.mark)) and time.monotonic() < end:
            time.sleep(0.05)
        said = []
        for pid in left:
            try:
                command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            except OSError:
                continue
            said.append(f"{pid} {state_of(pid)} {command.decode(errors='replace')[:90]}")
        for pid in left:
            send(pid, signal.SIGKILL)
        self.process.wait()
        return said

    def text(self):
        return "\n".join(line for _, line in sorted(self.lines, key=lambda l: l[0]))

    def errors(self):
        """(moment, rank, what) of each error on the screen."""
        found = [(t, ERROR.search(line)) for t, line in self.lines]
        return [(t, int(m[1] or m[2]), m[3]) for t, m in found if m]

    def detection_s(self):
        """Seconds from the fault until no other rank lived; None where not all ranks were seen."""
        if self.fault_at is None or self.ranks_out_at is None or not self.knows_ranks():
            return None
        return max(0.0, self.ranks_out_at - self.fault_at)

    def records(self, out="run"):
        """(rank that wrote it, record) of all JSON fault records."""
        found = []
        for log in sorted((self.folder / out / "logs").glob("*.log")):
            for line in log.read_text(errors="replace").splitlines():
                if line.startswith('{"rank":') and '"fault"' in line:
                    said = json.loads(line)
                    found.append((said["rank"], said["fault"]))
        return found


class Theatre:
    """A folder, the program and what its runs share."""
    FLAGS = ["--model=mlp", "--hidden=128,128", "--global-batch=16", "--micro-batch=4", "--lr=0.01",
             "--momentum=0.9", "--log-every=20", "--val-fraction=0.2", "--workers=1"]

    def __init__(self, program, shim):
        self.program, self.shim = os.path.abspath(program), os.path.abspath(shim)
        if not os.path.exists(self.shim):
            raise SystemExit(f"{shim}: not built")  # the loader would only warn
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-faults-"))
        (self.folder / "table.csv").write_text(ROWS)
        self.known = {}
        self.number = 0

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def place(self):
        """A new empty folder for a run."""
        self.number += 1
        folder = self.folder / f"case_{self.number}"
        folder.mkdir()
        return folder

    def train(self, ranks, *flags, steps=300, data=None, out="run", command="train"):
        given = {f.split("=")[0] for f in flags}
        defaults = [f for f in [*self.FLAGS, f"--data={data or f'csv:{self.folder}/table.csv'}",
                                f"--steps={steps}", "--checkpoint-every=20", "--eval-every=40",
                                f"--ranks={ranks}", f"--out={out}"]
                    if f.split("=")[0] not in given]
        return [self.program, command, *defaults, *flags]

    def summary(self, folder, out="run"):
        path = pathlib.Path(folder) / out / "summary.json"
        return json.loads(path.read_text()) if path.exists() else None

    def undisturbed(self, *flags, steps=300):
        """weights_sha256 of the same run on one rank, without faults."""
        key = (flags, steps)
        if key not in self.known:
            folder = self.place()
            run = Run(self.train(1, *flags, steps=steps), folder)
            if run.code != 0:
                raise SystemExit("the undisturbed run failed:\n" + run.text())
            self.known[key] = self.summary(folder)["weights_sha256"]
            shutil.rmtree(folder)
        return self.known[key]

    def newest_checkpoint(self, folder, out="run"):
        names = sorted((pathlib.Path(folder) / out / "checkpoints").glob("step_????????"))
        return names[-1] if names else None

    def loads(self, checkpoint):
        """What is wrong with a checkpoint; empty: nothing. Every byte is compared."""
        target = checkpoint.parent.parent / "exported.safetensors"
        result = subprocess.run(
            [self.program, "export", f"--from={checkpoint}", f"--to={target}", "--force"],
            capture_output=True, text=True, timeout=60, check=False)
        return "" if result.returncode == 0 else result.stderr.strip()
