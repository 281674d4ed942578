// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fmt/format.h>
#include <sstream>
#include <string>
#include <system_error>

#include "launcher/doctor/gpu.h"
#include "launcher/gpu_monitor/nvidia_abi.h"

namespace lockstep::doctor {
namespace {

using namespace nvidia;

constexpr const char* kDevices = "devices";
constexpr const char* kArchitecture = "architecture";
constexpr int kMinCapability = 80;  // bf16 matmul

std::string gpus_text(std::size_t count) {
  return fmt::format("{} GPU{}", count, count == 1 ? "" : "s");
}

int installed_gpus(const GpuFacts& facts) {
  return std::max({facts.installed, facts.managed, int(facts.gpus.size())});
}

/// "0,1,2,3"
std::string ordinals_below(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i > 0 ? "," : "") + std::to_string(i);
  return text;
}

/// The first entry that names no GPU; CUDA ignores it and all after it.
std::string wrong_entry(const std::string& visible, int installed) {
  std::istringstream entries(visible);
  for (std::string entry; std::getline(entries, entry, ',');) {
    if (entry.starts_with("GPU-") || entry.starts_with("MIG-")) continue;
    int number = 0;
    const std::size_t first = entry.find_first_not_of(' ');
    if (first == std::string::npos) return entry;
    const auto [stop, error] =
        std::from_chars(entry.data() + first, entry.data() + entry.size(), number);
    if (error != std::errc() || number < 0 || number >= installed) return entry;
  }
  return {};
}

Finding hidden_by_variable(const Environment& environment, const GpuFacts& facts) {
  const std::string visible = environment.variable("CUDA_VISIBLE_DEVICES");
  const int installed = installed_gpus(facts);
  const std::string of = installed > 0 ? fmt::format(" of {}", installed) : "";
  const std::string show =
      installed > 0 ? fmt::format("unset CUDA_VISIBLE_DEVICES (or: export CUDA_VISIBLE_DEVICES={})",
                                  ordinals_below(installed))
                    : "unset CUDA_VISIBLE_DEVICES";
  if (visible.empty())
    return fail(kDevices,
                fmt::format("0{} GPUs are visible: CUDA_VISIBLE_DEVICES is set to nothing, which "
                            "hides them all",
                            of),
                show);
  return fail(kDevices,
              fmt::format("0{} GPUs are visible: CUDA_VISIBLE_DEVICES={}, and '{}' is none of "
                          "this machine's 0 to {}",
                          of,
                          visible,
                          wrong_entry(visible, installed),
                          installed - 1),
              show);
}

/// A GPU that fails to start has the same zero, and it is not the variable's fault.
bool is_hidden_by_variable(const Environment& environment, const GpuFacts& facts) {
  if (!environment.has("CUDA_VISIBLE_DEVICES")) return false;
  if (facts.status != 0 && facts.status != kCudaNoDevice && facts.status != kCudaInvalidDevice)
    return false;
  const std::string visible = environment.variable("CUDA_VISIBLE_DEVICES");
  const int installed = installed_gpus(facts);
  return visible.empty() || (installed > 0 && !wrong_entry(visible, installed).empty());
}

bool in_slurm_without_gpu(const Environment& environment) {
  return environment.has("SLURM_JOB_ID") && !environment.has("SLURM_JOB_GPUS") &&
         !environment.has("SLURM_STEP_GPUS");
}

Finding closed(const Environment& environment, const DeviceNode& node) {
  const Container container = container_of(environment);
  const std::string what = fmt::format("0 GPUs are visible: {} may not be opened ({})",
                                       node.path,
                                       std::generic_category().message(node.error));
  if (node.error == EACCES)
    return fail(kDevices,
                what + ": this user has no permission",
                "sudo chmod a+rw /dev/nvidia*; for good: the line \"options nvidia "
                "NVreg_DeviceFileMode=0666\" in /etc/modprobe.d/nvidia.conf");
  if (node.error == EPERM && environment.has("SLURM_JOB_ID"))
    return fail(kDevices,
                what + ": Slurm's cgroup keeps this job from GPUs that it did not ask for",
                "ask for them: sbatch --gpus-per-node=8, or srun --gpus-per-node=8 ... (not "
                "--gpus-per-task, which may keep ranks from each other's GPUs)");
  if (node.error == EPERM && !container.kind.empty())
    return fail(kDevices,
                what + fmt::format(": the cgroup of this {} container does not allow the device",
                                   container.kind),
                container.give_gpus +
                    " (a container that lost its GPUs after systemctl "
                    "daemon-reload on the host needs a new start)");
  if (node.error == EPERM)
    return fail(kDevices,
                what + ": the cgroup of this process does not allow the device",
                "systemctl edit UNIT, and under [Service]: DeviceAllow=char-nvidia* rw");
  return fail(kDevices,
              what,
              "sudo nvidia-modprobe -u -c=0; where it still fails, dmesg | grep NVRM says why");
}

bool is_gpu(const DeviceNode& node) {
  return node.path != "/dev/nvidiactl" && node.path != "/dev/nvidia-uvm";
}

/// A file without which no GPU works: a common one, or that of a GPU where none can be opened.
const DeviceNode* closed_node(const GpuFacts& facts) {
  const DeviceNode* found = nullptr;
  bool some_gpu = false;
  for (const DeviceNode& node : facts.nodes) {
    if (node.error != 0 && !is_gpu(node)) return &node;
    if (node.error != 0 && found == nullptr) found = &node;
    some_gpu |= node.error == 0 && is_gpu(node);
  }
  return some_gpu ? nullptr : found;
}

Finding no_nodes(const Environment& environment) {
  const Container container = container_of(environment);
  const std::string text =
      "0 GPUs are visible: the kernel runs NVIDIA's driver, but /dev has no nvidia files";
  if (!container.kind.empty())
    return fail(kDevices,
                fmt::format("{}: this {} container was not given the GPUs", text, container.kind),
                container.give_gpus);
  return fail(kDevices, text, "sudo nvidia-modprobe -u -c=0 makes them (nvidia-smi does as well)");
}

/// Why CUDA shows nothing, where the driver itself is well.
Finding none_visible(const Environment& environment, const GpuFacts& facts) {
  if (const DeviceNode* const node = closed_node(facts)) return closed(environment, *node);
  if (facts.status == kCudaSystemNotReady)
    return fail(kDevices,
                "0 GPUs can be used: CUDA waits for the fabric manager of the NVLink switches",
                "sudo systemctl enable --now nvidia-fabricmanager (of the driver's version)");
  if (is_hidden_by_variable(environment, facts)) return hidden_by_variable(environment, facts);
  const bool has_gpus = std::ranges::any_of(facts.nodes, is_gpu);
  if (in_slurm_without_gpu(environment))
    return fail(kDevices,
                "0 GPUs are visible: Slurm gave this job none",
                "ask for them: sbatch --gpus-per-node=8, or srun --gpus-per-node=8 ... (not "
                "--gpus-per-task, which may keep ranks from each other's GPUs)");
  if (!has_gpus) return no_nodes(environment);
  const bool uvm = std::ranges::any_of(
      facts.nodes, [](const DeviceNode& node) { return node.path == "/dev/nvidia-uvm"; });
  if (!uvm)
    return fail(kDevices,
                "0 GPUs are visible: /dev/nvidia-uvm is missing, which CUDA needs",
                "sudo nvidia-modprobe -u -c=0");
  std::string what = fmt::format("0 GPUs are visible: CUDA says {}", facts.status_name);
  if (facts.status == 0) what = "0 GPUs are visible: CUDA counts none";
  const bool by_name = facts.status == kCudaNoDevice || facts.status == 0;
  const std::string value = environment.variable("CUDA_VISIBLE_DEVICES");
  if (by_name && !value.empty())
    return fail(kDevices,
                fmt::format("{}, with CUDA_VISIBLE_DEVICES={}", what, value),
                "nvidia-smi -L lists what that may name, unset CUDA_VISIBLE_DEVICES shows all; "
                "where that changes nothing, sudo dmesg | grep -e NVRM -e Xid says why");
  return fail(
      kDevices,
      what,
      "sudo dmesg | grep -e NVRM -e Xid shows the GPU's error; sudo nvidia-smi -r resets it");
}

Finding some_visible(const Environment& environment, const GpuFacts& facts) {
  const int visible = int(facts.gpus.size()), installed = installed_gpus(facts);
  for (const Gpu& gpu : facts.gpus)
    if (gpu.prohibited)
      return fail(
          kDevices,
          fmt::format("GPU {} lets no process in: its compute mode is Prohibited", gpu.ordinal),
          fmt::format("sudo nvidia-smi -i {} -c DEFAULT", gpu.address));
  if (!environment.has("CUDA_VISIBLE_DEVICES")) {
    if (visible == installed) return pass(kDevices, gpus_text(facts.gpus.size()));
    return pass(kDevices,
                fmt::format("{} of {} GPUs are given to this process", visible, installed));
  }
  const std::string value = environment.variable("CUDA_VISIBLE_DEVICES");
  const std::string wrong = wrong_entry(value, installed);
  if (!wrong.empty())
    return warn(kDevices,
                fmt::format("{} of {} GPUs are visible: in CUDA_VISIBLE_DEVICES={} CUDA stops at "
                            "'{}', which is none of 0 to {}",
                            visible,
                            installed,
                            value,
                            wrong,
                            installed - 1),
                fmt::format("export CUDA_VISIBLE_DEVICES={}", ordinals_below(installed)));
  return pass(kDevices,
              fmt::format("{} of {} GPUs: CUDA_VISIBLE_DEVICES={}", visible, installed, value));
}

/// Code for 8.0 runs on 8.6 as well, not the other way around.
bool has_code(const CudaBuild& build, int capability) {
  return std::ranges::any_of(build.architectures, [&](int built) {
    return built / 10 == capability / 10 && built <= capability;
  });
}

}  // namespace

