// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace lockstep {

/// Which CUDA devices this process could use, found out without making a context on one.
struct DeviceProbe {
  int devices = 0;     ///< visible ones
  std::string reason;  ///< why there are none: not built, no driver, one too old, none visible
  std::string hint;    ///< what to do about it
};

/// Sets the variables of this process that CUDA reads at its first call, where they are not set. To
/// be called before other threads run, which may read the environment.
void set_cuda_variables();

/// Calls set_cuda_variables(), which then has nothing left to do where that was done before.
DeviceProbe probe_cuda();

/// "0000:01:00.0", which GPU of the machine the visible one `ordinal` is; empty where it is
/// unknown.
std::string cuda_device_id(int ordinal);

/// What probe_cuda() looks at where the backend is built in.
struct DeviceFacts {
  int driver_version = 0;   ///< the newest CUDA the driver can do, 13000; 0: no driver answers
  int runtime_version = 0;  ///< CUDA that this program was built with
  int devices = 0;
  int oldest_capability = 0;  ///< compute capability 8.0 as 80, the least of the devices'
  std::string status;         ///< of counting the devices: "" or CUDA's error, name and words
  std::optional<std::string> visible_devices;  ///< CUDA_VISIBLE_DEVICES
  int installed = 0;                           ///< GPUs that the kernel's driver lists
  bool kernel_driver = false;                  ///< the kernel has NVIDIA's driver loaded
  bool slurm_without_gpu = false;              ///< inside a Slurm job to which no GPU was given
};

/// The verdict on `facts`. Pure.
DeviceProbe explain_devices(const DeviceFacts& facts);

}  // namespace lockstep
