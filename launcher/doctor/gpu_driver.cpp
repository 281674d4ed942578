// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <string>

#include "launcher/doctor/gpu.h"
#include "launcher/gpu_monitor/nvidia_abi.h"
#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

using namespace nvidia;

constexpr const char* kDriver = "driver";
constexpr const char* kRuntime = "CUDA";
constexpr const char* kLibraries = "CUDA libraries";

/// The oldest driver for each CUDA, from the tables of CUDA's release notes.
const char* driver_for(int cuda_version) {
  return cuda_version >= 13000 ? "580" : cuda_version >= 12000 ? "525" : "450";
}

/// What the absence of GPUs means for what was asked.
std::string zero_text(const Environment& environment) {
  return environment.device == "cuda"
             ? "the number of devices is 0, and --device cuda cannot run here"
             : "the number of devices is 0, and training runs on the processor's cores";
}

/// "; taken: cuDNN 9.19.0 from /usr/lib/libcudnn.so.9.19.0, ...", and what --profile lacks.
std::string files_text(const CudaLibraries& found) {
  std::string taken, missing;
  for (const CudaLibrary& library : found.files) {
    if (!library.file.empty())
      taken += fmt::format("{}{}{}{} from {}",
                           taken.empty() ? "; taken: " : ", ",
                           library.name,
                           library.version.empty() ? "" : " ",
                           library.version,
                           library.file);
    else if (library.name == "CUPTI")
      missing = fmt::format(
          "; --profile takes no kernel times: {} ({})", library.absent_because, library.hint);
  }
  return taken + missing;
}

std::string hint_of(const CudaLibraries& found, const std::string& name) {
  for (const CudaLibrary& library : found.files)
    if (library.name == name && !library.hint.empty()) return library.hint;
  return "install NVRTC of this CUDA toolkit (cuda-nvrtc in NVIDIA's packages), or add the folder "
         "that holds libnvrtc to LOCKSTEP_CUDA_PATH or LD_LIBRARY_PATH";
}

Finding no_gpu(const Environment& environment, const std::string& what) {
  const std::string text = fmt::format("{}: {}", what, zero_text(environment));
  const std::string elsewhere =
      "go to a machine that has GPUs, or ask Slurm for a job with some: srun --gpus-per-node=8 ...";
  if (environment.device == "cuda") return fail(kDriver, text, "use --device cpu; or " + elsewhere);
  return warn(kDriver, text, "--device cpu says that this is meant; for GPUs " + elsewhere);
}

Finding no_library(const Environment& environment, const GpuFacts& facts) {
  const Container container = container_of(environment);
  if (!facts.library_error.empty())
    return fail(kDriver,
                fmt::format("the driver's library cannot be opened: {}", facts.library_error),
                container.kind.empty()
                    ? "apt install --reinstall libcuda1 (Debian), or install the driver again, of "
                      "the same version"
                    : "take the driver's own packages (libcuda1, libnvidia-*) out of the image; " +
                          container.give_gpus);
  if (!facts.library_elsewhere.empty())
    return fail(
        kDriver,
        fmt::format("the driver's library libcuda.so.1 is in {}, where it is not looked "
                    "for",
                    facts.library_elsewhere[0]),
        fmt::format("export LD_LIBRARY_PATH={}:$LD_LIBRARY_PATH", facts.library_elsewhere[0]));
  const bool module = !facts.module_version.empty();
  if (!module && facts.on_bus == 0)
    return no_gpu(environment, "this machine shows no NVIDIA GPU and no NVIDIA driver");
  if (!container.kind.empty())
    return fail(kDriver,
                fmt::format("the host has {}, but this {} container was started without it: "
                            "libcuda.so.1 is not here",
                            module ? "NVIDIA's driver" : "an NVIDIA GPU",
                            container.kind),
                container.give_gpus);
  if (module)
    return fail(kDriver,
                fmt::format("the kernel runs NVIDIA's driver {}, but its library libcuda.so.1 is "
                            "not installed",
                            facts.module_version),
                "apt install libcuda1 (Debian), or install the driver again, of the same version");
  return fail(kDriver,
              fmt::format("{} NVIDIA GPU{} in this machine, but no driver is installed",
                          facts.on_bus,
                          facts.on_bus == 1 ? " is" : "s are"),
              "apt install nvidia-driver (Debian; elsewhere NVIDIA's packages), then reboot");
}

Finding mismatch(const Environment& environment, const GpuFacts& facts) {
  const Container container = container_of(environment);
  const std::string text =
      facts.library_version.empty() || facts.library_version == facts.module_version
          ? fmt::format("the driver's libraries are not of the version that the kernel runs ({})",
                        facts.module_version)
          : fmt::format(
                "the kernel runs driver {}, the libraries are of {}: they were updated and "
                "the kernel's part was not loaded again",
                facts.module_version,
                facts.library_version);
  if (!container.kind.empty())
    return fail(kDriver,
                text,
                "take the driver's own packages (libcuda1, libnvidia-*) out of the image: the "
                "container toolkit brings in those of the host");
  return fail(kDriver,
              text,
              "sudo reboot; or with nothing running on the GPUs: sudo rmmod nvidia_uvm nvidia_drm "
              "nvidia_modeset nvidia && sudo modprobe nvidia");
}

