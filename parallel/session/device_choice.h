// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "core/base/fixed_text.h"
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

/// What every rank tells the others when it has opened its device, or failed to.
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

/// How many ranks before `rank` are on its machine.
int ranks_before(std::span<const DeviceCard> cards, int rank);

/// The same on all ranks. Throws Error naming the first rank that failed, with its code;
/// EnvironmentError: some ranks have a GPU and others none, whose replicas would differ in bits.
void check_devices(std::span<const DeviceCard> cards);

/// "3 ranks share GPU 0000:01:00.0 of node7", for the busiest GPU; empty where each has its own.
std::string sharing_note(std::span<const DeviceCard> cards);

/// Whether two ranks work on one GPU, or on parts of it, which NCCL takes for one.
bool share_a_gpu(std::span<const DeviceCard> cards);

/// Why gradients of GPUs are not exchanged by NCCL, which refuses ranks that share a GPU unless all
/// say LOCKSTEP_NCCL=shared; empty: they are. The same on all ranks.
std::string reason_against_nccl(std::span<const DeviceCard> cards);

}  // namespace lockstep
