# SPDX-License-Identifier: Apache-2.0
"""Hosts of this machine: network namespaces that see each other through a switch, with links of
limited bandwidth (veth, bridge, tc tbf). Needs root, ip, tc, unshare and taskset."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap

ENVIRONMENT = {**{k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "LOCKSTEP_"))},
               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
LINK = "lockstep0"
# What `lockstep run` on such hosts needs to know.
MPI_ON_HOSTS = {"OMPI_MCA_btl": "self,vader,tcp", "OMPI_MCA_btl_tcp_if_include": LINK, "OMPI_MCA_oob_tcp_if_include": LINK,
                "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
TIMEOUT_S = 600


class CannotRun(Exception):
    pass


def run(*command, **options):
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("timeout", TIMEOUT_S)
    result = subprocess.run([str(word) for word in command], text=True, stderr=subprocess.PIPE,
                            stdin=subprocess.DEVNULL, env=ENVIRONMENT, **options)
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


def end_by_exception():
    """From now on SIGTERM and SIGHUP end the program as Ctrl-C does, so that hosts are removed."""
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda number, _: sys.exit(128 + number))


class Hosts(contextlib.AbstractContextManager):
    """`count` hosts with `slots` ranks each. Both directions of a host's link carry `rate_mbit`.
    Host i has one core, the i-th of those that this process may use, modulo their number; those of
    one core take turns. On exit the processes in them are killed and all that was made is removed."""

    def __init__(self, folder, count, slots=1, rate_mbit=1000):
        self.count, self.slots, self.rate_mbit = count, slots, rate_mbit
        self.memory = [pathlib.Path(folder) / f"memory-{count}x{slots}-{i}" for i in range(count)]
        for shm in self.memory:
            shm.mkdir(exist_ok=True)
        cores = sorted(os.sched_getaffinity(0))
        missing = [tool for tool in ("ip", "tc", "unshare", "taskset") if not shutil.which(tool)]
        if os.geteuid() != 0 or missing or len(cores) < 2:
            raise CannotRun(f"needs root and two cores; missing tools: {missing or 'none'}")
        self.switch = f"lockstep-{os.getpid()}-switch"
        self.names = [f"lockstep-{os.getpid()}-{i}" for i in range(count)]
        self.addresses = [f"10.213.77.{i + 1}" for i in range(count)]
        self.cores = [cores[i % len(cores)] for i in range(count)]
        try:
            self.make()
        except RuntimeError as error:
            self.close()
            raise CannotRun(str(error)) from error
        except BaseException:
            self.close()
            raise
        self.agent = pathlib.Path(folder) / f"agent-{count}x{slots}"
        self.agent.write_text(self.agent_text())
        self.agent.chmod(0o755)

    def __exit__(self, *_):
        self.close()

    def make(self):
        for name in (self.switch, *self.names):
            run("ip", "netns", "add", name)
        run("ip", "-n", self.switch, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", self.switch, "link", "set", "bridge", "up")
        for i, name in enumerate(self.names):
            port = f"port{i}"
            run("ip", "link", "add", LINK, "netns", name, "type", "veth", "peer", "name", port,
                "netns", self.switch)
            run("ip", "-n", self.switch, "link", "set", port, "master", "bridge", "up")
            run("ip", "-n", name, "addr", "add", f"{self.addresses[i]}/24", "dev", LINK)
            for link in ("lo", LINK):
                run("ip", "-n", name, "link", "set", link, "up")
            self.limit(name, LINK)
            self.limit(self.switch, port)

    def limit(self, namespace, link):
        """tbf limits what leaves a link, so that each of its ends has one."""
        run("ip", "netns", "exec", namespace, "tc", "qdisc", "add", "dev", link, "root", "tbf",
            "rate", f"{self.rate_mbit}mbit", "burst", "128kb", "latency", "50ms")

    @staticmethod
    def end_processes(namespace):
        found = subprocess.run(["ip", "netns", "pids", namespace], check=False, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for pid in found.stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def close(self):
        for name in (*self.names, self.switch):
            self.end_processes(name)
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)

    def inside(self, host, *command):
        """`command` on host number `host`: its network, name, /dev/shm and core."""
        return ["ip", "netns", "exec", self.names[host], "unshare", "--uts", "--mount", "/bin/sh", "-c",
                f'mount --bind {self.memory[host]} /dev/shm; hostname {self.names[host]}; '
                f'exec taskset -c {self.cores[host]} "$@"', "sh", *map(str, command)]

    def lose(self, host):
        """As without power: nothing leaves it any more, not even the end of a connection; its memory is gone, and it
        does not answer."""
        run("ip", "-n", self.names[host], "link", "set", LINK, "down")
        self.end_processes(self.names[host])
        shutil.rmtree(self.memory[host])
        self.memory[host].mkdir()

    def bring_back(self, host):
        run("ip", "-n", self.names[host], "link", "set", LINK, "up")

    def agent_text(self):
        """Stands in for ssh: options, address, then the words of a command for a shell."""
        cases = "\n".join(f"  {address}) netns={name}; core={core}; memory={memory} ;;"
                          for name, address, core, memory
                          in zip(self.names, self.addresses, self.cores, self.memory))
        return textwrap.dedent("""\
            #!/bin/sh
            patience=1000
            while [ "${1#-}" != "$1" ]; do
              [ "$1" = -o ] && shift
              case $1 in ConnectTimeout=*) patience=${1#*=} ;; esac
              shift
            done
            case $1 in
            CASES
              *) exit 255 ;;
            esac
            shift
            answers() { ip -n $netns link show dev LINK | grep -q LOWER_UP; }
            answers || { sleep $patience; exit 255; }
            ip netns exec $netns unshare --uts --mount /bin/sh -c \\
              'mount --bind $3 /dev/shm; hostname $0; exec taskset -c $1 /bin/sh -c "$2"' $netns $core "$*" $memory
            code=$?
            answers || sleep 1000  # ssh does not learn of the end of a host that is lost
            exit $code
            """).replace("LINK", LINK).replace("CASES", cases)

    def mpirun(self, *command):
        """`command` on all slots of all hosts, the ranks of a host next to each other."""
        hosts = ",".join(f"{address}:{self.slots}" for address in self.addresses)
        transports = "self,tcp" if self.slots == 1 else "self,vader,tcp"
        # Ranks that share a core yield it where they wait for a message.
        yields = ["--mca", "mpi_yield_when_idle", "1"] if self.slots > 1 or \
            len(set(self.cores)) < self.count else []
        return self.inside(0, "mpirun", "-np", self.count * self.slots, "--host", hosts,
                           "--map-by", "slot", "--bind-to", "none", "--mca", "plm_rsh_agent",
                           self.agent, "--mca", "btl", transports, "--mca", "btl_tcp_if_include",
                           LINK, *yields, "--allow-run-as-root", *command)

    def tcp_bytes_per_s(self):
        """Of one stream from host 0 to host 1, past its start."""
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
            """).replace("ADDRESS", self.addresses[1])
        send = textwrap.dedent("""\
            import socket
            peer = socket.create_connection(("ADDRESS", 5099))
            for _ in range(120):
                peer.sendall(bytes(1 << 20))
            """).replace("ADDRESS", self.addresses[1])
        with beside(self.inside(1, sys.executable, "-c", receive),
                    stdout=subprocess.PIPE, text=True) as receiver:
            receiver.stdout.readline()
            run(*self.inside(0, sys.executable, "-c", send))
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
            """).replace("ADDRESS", self.addresses[1])
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
            """).replace("ADDRESS", self.addresses[1])
        with beside(self.inside(1, sys.executable, "-c", answer),
                    stdout=subprocess.PIPE, text=True) as other:
            other.stdout.readline()
            text = run(*self.inside(0, sys.executable, "-c", ask))
            other.wait(timeout=60)
        return float(text)
