#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.sh, run_tests.py and pack_kit.py without a GPU.

  kit_test.py NoGpu|Stages|Tests|Scripts
  kit_test.py Probe NCCL_PROBE
  kit_test.py Emulated|Bundle BUILD
"""
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ARGUMENTS = []
GPU = "#!/bin/sh\necho 'NVIDIA Test, 600.00, 1000 MiB'\n"
NO_GPU = "#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n"

# Stages that behave as bad ones do.
STAGES = r"""#!/usr/bin/env bash
case $1 in
  --list) printf '%s gpu\n' 'good 1 60' 'hangs 1 2' 'deaf 1 2' 'crashes 1 60' 'fails 1 60' 'refused 1 60' 'lacks 1 60' 'looks 1 60' 'late 500 600' ;;
  good) echo 'result: 3 of 3' ;;
  hangs) echo 'result: 1 of 3' && sleep 100 ;;
  deaf) trap '' TERM && for i in $(seq 1000); do sleep 0.1; done ;;
  crashes) kill -SEGV $$ ;;
  fails) echo 'result: 4 of 4' && echo 'result: 2 of 3; failed: third' && exit 1 ;;
  refused) exit 3 ;;
  lacks) echo 'not measured: no PyTorch' && exit 75 ;;
  looks) cp "$OUT/RESULTS.md" "$OUT/seen.md" && tar tzf "$OUT/logs.tar.gz" >"$OUT/seen.logs" ;;
  late) echo 'result: it was begun' ;;
esac
"""

# A program that speaks as GoogleTest does.
PROGRAM = r"""#!/usr/bin/env python3
import os, pathlib, signal, sys, time
tests = ["a", "b", "fails", "breaks", "c", "hangs", "d", "crashes", "e"]
options = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if "=" in word)
wanted = options["gtest_filter"]
if wanted != "*": tests = [t for t in tests if "S." + t in wanted.split(":")]
if "--gtest_list_tests" in sys.argv:
    print("S.\n" + "\n".join("  " + t for t in tests)); sys.exit()
with open(os.environ["STARTS"], "a") as starts: starts.write("x")
code, broken = 0, False
for t in tests:
    print("[ RUN      ] S." + t, flush=True)
    if t == "hangs": time.sleep(1000)
    if t == "crashes": os.kill(os.getpid(), signal.SIGSEGV)
    if t == "breaks":
        print("error: cudaErrorIllegalAddress: an illegal memory access was encountered"); broken = True
    bad = broken or t == "fails"
    code = code or int(bad)
    print(f"[{'  FAILED  ' if bad else '       OK '}] S.{t} (0 ms)", flush=True)
