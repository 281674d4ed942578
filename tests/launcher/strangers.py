#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What strangers can do to a run of several ranks: find its ports, connect, write, and stay.

strangers.py PROGRAM Strangers|StrangersWhoStay|StrangersOfHosts

Strangers         other users of the one host that a run is on
StrangersWhoStay  the same, who hold connections to mpirun: needs root, to be another user, and is
                  skipped (77) without
StrangersOfHosts  a run on two hosts and a stranger on a third, all played by network namespaces:
                  needs root and ip, and is skipped (77) without

A siege takes SIEGE_SECONDS of the environment, or 20.
"""
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

from attackers import ATTACKS, LAUNCHERS, Holders, Siege, listening_ports, write_to
from program_test import TIMEOUT_S, ProgramTest, clean_environment, main
from supervised import is_rank, processes_with

LOG_EVERY = 100
SIEGE_S = float(os.environ.get("SIEGE_SECONDS", 20))


class StrangersTest(ProgramTest):
    def start(self, before=(), command="train", flags=(), environment=None):
        command = [*before, self.program, command, f"--data=csv:{self.table}", "--model=mlp",
                   "--global-batch=16", "--micro-batch=4", "--steps=100000000", "--eval-every=0",
                   f"--log-every={LOG_EVERY}", f"--out={self.folder / 'run'}", *flags]
        self.output = open(self.folder / "output", "w+b")
        self.addCleanup(self.output.close)
        run = subprocess.Popen([str(part) for part in command], cwd=self.folder,
                               stdout=self.output, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL,
                               env={**clean_environment(), **(environment or {})})
        self.addCleanup(lambda: run.poll() is None and (run.kill(), run.wait()))
        return run

    def said(self):
        return (self.folder / "output").read_text(errors="replace")

    def steps_logged(self):
        try:
            text = (self.folder / "run/metrics.jsonl").read_text()
        except OSError:
            return []
        return [int(n) for n in re.findall(r'"step": ?(\d+)', text)]

    def steps(self):
        return max(self.steps_logged(), default=0)

    def wait_for_step(self, step):
        deadline = time.monotonic() + TIMEOUT_S / 4
        while self.steps() < step:
            self.assertLess(time.monotonic(), deadline, self.said())
            time.sleep(0.05)

    def expect_no_step_was_lost(self, attacks):
        steps = self.steps_logged()
        self.assertEqual(steps, list(range(LOG_EVERY, steps[-1] + 1, LOG_EVERY)))
        print(f"{attacks} in {SIEGE_S:.0f} s; every {LOG_EVERY}th step up to {steps[-1]} is logged "
              "once")

    def ranks(self):
        """By rank."""
        found = {}
        for pid in processes_with(str(self.folder / "run")):
            if is_rank(pid):
                words = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                found[int(re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", words)[1])] = pid
        return [pid for _, pid in sorted(found.items())]

    def open_ports(self, pid):
        return [port for port, local in listening_ports(pid).items() if not local]

    def expect_the_watchdog_is_on(self, run):
        """A frozen rank is seen: nothing else ends a run whose rank is stopped."""
        self.assertNotIn("will not be seen", self.said())
        frozen = self.ranks()[1]
        os.kill(frozen, signal.SIGSTOP)
        self.addCleanup(lambda: pathlib.Path(f"/proc/{frozen}").exists()
                        and os.kill(frozen, signal.SIGKILL))
        self.assertNotEqual(run.wait(60), 0)
        self.assertRegex(self.said(), r"\[rank 1 [^]]*\] error: no sign of life")


class Strangers(StrangersTest):
    def test_on_one_host_nobody_reaches_a_rank_and_bytes_to_the_launcher_stop_nothing(self):
        run = self.start(flags=["--ranks=2"])
        self.wait_for_step(100)
        processes = processes_with(str(self.folder / "run"))
        self.assertEqual(len(self.ranks()), 2)
        for pid in self.ranks():
            self.assertEqual(self.open_ports(pid), [], "a rank listens to the network")
        ports = {port for pid in processes for port in listening_ports(pid)}
        for port in ports:
            for content in ATTACKS:
                write_to(port, content)
        self.wait_for_step(self.steps() + 300)
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(60), 75, self.said())
        self.assertTrue(list((self.folder / "run/checkpoints").glob("step_*/manifest.json")))


    def test_a_siege_from_the_start_costs_no_step_and_not_the_watchdog(self):
        with Siege(str(self.folder / "run")) as siege:
            run = self.start(flags=["--ranks=2", "--timeout=5"])
            self.wait_for_step(100)
            end = time.monotonic() + SIEGE_S
            while time.monotonic() < end:
                self.assertIsNone(run.poll(), self.said())
                time.sleep(0.2)
            self.wait_for_step(self.steps() + 300)
            self.assertGreater(siege.count, 0, "nobody was attacked")
            self.expect_no_step_was_lost(f"{siege.count} connections")
            self.expect_the_watchdog_is_on(run)

    def test_a_port_that_the_user_opens_is_named_and_so_is_who_connects_to_it(self):
        mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np",
                  "2", "--mca", "btl", "self,vader,tcp"]
        run = self.start(before=mpirun, flags=["--timeout=3"])
        self.wait_for_step(100)
        ranks = self.ranks()
        ports = [self.open_ports(pid) for pid in ranks]
        self.assertTrue(all(ports), "this Open MPI does not listen where TCP is asked for")
        warned = re.findall(r".*warning: .*listens on TCP port (\d+).*", self.said())
        self.assertEqual(len(warned), 1, self.said())
        self.assertIn(int(warned[0]), ports[0])
        self.assertIn("--mca btl ^tcp,ofi", self.said())
        os.kill(ranks[1], signal.SIGSTOP)
        with socket.create_connection(("127.0.0.1", ports[1][0])) as stranger:
            name = f"127.0.0.1:{stranger.getsockname()[1]}"
            self.assertNotEqual(run.wait(60), 0)
        self.assertRegex(self.said(), rf"{name} \(process {os.getpid()} of user {os.getuid()}\) is "
                                      rf"connected to port {ports[1][0]} of rank 1")


class StrangersWhoStay(StrangersTest):
    def test_who_holds_a_part_of_a_message_does_not_hold_up_mpirun(self):
        with Holders(str(self.folder / "run")) as holders:
            run = self.start(flags=["--ranks=2"])
            self.wait_for_step(100)
            end = time.monotonic() + SIEGE_S
            while time.monotonic() < end:
                self.assertIsNone(run.poll(), self.said())
                time.sleep(0.2)
            self.wait_for_step(self.steps() + 300)
            tale = holders.tale()
            self.assertIn(b"h", tale, "nobody was attacked")
            self.assertIn(b"c", tale, "nobody was cut off")
            self.expect_no_step_was_lost(f"{tale.count(b'h')} connections held, "
                                         f"{tale.count(b'c')} of them cut off")
            run.send_signal(signal.SIGTERM)
            self.assertEqual(run.wait(60), 75, self.said())
            self.assertTrue(list((self.folder / "run/checkpoints").glob("step_*/manifest.json")))

    def test_a_killed_rank_is_replaced_under_siege(self):
        with Holders(str(self.folder / "run")) as holders:
            run = self.start(command="run", flags=["--ranks=2", "--checkpoint-every=50"])
            self.wait_for_step(200)
            old = self.ranks()
            os.kill(old[1], signal.SIGKILL)
            deadline = time.monotonic() + 90
            while len(self.ranks()) != 2 or set(self.ranks()) & set(old):
                self.assertLess(time.monotonic(), deadline, self.said())
                time.sleep(0.1)
            self.wait_for_step(self.steps() + 300)
            tale = holders.tale()
            self.assertIn(b"h", tale, "nobody was attacked")
            self.assertIn(b"c", tale, "nobody was cut off")
            run.send_signal(signal.SIGTERM)
            self.assertEqual(run.wait(60), 75, self.said())


# Of each: the two hosts of the run share a link, and the stranger has one to the first of them.
HOSTS = {"lockstep-sa": "10.213.78.1", "lockstep-sb": "10.213.78.2"}
STRANGER, STRANGER_SEES = "lockstep-sc", "10.213.79.1"
# Connects to ADDRESS PORTS..., writes what strangers write, and says which ports answer.
FROM_AFAR = """
import json, socket, sys
answering = []
for port in map(int, sys.argv[3:]):
    for content in json.loads(sys.argv[2]):
        with socket.socket() as stranger:
            stranger.settimeout(1)
            try:
                stranger.connect((sys.argv[1], port))
                answering.append(port)
                stranger.sendall(bytes(content))
                stranger.recv(64)
            except OSError:
                pass
