// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/examine.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <utility>

#include "launcher/doctor/gpu.h"
#include "launcher/doctor/host.h"
#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

constexpr const char* kReport =
    "lockstep doctor --json > doctor.json, and report it with what was run";

template <typename Check>
Finding look(const char* subject, Check check) {
  try {
    return check();
  } catch (const Error& error) {
    return fail(subject, error.what(), error.hint());
  } catch (const std::exception& error) {
    return fail(subject, fmt::format("looking at it failed: {}", error.what()), "");
  }
}

template <typename Check>
void add(Findings& findings, const Environment& environment, const char* subject, Check check) {
  environment.begin(subject);
  Finding finding = look(subject, check);
  // Errors of other parts may come without advice.
  if (finding.verdict >= Verdict::warn && finding.remedy.empty()) finding.remedy = kReport;
  environment.found(finding);
  findings.push_back(std::move(finding));
}

void examine_gpus(Findings& findings, const Environment& environment, const GpuFacts& facts) {
  if (environment.device == "cpu") {
    add(findings, environment, "GPUs", [] { return none("GPUs", "not asked for: --device cpu"); });
    return;
  }
  using Check = Finding (*)(const Environment&, const GpuFacts&);
  const auto run = [&](const char* subject, Check check) {
    add(findings, environment, subject, [&] { return check(environment, facts); });
  };
  run("driver", check_driver);
  run("CUDA", check_runtime);
  run("devices", check_devices);
  if (facts.gpus.empty()) {
    add(findings, environment, "GPU checks", [] {
      return none("GPU checks",
                  "architecture, speed, memory, ECC, clocks, topology, peer access: no GPU to look "
                  "at");
    });
  } else {
    run("architecture", check_architecture);
    run("GPU memory", check_gpu_memory);
    run("ECC", check_ecc);
    run("clocks", check_clocks);
    run("topology", check_topology);
    run("peer access", check_peers);
    run("GPU speed", check_gpu_speed);
  }
  run("CUDA libraries", check_libraries);
  run("NCCL", check_nccl);
}

}  // namespace

Findings examine(const Environment& environment, const GpuFacts& facts) {
  Findings findings;
  examine_gpus(findings, environment, facts);
  using Check = Finding (*)(const Environment&);
  const auto run = [&](const char* subject, Check check) {
    add(findings, environment, subject, [&] { return check(environment); });
  };
  run("MPI", check_mpi);
  run("CUDA-aware MPI", check_cuda_aware_mpi);
  run("ports", check_ports);
  run("/dev/shm", check_shared_memory);
  run("locked memory", check_locked_memory);
  run("open files", check_open_files);
  run("affinity", check_affinity);
  const bool on_gpus = environment.device != "cpu" && environment.build.absent_because.empty();
  const int gpus = std::max(environment.gpus_here, int(facts.gpus.size()));
  add(findings, environment, "cores", [&] { return check_cores(environment, on_gpus ? gpus : 0); });
  run("processor", check_cpu);
  run("storage", check_storage);
  return findings;
}

}  // namespace lockstep::doctor