sys.exit(code)
"""


def executable(path, text):
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


class KitCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-kit-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "bin").mkdir()
        self.out = self.folder / "out"

    def run_kit(self, *options, smi=GPU):
        executable(self.folder / "bin/nvidia-smi", smi)
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "OUT": str(self.out)}
        return subprocess.run(["bash", str(HERE / "run.sh"), "--build", str(self.folder / "build"), "--work",
                               str(self.folder / "work"), "--out", str(self.out), *options],
                              capture_output=True, text=True, env=environment, timeout=1500, check=False)

    def rows(self):
        """{stage: (verdict, what it counted)} of the table."""
        table = (self.out / "RESULTS.md").read_text()
        return {name: (verdict, note) for name, verdict, note in
                re.findall(r"^\| ([\w-]+) \| ([^|]+) \| ([^|]*) \| \d+ \|$", table, re.MULTILINE)}


class NoGpu(KitCase):
    def test_says_that_none_answers(self):
        run = self.run_kit(smi=NO_GPU)
        self.assertEqual(run.returncode, 3, run.stderr)
        self.assertIn("no GPU answers here: NVIDIA-SMI has failed", run.stderr)
        self.assertFalse((self.out / "RESULTS.md").exists())
        # bash and what it needs alone are on the path.
        for tool in ("bash", "dirname", "sed", "git", "mkdir", "grep"):
            os.symlink(shutil.which(tool), self.folder / "bin" / tool)
        (self.folder / "bin/nvidia-smi").unlink()
        run = subprocess.run([shutil.which("bash"), str(HERE / "run.sh"), "--build", str(self.folder / "build")],
                             capture_output=True, text=True, check=False, env={"PATH": str(self.folder / "bin")})
        self.assertIn("no GPU answers here: nvidia-smi was not found", run.stderr)
        self.assertEqual(run.returncode, 3)

    def test_refuses_what_it_does_not_know(self):
        for options, words in ((["--second", "5"], "unknown option '--second'"),
                               (["--only", "tests"], "no stage 'tests'; stages: configure build nccl-probe"),
                               (["--seconds", "soon"], "not a positive number"), (["--out"], "needs a value")):
            run = self.run_kit(*options)
            self.assertEqual(run.returncode, 2, options)
            self.assertIn(words, run.stderr)

    def test_the_most_telling_stages_come_first(self):
        run = self.run_kit("--list")
        names = [line.split()[0] for line in run.stdout.splitlines()]
        self.assertEqual(names[:4], ["configure", "build", "nccl-probe", "libraries"])
        self.assertEqual(names[-3:], ["memcheck", "racecheck", "initcheck"])


class Stages(KitCase):
    def setUp(self):
        super().setUp()
        self.stages = ["--stages", str(executable(self.folder / "stages", STAGES))]

    def test_what_hangs_or_crashes_is_named_and_the_others_go_on(self):
        run = self.run_kit(*self.stages, "--seconds", "120")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertEqual(self.rows(), {
            "good": ("passed", "3 of 3"), "hangs": ("CUT OFF", "after 2 s; 1 of 3"), "deaf": ("CUT OFF", "after 2 s"),
            "crashes": ("CRASHED (signal 11)", ""), "fails": ("FAILED (1)", "4 of 4; 2 of 3; failed: third"),
            "refused": ("FAILED (3)", ""),
            "lacks": ("not measured", "not measured: no PyTorch"), "looks": ("passed", ""),
            "late": ("not run", self.rows()["late"][1])})
        self.assertRegex(self.rows()["late"][1], r"^\d+ s were left, 512 are needed$")
        # What the stage `looks` saw: the table and the logs of those before it, its own not yet.
        seen = (self.out / "seen.md").read_text()
        self.assertIn("| fails | FAILED (1) |", seen)
        self.assertNotIn("| looks |", seen)
        self.assertIn("logs/fails.log", (self.out / "seen.logs").read_text())
        with tarfile.open(self.out / "logs.tar.gz") as logs:
            self.assertIn("result: 1 of 3", logs.extractfile("logs/hangs.log").read().decode())

    def test_ends_within_its_seconds(self):
        run = self.run_kit(*self.stages, "--seconds", "60", "--only", "good,looks,late,fails")
        self.assertEqual(run.returncode, 1)
        self.assertEqual(self.rows()["late"][0], "not run")
        slow = executable(self.folder / "slow", "#!/bin/bash\n[[ $1 == --list ]] && echo slow 1 600 gpu || sleep 600\n")
        begin = time.monotonic()
        run = self.run_kit("--stages", str(slow), "--seconds", "40")
        self.assertLess(time.monotonic() - begin, 40)
        self.assertEqual(self.rows(), {"slow": ("CUT OFF", self.rows()["slow"][1])})
        self.assertEqual(run.returncode, 1)

    def test_continues_behind_what_passed(self):
        self.run_kit(*self.stages, "--only", "good,fails")
        run = self.run_kit(*self.stages, "--only", "good,fails,lacks", "--continue")
        self.assertEqual({name: row[0] for name, row in self.rows().items()},
                         {"good": "passed", "fails": "FAILED (1)", "lacks": "not measured"})
        self.assertNotIn("--- good", run.stdout)
        self.assertIn("--- fails", run.stdout)
        self.run_kit(*self.stages, "--skip", "hangs,deaf,crashes,fails,refused,late")
        self.assertEqual(list(self.rows()), ["good", "lacks", "looks"])


class Tests(KitCase):
    def run_tests(self, *options, **variables):
        program = executable(self.folder / "program", PROGRAM)
        self.starts = self.folder / "starts"
        environment = {**os.environ, "STARTS": str(self.starts), **variables}
        return subprocess.run([sys.executable, "-B", str(HERE / "run_tests.py"), *options, str(program)],
                              capture_output=True, text=True, env=environment, timeout=100, check=False)

    def result(self, run):
        return run.stdout.splitlines()[-1]

    def test_every_test_is_run_and_the_bad_ones_are_named(self):
        run = self.run_tests("--test-seconds", "2")
        self.assertEqual(run.returncode, 1)
        self.assertEqual(self.result(run), "result: 5 of 9 tests passed; failed: S.fails, S.breaks; "
                         "hung (no end after 2.0 s): S.hangs; crashed (signal 11): S.crashes")
        # At the start, after the broken context, after the hang and after the crash.
        self.assertEqual(self.starts.read_text(), "xxxx")

    def test_good_tests_share_one_process(self):
        run = self.run_tests("--filter", "S.a:S.b:S.c")
        self.assertEqual((run.returncode, self.result(run)), (0, "result: 3 of 3 tests passed"))
        self.assertEqual(self.starts.read_text(), "x")

    def test_an_exit_code_of_a_tool_is_a_failure(self):
        tool = executable(self.folder / "tool", '#!/bin/sh\n"$@"\nexit 99\n')
        run = self.run_tests("--filter", "S.a", "--under", str(tool))
        self.assertEqual(run.returncode, 1)
        self.assertEqual(self.result(run), "result: 1 of 1 tests passed; exit code 99 behind the last test")
        broken = executable(self.folder / "broken", "#!/bin/sh\nexit 99\n")
        run = self.run_tests("--filter", "S.a", "--under", str(broken))
        self.assertEqual(self.result(run),
                         "result: 0 of 1 tests passed; not reached: S.a; exit code 99 before the first test")

    def test_says_how_far_it_came_when_it_is_ended(self):
        program = executable(self.folder / "program", PROGRAM)
        run = subprocess.run(["timeout", "5", sys.executable, "-B", str(HERE / "run_tests.py"), "--filter",
                              "S.a:S.hangs:S.d", str(program)], capture_output=True, text=True, check=False,
                             env={**os.environ, "STARTS": str(self.folder / "starts")}, timeout=60)
        self.assertEqual(self.result(run),
                         "result: 1 of 3 tests passed; not reached: S.hangs, S.d; ended from outside")


class Scripts(unittest.TestCase):
    """Which of the project's scripts are packed."""

    def test_all_that_they_import_is_packed_too(self):
        import pack_kit
        scripts = pack_kit.packed_scripts()
        self.assertEqual(pack_kit.missing_imports(scripts), [])
        for name, importer in (("reference/vit_model", "torch_models"), ("benchmarks/torch_training", "torch_peer_cuda")):
            packed = [file for file in scripts if file.stem != pathlib.Path(name).stem]
            self.assertIn(f"tests/benchmarks/{importer}.py imports tests/{name}.py", pack_kit.missing_imports(packed))


