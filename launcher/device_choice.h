// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "kernels/cuda/device_probe.h"

namespace lockstep {

/// The device that one rank works on.
struct DeviceChoice {
  bool cuda = false;
  int ordinal = 0;   ///< of the visible GPUs
  std::string note;  ///< what the user should know of it; may be empty
};

/// `asked`: "auto", "cpu" or "cuda". auto takes CUDA where a device answers and the CPU elsewhere.
/// The ranks of a host are dealt to its GPUs in turn, so that they share them where they are more.
/// `local_rank`: among the `local_ranks` of this host. Pure.
/// Throws EnvironmentError with the probe's reason: "cuda" without a device.
DeviceChoice choose_device(const std::string& asked,
                           const DeviceProbe& probe,
                           int local_rank,
                           int local_ranks);

/// The GPUs that ranks started here would work on: those visible, 0 where they work on the CPU.
/// Throws what choose_device() throws.
int usable_gpus(const std::string& asked);

}  // namespace lockstep
