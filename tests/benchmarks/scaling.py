#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the cost model predicts what is then measured.

scaling.py [--build DIR] [--repeats N] [--steps N] [crowded] [hosts]

crowded  `lockstep scale` on 1, 2 and 4 ranks of this host, 4 held out: the step of 4 ranks, on
         however few cores, predicted from 1 and 2; weak and strong.
hosts    Two hosts, played by network namespaces with a link of limited bandwidth between them
         (veth, tc tbf), one rank on each: predicted by `lockstep plan --network FILE` from a rank
         that talks to nobody, and bandwidth and latency of plain TCP over that link. Needs root, ip,
         tc and two cores; it says so where it is left out.

Prints a table of predicted and measured steps. Exit code 1 where one is off by more than 10%, 77
where nothing could be measured. On a machine that does nothing else: the numbers are times.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap

PROJECT = pathlib.Path(__file__).resolve().parents[2]
LARGEST_ERROR = 0.10
SKIPPED = 77
RATE_MBIT = 1000
HOSTS = {"lockstep-a": "10.213.77.1", "lockstep-b": "10.213.77.2"}
CASES = {
    "convnet": ("--model=convnet", "--data=synthetic:28x28x1:10", "--global-batch=128",
                "--micro-batch=16"),
    "mlp": ("--model=mlp", "--hidden=512,512", "--data=synthetic:28x28x1:10",
            "--global-batch=512", "--micro-batch=64"),
}
QUIET = ("--eval-every=0", "--checkpoint-every=0")
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "LOCKSTEP_"))},
               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
WINDOWS = 6


class CannotRun(Exception):
    pass


def run(*command, **options):
    options.setdefault("stdout", subprocess.PIPE)
    result = subprocess.run([str(word) for word in command], text=True, timeout=600,
                            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=ENVIRONMENT,
                            **options)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit code {result.returncode}\n"
                           f"{result.stdout or ''}{result.stderr}")
    return result.stdout


@contextlib.contextmanager
def beside(command, **options):
    """A process in the background, gone afterwards, whatever came in between."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def crowded(options, folder):
    for name, flags in CASES.items():
        out = folder / f"crowded-{name}"
        run(options.program, "scale", "--ranks=1,2,4", "--hold-out=4", f"--repeats={options.repeats}",
            f"--steps={options.steps}", f"--out={out}", *flags)
        for point in json.loads((out / "scale.json").read_text())["points"]:
            if point["held_out"]:
                yield (f"{name}, {point['mode']}, {point['ranks']} ranks on {os.cpu_count()} cores",
                       point["predicted"]["step_ms"], point["step_ms"]["median"])


class TwoHosts:
    """Namespaces that see each other over a slow link; each has a core of its own."""

    def __init__(self, folder):
        self.folder = folder
        cores = sorted(os.sched_getaffinity(0))
        missing = [tool for tool in ("ip", "tc", "unshare", "taskset") if not shutil.which(tool)]
        if os.geteuid() != 0 or missing or len(cores) < 2:
            raise CannotRun(f"needs root and two cores; missing tools: {missing or 'none'}")
        self.cores = dict(zip(HOSTS, cores))
        try:
            self.make()
        except RuntimeError as error:
            self.close()
            raise CannotRun(str(error)) from error
        self.agent = folder / "agent"
        self.agent.write_text(self.agent_text())
        self.agent.chmod(0o755)

    def make(self):
        a, b = HOSTS
        for host in HOSTS:
            run("ip", "netns", "add", host)
        run("ip", "link", "add", "lockstep0", "netns", a, "type", "veth", "peer", "name",
            "lockstep0", "netns", b)
        for host, address in HOSTS.items():
            run("ip", "-n", host, "addr", "add", f"{address}/24", "dev", "lockstep0")
            for link in ("lo", "lockstep0"):
                run("ip", "-n", host, "link", "set", link, "up")
            run("ip", "netns", "exec", host, "tc", "qdisc", "add", "dev", "lockstep0", "root", "tbf",
                "rate", f"{RATE_MBIT}mbit", "burst", "128kb", "latency", "50ms")

    def close(self):
        for host in HOSTS:
            subprocess.run(["ip", "netns", "del", host], check=False, stderr=subprocess.DEVNULL)

    def inside(self, host, *command):
        """`command` on a host: its network, name and core."""
        return ["ip", "netns", "exec", host, "unshare", "--uts", "/bin/sh", "-c",
                f'hostname {host}; exec taskset -c {self.cores[host]} "$@"', "sh", *map(str, command)]

    def agent_text(self):
        """Stands in for ssh: options, address, then the words of a command for a shell."""
        cases = "\n".join(f"  {address}) netns={host}; core={self.cores[host]} ;;"
                          for host, address in HOSTS.items())
        return textwrap.dedent("""\
            #!/bin/sh
            while [ "${1#-}" != "$1" ]; do shift; done
            case $1 in
            CASES
              *) exit 255 ;;
            esac
            shift
            exec ip netns exec $netns unshare --uts /bin/sh -c \\
              'hostname $0; exec taskset -c $1 /bin/sh -c "$2"' $netns $core "$*"
            """).replace("CASES", cases)

    def mpirun(self, *command):
        hosts = ",".join(f"{address}:1" for address in HOSTS.values())
        return self.inside("lockstep-a", "mpirun", "-np", "2", "--host", hosts, "--bind-to", "none",
                           "--mca", "plm_rsh_agent", self.agent, "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lockstep0",
                           "--allow-run-as-root", *command)

    def step_alone_ms(self, out, *train):
        """A step of one rank, with another one at work that it never talks to: these hosts share
        memory and clock, as real ones do not."""
        with beside(self.inside("lockstep-b", *train, f"--out={out}-other"),
                    stdout=subprocess.DEVNULL, env=ENVIRONMENT) as other:
            run(*self.inside("lockstep-a", *train, f"--out={out}"))
            if other.wait(timeout=600) != 0:
                raise RuntimeError(f"{out}-other failed")
        return step_ms(pathlib.Path(out))

    def tcp_bytes_per_s(self):
        """Of one stream, past its start."""
        receive = textwrap.dedent("""\
            import socket, time
            server = socket.create_server(("ADDRESS", 5099))
            print("ready", flush=True)
            peer, _ = server.accept()
            taken, start = 0, None
            while chunk := peer.recv(1 << 20):
                if start is None and taken > 20_000_000:
                    start, at_start = time.monotonic(), taken
                taken += len(chunk)
            print((taken - at_start) / (time.monotonic() - start))
            """).replace("ADDRESS", HOSTS["lockstep-b"])
        send = textwrap.dedent("""\
            import socket
            peer = socket.create_connection(("ADDRESS", 5099))
            for _ in range(120):
                peer.sendall(bytes(1 << 20))
            """).replace("ADDRESS", HOSTS["lockstep-b"])
        with beside(self.inside("lockstep-b", sys.executable, "-c", receive),
                    stdout=subprocess.PIPE, text=True) as receiver:
            receiver.stdout.readline()
            run(*self.inside("lockstep-a", sys.executable, "-c", send))
            text, _ = receiver.communicate(timeout=60)
        return float(text)

    def latency_s(self):
        """Half of what a byte takes there and back, the median of many."""
        answer = textwrap.dedent("""\
            import socket
            server = socket.create_server(("ADDRESS", 5098))
            print("ready", flush=True)
            peer, _ = server.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while byte := peer.recv(1):
                peer.sendall(byte)
            """).replace("ADDRESS", HOSTS["lockstep-b"])
        ask = textwrap.dedent("""\
            import socket, statistics, time
            peer = socket.create_connection(("ADDRESS", 5098))
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            times = []
            for _ in range(500):
                start = time.monotonic()
                peer.sendall(b"x")
                peer.recv(1)
                times.append(time.monotonic() - start)
            print(statistics.median(times) / 2)
            """).replace("ADDRESS", HOSTS["lockstep-b"])
        with beside(self.inside("lockstep-b", sys.executable, "-c", answer),
                    stdout=subprocess.PIPE, text=True) as other:
            other.stdout.readline()
            text = run(*self.inside("lockstep-a", sys.executable, "-c", ask))
            other.wait(timeout=60)
        return float(text)


def step_ms(folder):
    """The median of the logged windows but the first."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return statistics.median([line["step_ms"] for line in lines if "step_ms" in line][1:])


