#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A Slurm cluster of one machine, for tests: munge, a controller and several node daemons, as any
# user, on the loopback device, with all their files below one folder.
#
#   slurm_cluster.sh start FOLDER [NODES [CPUS]]   then: source FOLDER/env.sh
#   slurm_cluster.sh stop FOLDER
#
# FIRST_PORT (default 17800): the controller's port; nodes n1, n2, ... take those after it.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin

command=${1:-}
folder=$(realpath --canonicalize-missing "${2:?usage: slurm_cluster.sh start|stop FOLDER}")
nodes=${3:-2}
cpus=${4:-4}
port=${FIRST_PORT:-17800}
host=$(hostname -s)
user=$(id -un)

daemons() { cat "$folder"/run/*.pid 2>/dev/null || true; }

write_configuration() {
  mkdir -p "$folder"/{run,log,state,spool}
  chmod 755 "$folder" "$folder"/{run,log,state,spool}
  # Nodes must not share a temporary folder: the PMIx plugin has one of the same name on each.
  for ((i = 1; i <= nodes; ++i)); do mkdir -p "$folder/tmp/n$i" "$folder/shm/n$i"; done
  (umask 077 && head --bytes=1024 /dev/urandom >"$folder/munge.key")

  # All nodes have this machine's name, by which Open MPI names its shared memory; so each node gets
  # its own folder for that. Not the batch step: an mpirun there would hand its own to all.
  cat >"$folder/task_prolog.sh" <<PROLOG
#!/bin/bash
[[ \${SLURM_STEP_ID:-} =~ ^[0-9]{1,6}\$ ]] &&
  echo "export OMPI_MCA_btl_vader_backing_directory=$folder/shm/\$SLURMD_NODENAME"
exit 0
PROLOG
  chmod +x "$folder/task_prolog.sh"

  cat >"$folder/slurm.conf" <<CONF
ClusterName=loopback
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$folder/run/munge.socket
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd.%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.%n.log
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
TmpFS=$folder/tmp/%n
TaskProlog=$folder/task_prolog.sh
MailProg=/bin/true
# No control groups and no binding: neither needs a privilege, and the cores are fewer than claimed.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=pmix
PropagateResourceLimits=NONE
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SlurmdTimeout=${NODE_TIMEOUT:-5}
KillWait=5
ReturnToService=2
JobRequeue=1
NodeName=n[1-$nodes] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + nodes))] CPUs=$cpus RealMemory=1000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF

  # Open MPI: over loopback alone, and idle ranks leave the cores to others.
  cat >"$folder/env.sh" <<ENV
export PATH=\$PATH:/usr/sbin:/sbin
export SLURM_CONF=$folder/slurm.conf
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp
export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
ENV
}

all_idle() { [[ $(sinfo --noheader --Node --format=%T 2>/dev/null | sort --unique) == idle ]]; }

start() {
  if ((nodes < 2)); then
    echo "slurm_cluster.sh: at least 2 nodes" >&2
    exit 2
  fi
  write_configuration
  source "$folder/env.sh"
  munged --origin=127.0.0.1 --key-file="$folder/munge.key" --socket="$folder/run/munge.socket" \
    --pid-file="$folder/run/munged.pid" --log-file="$folder/log/munged.log" --seed-file="$folder/run/munge.seed"
  slurmctld -c
  for ((i = 1; i <= nodes; ++i)); do slurmd -N "n$i"; done
  for ((i = 0; i < 200; ++i)); do
    if all_idle; then return; fi
    sleep 0.1
  done
  echo "slurm_cluster.sh: the nodes did not become idle; the ends of the logs:" >&2
  tail --lines=15 "$folder"/log/* >&2
  stop
  exit 1
}

stop() {
  if [[ -f $folder/env.sh && -S $folder/run/munge.socket ]]; then
    source "$folder/env.sh"
    timeout 5 scancel --user="$user" 2>/dev/null && sleep 0.5 || true
  fi
  local running pid
  read -r -a running <<<"$(daemons | tr '\n' ' ')"
  for pid in "${running[@]}"; do kill "$pid" 2>/dev/null || true; done
  for ((i = 0; i < 50; ++i)); do
    local alive=false
    for pid in "${running[@]}"; do kill -0 "$pid" 2>/dev/null && alive=true; done
    $alive || return 0
    sleep 0.1
  done
  for pid in "${running[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
}

case "$command" in
  start) start ;;
  stop) stop ;;
  *)
    echo "usage: slurm_cluster.sh start FOLDER [NODES [CPUS]] | stop FOLDER" >&2
    exit 2
    ;;
esac
