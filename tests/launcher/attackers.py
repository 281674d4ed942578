# SPDX-License-Identifier: Apache-2.0
"""Those who attack a run in strangers.py: they find the ports of its processes, connect, write, and stay."""
import os
import pathlib
import re
import signal
import socket
import threading
import time

from supervised import is_rank, processes_with

LISTENING = "0A"
NOBODY = 65534
LAUNCHERS = ("mpirun", "orterun", "prterun")
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


def write_to(port, content, host="127.0.0.1"):
    with socket.socket() as stranger:
        stranger.settimeout(2)
        try:
            stranger.connect((host, port))
            stranger.sendall(content)
            stranger.shutdown(socket.SHUT_WR)
            stranger.recv(64)
        except OSError:
            pass  # turned away


class Siege:
    """Strangers at every port of the processes whose command line holds `text`, as soon as it is
    there: they write, and at ranks they stay. At the launcher they leave: they are the same user,
    whom nobody keeps away (StrangersWhoStay has others)."""
    MAX_HELD = 300

    def __init__(self, text):
        self.text, self.held, self.count, self.ended = text, [], 0, threading.Event()
        self.thread = threading.Thread(target=self.go_on, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        for one in self.held:
            one.close()

    def go_on(self):
        while not self.ended.is_set():
            for pid in processes_with(self.text):
                try:
                    ports = listening_ports(pid)
                except OSError:
                    continue  # it has ended meanwhile
                for port in ports:
                    if is_rank(pid):
                        self.stay_at(port)
                    else:
                        write_to(port, ATTACKS[self.count % len(ATTACKS)])
                    self.count += 1
            time.sleep(0.02)

    def stay_at(self, port):
        stranger = socket.socket()
        stranger.settimeout(0.2)
        try:
            stranger.connect(("127.0.0.1", port))
            stranger.sendall(ATTACKS[self.count % len(ATTACKS)])
        except OSError:
            stranger.close()
            return
        self.held.append(stranger)
        if len(self.held) > self.MAX_HELD:
            self.held.pop(0).close()


class Holders:
    """Another user's processes that connect to every port of mpirun, as soon as it is there, send a
    part of a message and stay; where they are cut off, they come again."""
    EACH = 3

    def __init__(self, text):
        self.text, self.pids, self.ended, self.seen = text, [], threading.Event(), set()
        self.told_by, self.told = os.pipe()
        self.thread = threading.Thread(target=self.go_on, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        for descriptor in (self.told_by, self.told):
            os.close(descriptor)
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def go_on(self):
        while not self.ended.is_set():
            for pid in processes_with(self.text):
                try:
                    if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() not in LAUNCHERS:
                        continue
                    ports = set(listening_ports(pid))
                except OSError:
                    continue  # it has ended meanwhile
                for port in ports - self.seen:
                    self.seen.add(port)
                    self.pids += [self.hold(port) for _ in range(self.EACH)]
            time.sleep(0.01)

    def hold(self, port):
        parent = os.getpid()
        child = os.fork()
        if child != 0:
            return child
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            while os.getppid() == parent:
                self.stay(port)
                time.sleep(0.05)
        finally:
            os._exit(1)

    def stay(self, port):
        with socket.socket() as stranger:
            stranger.settimeout(2)  # for the parent's end
            try:
                # As bytes: what Python would load for a text may not be nobody's to read.
                stranger.connect((b"127.0.0.1", port))
                stranger.sendall(bytes(7))
                os.write(self.told, b"h")
            except OSError:
                return  # the port is closed
            try:
                stranger.recv(1)
                os.write(self.told, b"c")
            except TimeoutError:
                pass
            except OSError:
                os.write(self.told, b"c")

    def tale(self):
        """Of all attackers: an h for each connection held, a c for each that was cut off."""
        os.set_blocking(self.told_by, False)
        try:
            return os.read(self.told_by, 1 << 16)
        except BlockingIOError:
            return b""
