// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/examine.h"

#include "core/base/error.h"
#include "launcher/doctor/gpu.h"
#include "launcher/doctor/host.h"

namespace lockstep::doctor {
namespace {

template <typename Check>
void add(Findings& findings, const char* subject, Check check) {
  try {
    findings.push_back(check());
  } catch (const Error& error) {
    findings.push_back(fail(subject, error.what(), error.hint()));
  } catch (const std::exception& error) {
    findings.push_back(
        fail(subject, fmt::format("looking at it failed: {}", error.what()), "report this"));
  }
}

void examine_gpus(Findings& findings, const Environment& environment, const GpuFacts& facts) {
  if (environment.device == "cpu") {
    findings.push_back(none("GPUs", "not asked for: --device cpu"));
    return;
  }
  using Check = Finding (*)(const Environment&, const GpuFacts&);
  const auto run = [&](const char* subject, Check check) {
    add(findings, subject, [&] { return check(environment, facts); });
  };
  run("driver", check_driver);
  run("CUDA", check_runtime);
  run("devices", check_devices);
  if (facts.gpus.empty()) {
    findings.push_back(none("GPU checks",
                            "architecture, speed, memory, ECC, clocks, topology, peer access: no "
                            "GPU to look at"));
  } else {
    run("architecture", check_architecture);
    run("GPU memory", check_gpu_memory);
    run("ECC", check_ecc);
    run("clocks", check_clocks);
    run("topology", check_topology);
    run("peer access", check_peers);
    run("GPU speed", check_gpu_speed);
  }
  run("NCCL", check_nccl);
}

}  // namespace

Findings examine(const Environment& environment, const GpuFacts& facts) {
  Findings findings;
  examine_gpus(findings, environment, facts);
  using Check = Finding (*)(const Environment&);
  const auto run = [&](const char* subject, Check check) {
    add(findings, subject, [&] { return check(environment); });
  };
  run("MPI", check_mpi);
  run("CUDA-aware MPI", check_cuda_aware_mpi);
  run("/dev/shm", check_shared_memory);
  run("locked memory", check_locked_memory);
  run("open files", check_open_files);
  run("affinity", check_affinity);
  const bool on_gpus = environment.device != "cpu" && environment.build.absent_because.empty();
  add(findings, "cores", [&] {
    return check_cores(environment, on_gpus ? int(facts.gpus.size()) : 0);
  });
  run("processor", check_cpu);
  run("storage", check_storage);
  return findings;
}

}  // namespace lockstep::doctor