Finding no_module(const Environment& environment, const GpuFacts& facts) {
  if (facts.on_bus == 0)
    return no_gpu(environment,
                  "the driver's libraries are installed, but this machine shows no NVIDIA GPU and "
                  "the kernel runs no driver");
  return fail(kDriver,
              "the driver's libraries are installed, but the kernel has not loaded its part",
              container_of(environment).kind.empty()
                  ? "sudo modprobe nvidia (where that fails, dmesg | grep -i nvidia says why)"
                  : "sudo modprobe nvidia on the host, then start the container again");
}

}  // namespace

Finding check_driver(const Environment& environment, const GpuFacts& facts) {
  if (!facts.library) return no_library(environment, facts);
  if (facts.status == kCudaStubLibrary)
    return fail(kDriver,
                "the libcuda.so.1 that is found is the toolkit's stub, for linking only",
                "take the folder that ends in /stubs out of LD_LIBRARY_PATH");
  if (facts.status == kCudaDriverMismatch || facts.management_status == kNvmlVersionMismatch)
    return mismatch(environment, facts);
  const bool none_answers = facts.gpus.empty() && facts.status != 0;
  if (none_answers && facts.module_version.empty() && facts.installed == 0 && facts.managed == 0)
    return no_module(environment, facts);
  const std::string version =
      facts.module_version.empty() ? facts.library_version : facts.module_version;
  // The devices' line says why, and what to do.
  const bool starts =
      facts.status == 0 || facts.status == kCudaNoDevice || facts.status == kCudaInvalidDevice;
  Finding finding =
      starts ? pass(kDriver,
                    version.empty() ? "NVIDIA's driver answers"
                                    : "NVIDIA's driver " + version + " answers")
             : none(kDriver,
                    fmt::format("NVIDIA's driver {}is there, but CUDA does not start on it ({})",
                                version.empty() ? "" : version + " ",
                                facts.status_name));
  finding.trait = version;
  return finding;
}

Finding check_runtime(const Environment& environment, const GpuFacts& facts) {
  const CudaBuild& build = environment.build;
  const bool gpus = facts.on_bus > 0 || facts.installed > 0 || !facts.gpus.empty();
  if (!build.absent_because.empty() && gpus)
    return fail(kRuntime,
                fmt::format("this program is built without CUDA ({}): it cannot use the GPUs",
                            build.absent_because),
                "install the CUDA toolkit 12.4 or later and cuDNN 9.1 or later, then: cmake "
                "--preset release "
                "-DLOCKSTEP_CUDA=ON && cmake --build --preset release");
  if (!build.absent_because.empty())
    return none(kRuntime,
                fmt::format("this program is built without CUDA ({})", build.absent_because));
  if (facts.cuda_version == 0)
    return none(kRuntime,
                fmt::format("built with CUDA {}; without a driver there is nothing to compare",
                            cuda_version_text(build.runtime_version)));
  const std::string versions =
      fmt::format("the driver does CUDA {}, this program was built with {}",
                  cuda_version_text(facts.cuda_version),
                  cuda_version_text(build.runtime_version));
  if (facts.cuda_version / 1000 < build.runtime_version / 1000)
    return fail(
        kRuntime,
        versions + ": the driver is too old",
        fmt::format("update the driver to {} or later, for example: sudo apt install "
                    "nvidia-driver (on data-centre GPUs also: apt install cuda-compat-{}-{})",
                    driver_for(build.runtime_version),
                    build.runtime_version / 1000,
                    build.runtime_version % 1000 / 10));
  Finding finding = pass(kRuntime, versions);
  finding.trait = versions;
  return finding;
}

Finding check_libraries(const Environment& environment, const GpuFacts& facts) {
  if (facts.gpus.empty()) return none(kLibraries, "no GPU that they would run on");
  if (!environment.cuda_libraries) return none(kLibraries, "not looked at");
  try {
    const CudaLibraries found = environment.cuda_libraries();
    const std::string text = found.versions + files_text(found);
    Finding finding =
        found.no_compiler_because.empty()
            ? pass(kLibraries, text)
            : warn(kLibraries,
                   fmt::format("{}; but cuDNN cannot compile kernels, and may have none for a "
                               "convolution, which is far slower then: {}",
                               text,
                               found.no_compiler_because),
                   hint_of(found, "NVRTC"));
    finding.trait = found.versions;
    return finding;
  } catch (const Error& error) {
    return fail(kLibraries, error.what(), error.hint());
  }
}

}  // namespace lockstep::doctor
