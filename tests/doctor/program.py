# SPDX-License-Identifier: Apache-2.0
"""`lockstep doctor` as a user runs it; `python3 program.py PROGRAM Doctor`, with tests/launcher on
PYTHONPATH."""
import json
import pathlib
import shutil
import tempfile

from program_test import ProgramTest, main

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]


class Doctor(ProgramTest):
    def doctor(self, *flags, before=(), environment=None):
        return self.run_command([*before, self.program, "doctor", *flags], environment)

    def test_alone(self):
        result = self.doctor("--device", "cpu")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        for subject in ("MPI", "/dev/shm", "open files", "affinity", "processor", "storage"):
            self.assertIn(f"  {subject} ", result.stdout)
        self.assertLessEqual(result.stdout.count("\n"), 40)
        self.assertFalse((self.folder / "runs").exists(), "it has made the folder for results")
        self.assertEqual(list(self.folder.glob(".lockstep*")), [])

    def test_json_and_exit_code_of_the_worst_line(self):
        good = json.loads(self.doctor("--device", "cpu", "--json").stdout)
        self.assertEqual(good["exit_code"], 0)
        self.assertTrue(all(line["verdict"] in ("pass", "warn", "fail", "none")
                            for line in good["findings"]))
        result = self.doctor("--device", "cpu", "--json", "--out", "/proc/nowhere")
        self.assertEqual(result.returncode, 3, result.stderr)
        bad = json.loads(result.stdout)
        self.assertEqual(bad["exit_code"], 3)
        storage = [line for line in bad["findings"] if line["subject"] == "storage"][0]
        self.assertEqual(storage["verdict"], "fail")
        self.assertIn("--out FOLDER", storage["remedy"])

    def test_out_that_is_a_file(self):
        self.write("file", "no folder")
        for out in ("file", "file/runs"):
            result = self.doctor("--device", "cpu", "--out", out)
            self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
            self.assertRegex(result.stdout, rf"FAIL +storage +--out {out} cannot be written")
            self.assertEqual((self.folder / "file").read_text(), "no folder")

    def test_no_gpu_where_one_is_asked_for(self):
        result = self.doctor("--device", "cuda", environment={"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"FAIL +(driver|devices) ")
        self.assertIn("fix: ", result.stdout)

    def leave_snapshots(self, out):
        """As a supervisor that is killed leaves them."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-snapshots-", dir="/dev/shm"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        (folder / "run").write_text(f"{out}\nword\n")
        (folder / "weights").write_bytes(bytes(3 << 20))
        return folder

    def test_clean_removes_what_no_run_can_use(self):
        kept, gone, away = (self.leave_snapshots(self.folder / out) for out in ("kept", "gone", "disk/run"))
        self.write("kept/.snapshots", f"{kept}\nword\n")
        result = self.doctor("--clean")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, rf"removed +{gone}: snapshots of {self.folder}/gone, 3\.00 MiB")
        self.assertRegex(result.stdout, rf"kept +{kept}: .*--out {self.folder}/kept takes them over\n.*rm -r {kept}\n")
        self.assertRegex(result.stdout, rf"kept +{away}: .*mounted\?\n.*rm -r {away}\n")
        self.assertEqual([f.exists() for f in (kept, gone, away)], [True, False, True])
        self.assertEqual(list(self.folder.glob("runs")), [], "it checks nothing")

    def test_one_rank_of_mpirun(self):
        result = self.run_command([*MPIRUN, "-np", "1", self.program, "doctor", "--device", "cpu"])
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"-  +MPI +one rank has no peer")

    def test_answers_only_where_two_are_connected(self):
        self.assertEqual(self.doctor("--answer").returncode, 3)
        for ranks, code in (("2", 0), ("3", 3)):
            result = self.run_command([*MPIRUN, "-np", ranks, self.program, "doctor", "--answer"])
            self.assertEqual(result.returncode, code, result.stderr)

    def test_ranks_point_at_the_odd_one(self):
        script = ('if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then ulimit -Sn 256; fi; '
                  f'exec "{self.program}" doctor --device cpu')
        result = self.run_command([*MPIRUN, "-np", "3", "sh", "-c", script])
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("3 ranks on 1 host", result.stdout)
        self.assertRegex(result.stdout, r"open files +rank 1 on ")
        self.assertRegex(result.stdout, r"outlier: rank 1 on [^:]*: .*open files")
        self.assertEqual(result.stdout.count("connects 3 ranks"), 1, "more ranks than one speak")

    def test_variables_that_no_launcher_set(self):
        result = self.doctor("--device", "cpu", environment={"RANK": "0", "WORLD_SIZE": "2"})
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertRegex(result.stdout, r"FAIL +MPI +RANK says")

    def test_bad_flags(self):
        self.expect_error(self.doctor("--device", "gpu"), 2, "--device", "auto")
        self.expect_error(self.doctor("--ranks", "0"), 2, "--ranks")
        self.expect_error(self.doctor("--fix"), 2, "doctor:")


main()
