// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "core/host/cpu_list.h"
#include "launcher/doctor/gpu.h"
#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

constexpr const char* kTopology = "topology";
constexpr const char* kPeers = "peer access";
constexpr const char* kNccl = "NCCL";

const char* distance_text(int level) {
  if (level < 0) return "unknown";
  if (level <= 10) return "one PCIe switch";
  if (level <= 20) return "PCIe switches";
  if (level <= 30) return "the host bridge";
  if (level <= 40) return "one NUMA node";
  return "the link between processors";
}

/// Whether this process may run nowhere near the GPU.
bool is_far(const Environment& environment, const Gpu& gpu) {
  const std::vector<int> near = parse_cpu_list(
      environment.read_line("/sys/bus/pci/devices/" + gpu.address + "/local_cpulist"));
  const std::vector<int> threads = environment.allowed_threads();
  return !near.empty() && !threads.empty() && std::ranges::none_of(near, [&](int cpu) {
    return std::ranges::find(threads, cpu) != threads.end();
  });
}

/// Whether a switch or a board takes all of the GPU's links: of a card, bridges may take some.
bool has_all_links(const Gpu& gpu) {
  const auto named = [&](const char* part) { return gpu.name.find(part) != std::string::npos; };
  return named("SXM") || (named("HBM3") && !named("NVL") && !named("PCIe") && !named("GH200"));
}

/// The links that are up on a GPU that is well.
int usual_links(const Gpu& gpu, const GpuFacts& facts) {
  if (has_all_links(gpu)) return gpu.nvlinks;
  int most = 0;
  for (const Gpu& other : facts.gpus)
    if (other.name == gpu.name) most = std::max(most, other.nvlinks_up);
  return most;
}

int farthest(const GpuFacts& facts) {
  int level = -1;
  for (const Gpu& gpu : facts.gpus)
    for (const int distance : gpu.distance) level = std::max(level, distance);
  return level;
}

}  // namespace

Finding check_topology(const Environment& environment, const GpuFacts& facts) {
  const std::vector<Gpu> gpus = own_gpus(environment, facts);
  if (gpus.empty()) return none(kTopology, "no GPU to look at");
  for (const Gpu& gpu : gpus) {
    if (!gpu.managed) return none(kTopology, "the management library does not answer");
    if (gpu.nvlinks_up > 0 && gpu.nvlinks_up < usual_links(gpu, facts))
      return warn(kTopology,
                  fmt::format("GPU {}: {} of {} NVLinks are down",
                              gpu.ordinal,
                              usual_links(gpu, facts) - gpu.nvlinks_up,
                              usual_links(gpu, facts)),
                  fmt::format("nvidia-smi nvlink --status -i {} shows which; sudo nvidia-smi -i {} "
                              "-r brings them up again",
                              gpu.address,
                              gpu.address));
    if (gpu.pcie_width < gpu.full_pcie_width)
      return warn(
          kTopology,
          fmt::format(
              "GPU {} is on {} of {} PCIe lanes", gpu.ordinal, gpu.pcie_width, gpu.full_pcie_width),
          fmt::format("put the card into a x{} slot, firmly; in the BIOS switch bifurcation "
                      "of that slot off; sudo lspci -vvs {} shows LnkSta",
                      gpu.full_pcie_width,
                      gpu.address));
  }
  const Gpu& first = gpus[0];
  if (environment.local_rank >= 0 && is_far(environment, first))
    return warn(kTopology,
                fmt::format("GPU {} is on another NUMA node than this rank's CPUs ({})",
                            first.ordinal,
                            format_cpu_list(environment.allowed_threads())),
                "mpirun --map-by numa --bind-to numa ... (srun: --gpu-bind=closest)");
  std::string text = first.nvlinks_up > 0 ? fmt::format("{} NVLinks a GPU", first.nvlinks_up)
                                          : std::string("no NVLink");
  if (first.pcie_width > 0) text += fmt::format(", PCIe x{}", first.pcie_width);
  if (facts.gpus.size() > 1)
    text += fmt::format("; the farthest two meet at {}", distance_text(farthest(facts)));
  Finding finding = pass(kTopology, text);
  finding.trait = fmt::format("{} NVLinks, PCIe x{}", first.nvlinks_up, first.pcie_width);
  return finding;
}

Finding check_peers(const Environment&, const GpuFacts& facts) {
  const std::size_t count = facts.gpus.size();
  if (count < 2) return none(kPeers, count == 0 ? "no GPU to look at" : "one GPU has no peers");
  std::size_t reached = 0;
  for (const Gpu& gpu : facts.gpus) reached += std::size_t(std::ranges::count(gpu.peers, true));
  const std::string text = fmt::format(
      "{} of {} pairs of GPUs read each other's memory", reached / 2, count * (count - 1) / 2);
  const bool linked =
      std::ranges::any_of(facts.gpus, [](const Gpu& gpu) { return gpu.nvlinks_up > 0; });
  if (reached == 0 && linked)
    return warn(kPeers,
                text + ", though NVLink joins them",
                "switch ACS and the IOMMU off: iommu=off on the kernel's command line, or in the "
                "BIOS");
  return pass(kPeers, text);
}

Finding check_nccl(const Environment& environment, const GpuFacts& facts) {
  if (facts.gpus.empty()) return none(kNccl, "no GPU that it would join");
  if (!environment.nccl_version) return none(kNccl, "not looked at");
  const std::string without = "; until then LOCKSTEP_NCCL=off sends gradients through MPI";
  try {
    const std::string version = environment.nccl_version();
    const std::string file = environment.nccl_file ? environment.nccl_file() : std::string();
    if (!version.empty()) {
      Finding finding = pass(kNccl, file.empty() ? version : version + " from " + file);
      finding.trait = version;
      return finding;
    }
    return warn(kNccl,
                "not built in: ranks exchange gradients through host memory and MPI",
                "install NCCL 2.26 or later for this CUDA toolkit (pip install nvidia-nccl-cu12 or "
                "-cu13, or apt-get install libnccl-dev), and build again");
  } catch (const EnvironmentError& error) {
    return fail(kNccl, error.what(), error.hint() + without);
  }
}

}  // namespace lockstep::doctor
