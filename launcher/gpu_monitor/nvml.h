// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/gpu_monitor/nvidia_library.h"
#include "lockstep/gpu_use.h"

namespace lockstep {

/// A process that holds memory of a GPU.
struct GpuUser {
  int process = 0;
  std::string name;         ///< "python3"; NVML does not say it
  std::uint64_t bytes = 0;  ///< 0: not said
};

/// The condition of a GPU. What NVML does not say is empty.
struct GpuState {
  std::uint64_t memory_bytes = 0, used_bytes = 0;
  std::vector<GpuUser> users;
  bool prohibited = false;  ///< its compute mode lets no process in

  std::optional<bool> ecc;  ///< switched on
  bool has_no_ecc = false;  ///< NVML says that the model has none
  std::optional<std::uint64_t> uncorrected_errors;
  bool reset_pending = false;  ///< bad memory rows are replaced at the next reset
  bool repair_failed = false;  ///< no spare rows are left

  std::optional<std::uint64_t> throttled;    ///< bits of NVML's clock event reasons
  unsigned power_mw = 0, full_power_mw = 0;  ///< limit as set, and as the model has it

  unsigned clock_mhz = 0, full_clock_mhz = 0;  ///< as set for programs, and as the model has it

  int nvlinks = 0, nvlinks_up = 0;
  unsigned pcie_width = 0, full_pcie_width = 0;  ///< lanes
};

/// The session with NVML, the driver's management library, which is opened while the program runs.
/// Any call may hang where the driver does. Meanings of the answers: NVML API Reference Guide,
/// "Device Queries", nvmlUtilization_t, nvmlMemory_v2_t, nvmlClocksEventReasons.
///
/// `part`: this process has a MIG part of the GPU. NVML says no shares then, and the memory of all
/// parts together, so that neither is asked for.
class Nvml {
 public:
  using Device = struct NvmlDevice*;

  /// `library_folder` holds libnvidia-ml.so.1; empty: the dynamic linker looks for it.
  explicit Nvml(const std::string& library_folder);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Why nothing can be asked; empty: it can.
  const std::string& error() const { return error_; }
  /// Of its start; 0 also where the library could not be opened.
  int status() const { return status_; }
  /// GPUs that NVML sees: CUDA_VISIBLE_DEVICES hides none of them.
  int count() const;
  /// The GPU at `address` on the PCI bus, "0000:1b:00.0"; null where it cannot be asked, for the
  /// reason `why`.
  Device find(const std::string& address, std::string* why = nullptr) const;

  /// The GPU is cut into MIG parts.
  bool has_parts(Device device) const;
  /// Fills in what is said.
  void read_state(Device device, bool part, GpuState& state) const;
  std::vector<GpuUser> users(Device device) const;
  /// NVML's topology level of two GPUs, of which each may be null; -1: not said.
  int distance(Device from, Device to) const;
  /// Memory in all, power limit in force, highest clocks.
  GpuValues limits(Device device, bool part) const;
  GpuSample sample(Device device, bool part) const;

 private:
  /// Whether the library has the function, and it answers.
  template <typename... Arguments>
  bool ask(const char* function, Arguments... arguments) const {
    return library_.call(function, arguments...) == 0;
  }
  std::string words_of(int status) const;
  void read_health(Device device, GpuState& state) const;
  void read_settings(Device device, GpuState& state) const;
  void read_links(Device device, GpuState& state) const;
  std::optional<std::uint64_t> clock_reasons(Device device) const;
  bool read_memory(Device device, double& used, double& total) const;

  NvidiaLibrary library_;
  std::string error_;
  int status_ = 0;
};

}  // namespace lockstep
