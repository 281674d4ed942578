// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "launcher/doctor/host.h"

namespace lockstep::doctor {
namespace {

constexpr const char* kMpi = "MPI";
constexpr const char* kAware = "CUDA-aware MPI";
constexpr double kStartSeconds = 30, kAskSeconds = 10;

/// The line of the output that says most: the first that is not decoration.
std::string first_line(const std::string& output) {
  std::size_t begin = 0;
  while (begin < output.size()) {
    const std::size_t end = std::min(output.find('\n', begin), output.size());
    std::string line = output.substr(begin, end - begin);
    if (line.find_first_not_of("-=* \t\r") != std::string::npos) return line;
    begin = end + 1;
  }
  return "it says nothing";
}

}  // namespace

Finding check_mpi(const Environment& environment) {
  if (environment.mpi_runs)
    return pass(kMpi,
                fmt::format("connects {} ranks, {} of them on this host",
                            environment.ranks,
                            environment.ranks_here));
  for (const char* size : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "MV2_COMM_WORLD_SIZE"})
    if (environment.has(size))  // an mpirun inside of another does not start
      return none(kMpi, "one rank has no peer: mpirun -np 2 lockstep doctor tries it");
  if (environment.has("SLURM_JOB_ID"))
    return none(kMpi, "inside a Slurm allocation: srun --mpi=pmix -n 2 lockstep doctor tries it");
  std::vector<std::string> command{"mpirun", "-np", "2", "--oversubscribe", "--bind-to", "none"};
  if (environment.is_root) command.push_back("--allow-run-as-root");
  command.insert(command.end(), {environment.program, "doctor", "--answer"});
  const ToolResult result = environment.run_tool(command, kStartSeconds);
  if (!result.found)
    return warn(kMpi,
                "mpirun is not in PATH: there is nothing to start several ranks with",
                "apt install openmpi-bin (Debian), or add Open MPI's bin folder to PATH");
  if (result.timed_out)
    return fail(
        kMpi,
        fmt::format("two ranks under mpirun did not find each other in {} s", kStartSeconds),
        "export OMPI_MCA_btl_tcp_if_include=lo (a network interface that is up; ip link "
        "lists them)");
  if (result.exit_code != 0)
    return fail(
        kMpi,
        fmt::format("mpirun cannot start two ranks: {}", first_line(result.output)),
        "mpirun -np 2 --oversubscribe hostname shows what it lacks; apt install --reinstall "
        "openmpi-bin libopenmpi-dev mends it (Debian)");
  return pass(kMpi, "mpirun starts two ranks, and they find each other");
}

Finding check_cuda_aware_mpi(const Environment& environment) {
  const ToolResult result = environment.run_tool(
      {"ompi_info", "--parsable", "-l", "9", "--param", "mpi", "all"}, kAskSeconds);
  if (!result.found || result.exit_code != 0)
    return none(kAware, "ompi_info, which would tell, is not in PATH or fails");
  const bool aware =
      result.output.find("mpi_built_with_cuda_support:value:true") != std::string::npos;
  return pass(kAware,
              aware ? "yes"
                    : "no; nothing is lost: Lockstep sends gradients of GPUs through the host's "
                      "memory");
}

}  // namespace lockstep::doctor
