#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep run --ranks MIN:MAX`, whose hosts go and come while it trains.

elastic.py PROGRAM Elastic
"""
import json
import os
import re
import signal
import time

from program_test import main
from supervised import FLAGS, LOOPBACK, SupervisedTest

# Steps take 30 ms and more, so that there are not many while hosts go and come; LOCKSTEP_FAULT changes no bit.
SLOW = {**LOOPBACK, "LOCKSTEP_FAULT": "rank=0,phase=forward,times=1000000,do=sleep:0.03",
        "OMPI_MCA_hwloc_base_binding_policy": "none", "PRTE_MCA_hwloc_default_binding_policy": "none"}
# Of which the last one counts, as rates and weights do not hang on it.
STEPS = "--steps=1000000"


class ElasticTest(SupervisedTest):
    def start_elastic(self, ranks, *flags):
        return self.start("run", f"--ranks={ranks}", STEPS, "--backoff=0.1", "--checkpoint-every=100000", *flags,
                          environment=SLOW)

    def await_text(self, text, times=1):
        self.await_that(lambda: self.texts()[0].count(text) >= times, f"no '{text}'")

    def await_training(self, start):
        """Until the start of this number has come to train."""
        self.await_text("(source:", times=start)

    def stop(self, process):
        """Returns the steps that are done."""
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(process), 75, self.texts())
        return self.await_checkpoint()

    def expect_bits_of_one_start(self, done):
        """The run, continued for some steps, and one of as many that nothing happened to."""
        weights = []
        for out in ("run", "undisturbed"):
            result = self.train(*FLAGS, f"--steps={done + 20}", "--resume=auto", f"--out={out}")
            self.assertEqual(result.returncode, 0, result.stderr)
            weights.append(self.summary(out)["weights_sha256"])
        self.assertEqual(*weights)


class Elastic(ElasticTest):
    def test_four_three_one_four_ranks(self):
        hosts = self.write("hosts", "localhost:4\n")
        process = self.start_elastic("1:4", f"--hosts={hosts}")
        counts = [4, 3, 1, 4]
        for start, ranks in enumerate(counts, 1):
            hosts.write_text(f"localhost slots={ranks}  # of 4\n")
            self.await_training(start)
            self.await_ranks(ranks)
        done = self.stop(process)
        out = self.texts()[0]
        self.assertIn("0 restarts", out)
        self.assertEqual([int(n) for n in re.findall(r"starting (\d) ranks? under", out)], counts, out)
        self.assertEqual(len(re.findall(r"the hosts are localhost:\d now, for \d ranks? instead of \d", out)), 3, out)
        lines = (self.folder / "run/history.jsonl").read_text().splitlines()
        self.assertEqual([json.loads(line)["ranks"] for line in lines], counts)
        self.expect_bits_of_one_start(done)

    def start_before_hostb_comes(self, ssh):
        self.write("gone", "hostb")
        process = self.start_elastic("1:2", "--hosts=hosta:1,hostb:1", f"--ssh={ssh}")
        self.await_text("only hosta:1 answer")
        self.await_training(1)
        self.write("gone", "none")
        return process

    def test_a_host_that_comes_back_is_taken_in(self):
        process = self.start_before_hostb_comes(self.make_ssh())
        self.await_text("starting 2 ranks under mpirun on hosta:1,hostb:1, from step")
        self.await_training(2)
        os.kill(self.await_ranks(2)[0], signal.SIGKILL)  # a fault is one as ever
        self.await_text("restart 1")
        self.await_training(3)
        done = self.stop(process)
        out, err = self.texts()
        self.assertIn("1 restarts", out)
        self.assertNotIn("could not find environment variable", err)
        self.expect_bits_of_one_start(done)

    def test_a_host_whose_ranks_fail_is_not_taken_in_again(self):
        ssh = self.write("some_ssh", f"""#!/bin/bash
case "$*" in
  *hostb*true) exec {self.make_ssh()} "$@" ;;
  *hostb*) exit 1 ;;
  *) exec {self.folder}/ssh "$@" ;;
esac
""")
        ssh.chmod(0o755)
        process = self.start_before_hostb_comes(ssh)
        self.await_text("hostb is not used any more")
        self.await_training(2)
        self.expect_bits_of_one_start(self.stop(process))

    def test_fewer_than_min(self):
        hosts = self.write("hosts", "localhost:1\n")
        process = self.start_elastic("2:4", f"--hosts={hosts}", "--max-restarts=2")
        self.assertEqual(self.finish(process), 3, self.texts())
        self.assertIn("--ranks 2:4: there is room for 1 rank", self.texts()[1])
        hosts.write_text("localhost:2\n")
        process = self.start_elastic("2:4", "--hosts=hosts")
        self.await_training(1)
        ranks = self.await_ranks(2)
        hosts.write_text("localhost:1\n")
        self.await_text("localhost:1 do not suffice for the batch to be planned on 2 ranks or more of --ranks 2:4: "
                        "the ranks stay where they are")
        hosts.write_text("hosta:4\n")  # which does not answer
        self.await_text("no host answers")
        hosts.unlink()  # an editor may do so for a moment
        time.sleep(7)  # two looks
        self.assertEqual(self.ranks(), ranks)
        self.expect_bits_of_one_start(self.stop(process))

    def test_refusals(self):
        for ranks in ("3:2", "0:2", "2:", ":2", "a:b", "2:99999999999", "1:2:3"):
            result = self.run_command([self.program, "run", "--out=x", f"--ranks={ranks}"])
            self.expect_error(result, 2, f"--ranks '{ranks}'")
        result = self.run_command([self.program, "run", "--out=x", "--data", f"csv:{self.table}", "--ranks=500:600"])
        self.expect_error(result, 3, "--ranks 500:600")


if __name__ == "__main__":
    main()