class Probe(KitCase):
    def probe(self, fault="", *options):
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if fault:
            environment["NCCL_PROBE_PLAYS"] = fault
        return subprocess.run([ARGUMENTS[0], *options], capture_output=True, text=True, timeout=120, check=False,
                              env=environment)

    def test_all_steps(self):
        run = self.probe()
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual(run.stdout.splitlines()[-1], "result: 9 of 9 steps")
        self.assertRegex(run.stdout, r"ok: the graph is replayed, [\d.]+ ms: 3 times")

    def test_a_fault_is_named_with_its_step(self):
        run = self.probe("init_fails")
        self.assertEqual(run.returncode, 1)
        self.assertIn("FAILED: a communicator joins without blocking: ncclCommInitRankScalable: unhandled system "
                      "error: Call to connect failed", run.stdout)
        self.assertTrue(run.stdout.endswith("result: 2 of 9 steps; failed: a communicator joins without blocking\n"))
        run = self.probe("", "--library", "/no/libnccl.so.2")
        self.assertEqual(run.returncode, 1)
        self.assertIn("FAILED: NCCL is opened: /no/libnccl.so.2", run.stdout)

    def test_a_step_that_hangs_is_named(self):
        begin = time.monotonic()
        run = self.probe("never_joins", "--step-seconds", "2")
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(run.returncode, 1)
        self.assertIn("HANGS: a communicator joins without blocking: no end after 2 s\n", run.stdout)
        self.assertTrue(run.stdout.endswith("hangs: a communicator joins without blocking\n"))

    def test_a_failed_replay_is_found(self):
        run = self.probe("fails_at_replay=1")
        self.assertEqual(run.returncode, 1, run.stdout)
        self.assertIn("FAILED: the graph is replayed: replayed all-gather: remote process exited", run.stdout)