Finding check_devices(const Environment& environment, const GpuFacts& facts) {
  if (!facts.gpus.empty()) return some_visible(environment, facts);
  const Finding driver = check_driver(environment, facts);
  if (driver.verdict == Verdict::warn || driver.verdict == Verdict::fail)
    return none(kDevices, "0 GPUs, for the driver's reason");
  return none_visible(environment, facts);
}

Finding check_architecture(const Environment& environment, const GpuFacts& facts) {
  const CudaBuild& build = environment.build;
  if (facts.gpus.empty()) return none(kArchitecture, "no GPU to compare with");
  if (!build.absent_because.empty() || build.architectures.empty())
    return none(kArchitecture, "this program holds no code for GPUs");
  std::string built, seen;
  for (const int architecture : build.architectures)
    built += (built.empty() ? "" : ", ") + capability_text(architecture);
  for (const Gpu& gpu : facts.gpus) {
    const std::string name = capability_text(gpu.capability);
    if (seen.find(name) == std::string::npos) seen += (seen.empty() ? "" : ", ") + name;
    const std::string which =
        fmt::format("GPU {} ({}) is of compute capability {}", gpu.ordinal, gpu.name, name);
    const std::string rebuild = fmt::format(
        "cmake --preset release -DCMAKE_CUDA_ARCHITECTURES={} && cmake --build "
        "--preset release",
        gpu.capability);
    if (gpu.capability < kMinCapability)
      return fail(kArchitecture,
                  which + fmt::format(", and {} is the least that Lockstep needs",
                                      capability_text(kMinCapability)),
                  "leave it out with CUDA_VISIBLE_DEVICES, or use --device cpu");
    if (has_code(build, gpu.capability)) continue;
    if (gpu.capability > build.architectures.back())
      return warn(
          kArchitecture,
          which + fmt::format(", newer than what this program is built for ({}): the driver "
                              "compiles every kernel at the start, if it can",
                              built),
          rebuild);
    return fail(
        kArchitecture, which + fmt::format(", this program is built for {}", built), rebuild);
  }
  Finding finding = pass(kArchitecture, fmt::format("{}, built for {}", seen, built));
  finding.trait = seen;
  return finding;
}

}  // namespace lockstep::doctor
