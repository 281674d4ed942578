// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/gpu_monitor/nvml.h"

namespace lockstep::doctor {

/// A GPU that CUDA shows to this process. What NVML does not say is empty.
struct Gpu : GpuState {
  int ordinal = 0;       ///< among the visible ones
  std::string name;      ///< "NVIDIA H100 80GB HBM3"
  int capability = 0;    ///< 9.0 as 90
  std::string address;   ///< on the PCI bus, "0000:1b:00.0"
  std::string id;        ///< that no other GPU or MIG instance of this host has
  bool part = false;     ///< a MIG instance: NVML speaks of the GPU that it is a part of
  bool managed = false;  ///< NVML knows it

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
