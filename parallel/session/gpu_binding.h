// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

// Note [Processors of a rank on a GPU]
//
// A rank on a GPU has more threads than one core has room for: loaders, NCCL's proxy, the driver's.
// Launchers do not know what a rank will work on when they bind it, on other hosts least of all. So
// the rank itself, when it knows its GPU, goes to the hardware threads near that GPU, those of
// its NUMA node; several ranks share them where their GPUs are on one node. It does so where no one
// has restricted it, and where the mpirun or srun that `lockstep` itself started bound it to a
// core. Another mask was chosen by the user and stays. The kernel keeps a rank within its cpuset,
// which is how Slurm and containers limit a job, whatever it asks for.
namespace lockstep {

/// The hardware threads that such a rank should go to; empty: it stays where it is. `mask`: it may
/// use now; `cores`: that these belong to; `online`: of the host; `local`: near its GPU, empty
/// where the kernel does not say; `own_launch`: `lockstep` itself started the launcher.
std::vector<int> threads_near_gpu(const std::vector<int>& mask,
                                  int cores,
                                  const std::vector<int>& online,
                                  const std::vector<int>& local,
                                  bool own_launch);

/// Does that with all threads of this process, for the GPU at `address` on the PCI bus
/// ("0000:1B:00.0"), by the topology below `root` + /sys. Returns where it is then, "0-7,16-23";
/// empty where it stays. What cannot be done is left: it costs speed alone.
std::string bind_to_gpu(const std::string& address, bool own_launch, const std::string& root = {});

}  // namespace lockstep