class Emulated(KitCase):
    """Stages of true programs, on the emulated device."""

    def test_stages(self):
        programs = pathlib.Path(ARGUMENTS[0]) / "tests/gpu/programs_emulated.txt"
        built = {line.split()[0] for line in programs.read_text().splitlines()}
        stages = ["attention", "graph-bits"] + ["nccl-probe"] * ("nccl_probe" in built)
        run = self.run_kit("--emulated", ARGUMENTS[0], "--only", ",".join([*stages, "gpu-use"]), smi=NO_GPU)
        self.assertEqual(run.returncode, 0, run.stdout[-4000:] + run.stderr)
        rows = self.rows()
        self.assertEqual({name: rows[name][0] for name in stages}, {name: "passed" for name in stages})
        self.assertEqual(rows["gpu-use"], ("not run", "needs a GPU; this device is emulated"))
        self.assertEqual(rows["graph-bits"][1], "the same bits with and without graphs: 6 of 6")
        if "nccl-probe" in stages:
            self.assertEqual(rows["nccl-probe"][1], "9 of 9 steps")


class Bundle(KitCase):
    """An unpacked archive, of programs with the emulated device."""

    def run_bundle(self, *options):
        run = subprocess.run([str(self.kit / "run.sh"), "--out", str(self.out), *options], capture_output=True,
                             text=True, timeout=500, check=False, cwd="/",
                             env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"})
        return run

    def test_runs_from_where_it_is_unpacked(self):
        made = subprocess.run(["bash", str(HERE / "bundle.sh"), "--no-build", "--emulated", "--build", ARGUMENTS[0],
                               "--out", str(self.folder)], capture_output=True, text=True, timeout=1500, check=False)
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        archive, = self.folder.glob("lockstep-gpu-*-emulated.tar.xz")
        self.assertLess(archive.stat().st_size, 24 * 2 ** 20)
        with tarfile.open(archive) as packed:
            packed.extractall(self.folder)
        self.kit = self.folder / "lockstep-gpu"
        run = self.run_bundle("--only", "attention")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        (verdict, counted), = self.rows().values()
        self.assertEqual(verdict, "passed")
        self.assertRegex(counted, r"^([1-9][0-9]*) of \1 tests passed$")
        self.assertIn("kit: bundle, commit ", (self.out / "RESULTS.md").read_text())
        self.assertIn("libraries that programs lack: none", run.stdout)
        # It neither builds nor asks for what only a checkout has.
        names = [line.split()[0] for line in (self.kit / "programs.txt").read_text().splitlines()]
        self.assertIn("cuda_ops_test", names)
        # The same archive for a GPU, where none answers.
        executable(self.folder / "bin/nvidia-smi", NO_GPU)
        facts = self.kit / "kit.txt"
        facts.write_text(facts.read_text().replace("device emulated", "device gpu"))
        run = self.run_bundle()
        self.assertEqual(run.returncode, 3, run.stderr)
        self.assertIn("no GPU answers here", run.stderr)


if __name__ == "__main__":
    SUITE, *ARGUMENTS = sys.argv[1:]
    unittest.main(argv=[sys.argv[0], SUITE], verbosity=2)
