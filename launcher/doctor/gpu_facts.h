// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::doctor {

/// A process that holds memory of a GPU.
struct GpuUser {
  int process = 0;
  std::string name;         ///< "python3"; empty where it is not to be seen from here
  std::uint64_t bytes = 0;  ///< 0: not said
};

/// A GPU that CUDA shows to this process. What NVML does not say is empty.
struct Gpu {
  int ordinal = 0;       ///< among the visible ones
  std::string name;      ///< "NVIDIA H100 80GB HBM3"
  int capability = 0;    ///< 9.0 as 90
  std::string address;   ///< on the PCI bus, "0000:1b:00.0"
  std::string id;        ///< that no other GPU or MIG instance of this host has
  bool part = false;     ///< a MIG instance: NVML speaks of the GPU that it is a part of
  bool managed = false;  ///< NVML knows it

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
  std::vector<bool> peers;    ///< by ordinal: whether it reads that GPU's memory itself
  std::vector<int> distance;  ///< by ordinal: NVML's topology level; -1: not said
};

/// A file of /dev, and what came of opening it.
struct DeviceNode {
  std::string path;
  int error = 0;
};

struct GpuFacts {
  int on_bus = 0;              ///< NVIDIA GPUs on the PCI bus, with a driver or without
  std::string module_version;  ///< of the kernel's driver; empty: not loaded
  int installed = 0;           ///< GPUs that the kernel's driver works with
  std::vector<DeviceNode> nodes;

  bool library = false;         ///< libcuda.so.1 was opened
  std::string library_error;    ///< the linker's words, where the library is there but broken
  std::string library_version;  ///< of the driver that it came with; empty where unknown
  std::vector<std::string> library_elsewhere;  ///< folders that have it and are not looked in
  int cuda_version = 0;                        ///< the newest that it can do, 13000
  int status = 0;                              ///< of starting CUDA and counting devices
  std::string status_name;                     ///< "CUDA_ERROR_NO_DEVICE"

  bool management = false;  ///< NVML answers
  int management_status = 0;
  int managed = 0;  ///< GPUs that NVML sees: CUDA_VISIBLE_DEVICES hides none of them
  std::vector<Gpu> gpus;
};

}  // namespace lockstep::doctor
