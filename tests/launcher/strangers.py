#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What other users of a host can do to a run of several ranks: find its ports and write to them.

strangers.py PROGRAM Strangers
"""
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

from program_test import ProgramTest, clean_environment, main
from supervised import is_rank, processes_with

LISTENING = "0A"
# A byte that ended jobs, nothing, much, and what scanners send.
ATTACKS = (b"O", b"", os.urandom(4096), b"\xff" * 64, b"GET / HTTP/1.0\r\n\r\n",
           b"\x00\x00\x00\x00\x7f\xff\xff\xff" * 8)


def listening_ports(pid):
    """{port: whether only this host reaches it} of the TCP sockets that process `pid` listens on."""
    inodes = set()
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
        except OSError:
            continue
        if found:
            inodes.add(found[1])
    ports = {}
    for table, loopback in (("tcp", "0100007F"), ("tcp6", "0" * 24 + "01000000")):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            address, port = fields[1].split(":")
            if fields[3] == LISTENING and fields[9] in inodes:
                number = int(port, 16)
                ports[number] = ports.get(number, True) and address == loopback
    return ports


def write_to(port, content):
    with socket.socket() as stranger:
        stranger.settimeout(2)
        try:
            stranger.connect(("127.0.0.1", port))
            stranger.sendall(content)
            stranger.shutdown(socket.SHUT_WR)
            stranger.recv(64)
        except OSError:
            pass  # turned away


class Strangers(ProgramTest):
    def start(self):
        command = [self.program, "train", f"--data=csv:{self.table}", "--model=mlp", "--ranks=2",
                   "--global-batch=16", "--micro-batch=4", "--steps=100000000", "--eval-every=0",
                   "--log-every=100", f"--out={self.folder / 'run'}"]
        self.output = open(self.folder / "output", "w+b")
        self.addCleanup(self.output.close)
        run = subprocess.Popen([str(part) for part in command], cwd=self.folder,
                               stdout=self.output, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL, env=clean_environment())
        self.addCleanup(lambda: run.poll() is None and run.kill())
        return run

    def steps(self):
        try:
            text = (self.folder / "run/metrics.jsonl").read_text()
        except OSError:
            return 0
        return max((int(n) for n in re.findall(r'"step": ?(\d+)', text)), default=0)

    def wait_for_step(self, step):
        deadline = time.monotonic() + 60
        while self.steps() < step:
            self.assertLess(time.monotonic(), deadline, (self.folder / "output").read_text())
            time.sleep(0.05)

    def test_on_one_host_nobody_reaches_a_rank_and_bytes_to_the_launcher_stop_nothing(self):
        run = self.start()
        self.wait_for_step(100)
        processes = processes_with(str(self.folder / "run"))
        ranks = [pid for pid in processes if is_rank(pid)]
        self.assertEqual(len(ranks), 2)
        for pid in ranks:
            reachable = [port for port, local in listening_ports(pid).items() if not local]
            self.assertEqual(reachable, [], "a rank listens to the network")
        ports = {port for pid in processes for port in listening_ports(pid)}
        for port in ports:
            for content in ATTACKS:
                write_to(port, content)
        self.wait_for_step(self.steps() + 300)
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(60), 75, (self.folder / "output").read_text())
        self.assertTrue(list((self.folder / "run/checkpoints").glob("step_*/manifest.json")))


if __name__ == "__main__":
    main()