def with_batch(flags, divisor):
    """The flags for a share of the global batch."""
    return [f"--global-batch={int(f.split('=')[1]) // divisor}" if f.startswith("--global-batch")
            else f for f in flags]


def hosts(options, folder):
    machine = TwoHosts(folder)
    try:
        rate, latency = machine.tcp_bytes_per_s(), machine.latency_s()
        print(f"link: {rate / 1e6:.1f} MB/s of TCP, {latency * 1e6:.0f} us", flush=True)
        network = folder / "network.toml"
        network.write_text(f"ranks_per_host = 1\nbetween_latency_us = {latency * 1e6:.3f}\n"
                           f"between_bandwidth_GBps = {rate / 1e9:.6f}\n")
        length = [f"--steps={options.steps}", f"--log-every={options.steps // WINDOWS}", *QUIET]
        for name, flags in CASES.items():
            alone, both = [], []
            for repeat in range(options.repeats):
                alone.append(machine.step_alone_ms(
                    f"{folder}/alone-{name}-{repeat}", options.program, "train", "--ranks=1",
                    *length, *with_batch(flags, 2)))
                out = folder / f"hosts-{name}-{repeat}"
                run(*machine.mpirun(options.program, "train", f"--out={out}", *length, *flags))
                both.append(step_ms(out))
            plan = json.loads(run(options.program, "plan", "--json", "--ranks=2", "--device=cpu",
                                  f"--network={network}", f"--step-ms={statistics.median(alone)}",
                                  *flags))
            row = plan["forecast"]["rows"][1]["strong"]
            yield (f"{name}, 2 hosts, {RATE_MBIT} Mbit/s, {row['exposed_ms']:.1f} ms exposed",
                   row["step_ms"], statistics.median(both))
    finally:
        machine.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=PROJECT / "build/release")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("what", nargs="*", choices=["crowded", "hosts", []], default=[])
    options = parser.parse_args()
    options.program = (options.build / "lockstep").resolve()
    rows = 0
    worst = 0.0
    with tempfile.TemporaryDirectory(prefix="lockstep-scaling-") as name:
        for what in options.what or ["crowded", "hosts"]:
            try:
                for label, predicted, measured in {"crowded": crowded, "hosts": hosts}[what](
                        options, pathlib.Path(name)):
                    error = predicted / measured - 1
                    worst = max(worst, abs(error))
                    rows += 1
                    print(f"{label:<60} predicted {predicted:9.3f} ms  measured {measured:9.3f} ms"
                          f"  {error:+6.1%}{'' if abs(error) <= LARGEST_ERROR else '  TOO FAR'}",
                          flush=True)
            except CannotRun as reason:
                print(f"{what}: left out: {reason}")
    if rows == 0:
        return SKIPPED
    return int(worst > LARGEST_ERROR)


if __name__ == "__main__":
    sys.exit(main())