print(json.dumps(sorted(set(answering))))
"""


class StrangersOfHosts(StrangersTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.remove)
        a, b = HOSTS
        self.remove()
        for host in (a, b, STRANGER):
            self.ip("netns", "add", host)
            self.ip("-n", host, "link", "set", "lo", "up")
        for name, other, link in ((a, b, "78"), (a, STRANGER, "79")):
            self.ip("link", "add", f"net{link}", "netns", name, "type", "veth", "peer", "name",
                    f"net{link}", "netns", other)
            for number, host in ((1, name), (2, other)):
                self.ip("-n", host, "addr", "add", f"10.213.{link}.{number}/24", "dev",
                        f"net{link}")
                self.ip("-n", host, "link", "set", f"net{link}", "up")
        cases = "\n".join(f"  {address}) host={host} ;;" for host, address in HOSTS.items())
        self.agent = self.write("ssh", f"""#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do [ "$1" = -o ] && shift; shift; done
case $1 in
{cases}
  *) exit 255 ;;
esac
shift
exec ip netns exec $host unshare --uts /bin/sh -c 'hostname $0; exec /bin/sh -c "$1"' $host "$*"
""")
        self.agent.chmod(0o755)

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True, timeout=60)

    def remove(self):
        for host in (*HOSTS, STRANGER):
            subprocess.run(["ip", "netns", "del", host], check=False, stderr=subprocess.DEVNULL)

    def from_afar(self, ports):
        contents = json.dumps([list(content) for content in ATTACKS])
        return json.loads(subprocess.run(
            ["ip", "netns", "exec", STRANGER, sys.executable, "-c", FROM_AFAR, STRANGER_SEES,
             contents, *map(str, ports)], check=True, timeout=300, stdout=subprocess.PIPE).stdout)

    def test_another_host_reaches_no_rank_and_stops_nothing(self):
        inside = ["ip", "netns", "exec", "lockstep-sa", "unshare", "--uts", "/bin/sh", "-c",
                  'hostname lockstep-sa; exec "$@"', "sh"]
        hosts = ",".join(f"{address}:1" for address in HOSTS.values())
        run = self.start(before=inside, command="run",
                         flags=[f"--hosts={hosts}", f"--ssh={self.agent}", "--timeout=5",
                                "--max-restarts=0"])
        self.wait_for_step(100)
        ranks = self.ranks()
        self.assertEqual(len(ranks), 2, self.said())
        ports = self.open_ports(ranks[0])
        self.assertTrue(ports, "on two hosts ranks are to talk by TCP")
        self.assertEqual(self.from_afar(ports), [], "a host that is none of the job's is let in")
        launchers = {port for pid in processes_with(str(self.folder / "run"))
                     if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() in LAUNCHERS
                     for port in self.open_ports(pid)}
        end = time.monotonic() + SIEGE_S
        rounds = 0
        while time.monotonic() < end:
            self.assertEqual(self.from_afar(ports), [])
            self.from_afar(sorted(launchers))
            rounds += 1
            self.assertIsNone(run.poll(), self.said())
        self.wait_for_step(self.steps() + 300)
        self.expect_no_step_was_lost(f"{rounds} rounds at {len(ports)} ports of a rank and "
                                     f"{len(launchers)} of launchers")
        self.expect_the_watchdog_is_on(run)


def can_be_another_user():
    """And whether this system lets a process reach its child's sockets, as Lockstep does."""
    if os.geteuid() != 0:
        return False
    child = subprocess.Popen(["sleep", "60"])
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
        process = call(434, child.pid, 0)  # pidfd_open
        return process >= 0 and call(438, process, 0, 0) >= 0  # pidfd_getfd
    finally:
        child.kill()
        child.wait()


def can_make_hosts():
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
        return False
    made = subprocess.run(["ip", "netns", "add", STRANGER], check=False, stderr=subprocess.DEVNULL)
    if made.returncode == 0:
        subprocess.run(["ip", "netns", "del", STRANGER], check=False)
    return made.returncode == 0


if __name__ == "__main__":
    if sys.argv[-1] == "StrangersWhoStay" and not can_be_another_user():
        print("needs root, to be another user, and pidfd_getfd(2)")
        sys.exit(77)
    if sys.argv[-1] == "StrangersOfHosts" and not can_make_hosts():
        print("needs root and network namespaces (ip netns)")
        sys.exit(77)
    main()
