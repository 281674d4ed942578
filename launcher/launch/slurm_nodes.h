// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/launch/hosts.h"
#include "parallel/session/rank_discovery.h"

namespace lockstep {

/// The tasks of each node of an allocation as Slurm writes them into SLURM_TASKS_PER_NODE,
/// "2(x3),1" being 2, 2, 2, 1; empty where it is nothing of that kind.
std::vector<int> tasks_by_node(const std::string& tasks_per_node);

/// Their sum. SLURM_NTASKS may say what an earlier allocation of a requeued job had.
int allocated_tasks(const std::string& tasks_per_node);

/// The nodes of the allocation that this process is in, with their tasks, as it began: a job that
/// was submitted with --no-kill may have lost some since (HostProbe asks). Empty where it has one
/// node, or Slurm does not say (`scontrol show hostnames`).
std::vector<Host> allocated_nodes(const VariableMap& variables);

/// What Slurm knows of the nodes before this process starts anything on them.
struct NodesBefore {
  bool some_are_gone = false;  ///< Slurm has taken them out of the job
  /// A job step of this program, which was started before, has not ended: another run, or one that
  /// has lost a node.
  bool has_steps = false;
};
/// By `squeue`. Nothing where Slurm does not answer.
NodesBefore nodes_before_start(const std::vector<Host>& nodes, const VariableMap& variables);

/// Those of `nodes` on which srun starts a job step, all asked at once. A node that takes 5 s
/// longer than the first one, or of many nodes somewhat more, is gone. Where none answers within 30
/// s, it is Slurm that does not: all of them. So where `gives_up`, which is asked meanwhile, says
/// so.
std::vector<Host> answering_nodes(const std::vector<Host>& nodes,
                                  const ProbeProgram& srun,
                                  const std::function<bool()>& gives_up = {});

}  // namespace lockstep
