// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "core/base/text/fixed_text.h"
#include "core/exec/communicator.h"
#include "kernels/cuda/device/device_probe.h"

namespace lockstep {

/// The device that one rank works on.
struct DeviceChoice {
  bool cuda = false;
  int ordinal = 0;   ///< of the visible GPUs
  std::string note;  ///< why "auto" is the CPU; otherwise empty
};

/// `asked`: "auto", "cpu" or "cuda". auto takes CUDA where a device answers and the CPU elsewhere.
/// The ranks of a host are dealt to its visible GPUs in turn, so that they share them where they
/// are more. Pure. Throws EnvironmentError with the probe's reason: "cuda" without a device.
DeviceChoice choose_device(const std::string& asked, const DeviceProbe& probe, int local_rank);

/// The GPUs that ranks started here would work on: those visible, 0 where they work on the CPU.
/// Throws what choose_device() throws.
int usable_gpus(const std::string& asked);

/// What a rank knows of its device when it has opened it, or failed to. One that stands out is sent
/// to the others whole.
struct DeviceCard {
  int exit_code = 0;  ///< 0: opened
  int cuda = 0;
  int shared_nccl = 0;  ///< this rank has LOCKSTEP_NCCL=shared
  char host[64] = {};
  char machine[64] = {};  ///< tells machines apart that say the same host name, as containers do
  char device[32] = {};   ///< PCI bus of the GPU; empty: unknown
  char gpu[48] = {};      ///< its UUID; empty: unknown. Parts of a GPU (MIG) have their own
  char no_nccl[48] = {};  ///< why gradients are not exchanged by it, as far as this rank goes
  char text[768] = {};    ///< the error, or why it is the CPU
  char hint[256] = {};
};

// All that follow are collective over `ranks`, each with its `own` card, and have the same result
// on every rank, other than ranks_before().

/// How many ranks before this one are on its machine. A rank receives 8 bytes of each other.
int ranks_before(Communicator& ranks, const DeviceCard& own);

/// Throws Error naming the first rank that failed, with its code; EnvironmentError: some ranks have
/// a GPU and others none, whose replicas would differ in bits.
void check_devices(Communicator& ranks, const DeviceCard& own);

/// Which ranks work on one GPU, or on parts of it, which NCCL takes for one.
struct GpuSharing {
  bool any = false;  ///< some do
  /// "3 ranks share GPU 0000:01:00.0 of node7", for the busiest GPU; empty where each has its own.
  std::string note;
};
/// GPUs are distinguished by XXH64 of what identifies them. A rank receives 16 bytes of each other,
/// where ranks have GPUs.
GpuSharing gpu_sharing(Communicator& ranks, const DeviceCard& own);

/// Why gradients of GPUs are not exchanged by NCCL, which refuses ranks that share a GPU
/// (GpuSharing::any) unless all say LOCKSTEP_NCCL=shared; empty: they are.
std::string reason_against_nccl(Communicator& ranks, const DeviceCard& own, bool share_a_gpu);

}  // namespace lockstep
