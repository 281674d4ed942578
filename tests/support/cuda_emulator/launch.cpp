// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cuda_emulator/launch.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <utility>

#include "tests/support/cuda_emulator/access_check.h"
#include "tests/support/cuda_emulator/block_run.h"
#include "tests/support/cuda_emulator/stream_queue.h"

namespace lockstep::emulator {
namespace {

constexpr std::size_t kSharedBytes = std::size_t{48} << 10;

/// What cudaFuncSetAttribute set.
std::map<const void*, std::size_t>& shared_limits() {
  static std::map<const void*, std::size_t> limits;
  return limits;
}

void check_shape(const Launch& launch) {
  const auto limit = [](const char* what, std::size_t got, std::size_t most) {
    if (got == 0 || got > most)
      throw Fault(cudaErrorInvalidConfiguration,
                  fmt::format("launch: {} is {}, a device takes 1 to {}", what, got, most));
  };
  limit("grid.x", launch.grid.x, 0x7fffffff);
  limit("grid.y", launch.grid.y, 65535);
  limit("grid.z", launch.grid.z, 65535);
  limit("block.x", launch.block.x, 1024);
  limit("block.y", launch.block.y, 1024);
  limit("block.z", launch.block.z, 64);
  limit("threads of a block",
        std::size_t{launch.block.x} * launch.block.y * launch.block.z,
        kMaxBlockThreads);
  const auto found = shared_limits().find(launch.kernel);
  const std::size_t most = found == shared_limits().end() ? kSharedBytes : found->second;
  if (launch.shared_bytes > most)
    throw Fault(cudaErrorInvalidValue,
                fmt::format("launch: {} bytes of shared memory, the kernel may have {}",
                            launch.shared_bytes,
                            most));
}

void run_grid(const Launch& launch) {
  start_launch();
  for (unsigned z = 0; z < launch.grid.z; ++z)
    for (unsigned y = 0; y < launch.grid.y; ++y)
      for (unsigned x = 0; x < launch.grid.x; ++x) {
        start_block({x, y, z}, launch.shared_bytes);
        block_run().run(launch, {x, y, z});
      }
}

}  // namespace

bool asks_for_dependent_launch(const cudaLaunchConfig_t& config) {
  return std::any_of(
      config.attrs, config.attrs + config.numAttrs, [](const cudaLaunchAttribute& attribute) {
        return attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization &&
               attribute.val.programmaticStreamSerializationAllowed != 0;
      });
}

cudaError_t enqueue_launch(cudaStream_t stream, Launch launch) {
  Lock lock(device_in_use());
  try {
    check_shape(launch);
  } catch (const Fault& fault) {
    return set_status(fault.status(), fault.what());
  }
  if (launch.dependent) count(&Calls::dependent_launches);
  return enqueue(lock,
                 stream,
                 {.run = [launch = std::move(launch)] { run_grid(launch); },
                  .counted = &Calls::kernel_launches});
}

}  // namespace lockstep::emulator

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  using namespace lockstep::emulator;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  const std::lock_guard lock(device_in_use());
  if (value < 0 || std::size_t(value) > kMaxSharedBytes)
    return set_status(
        cudaErrorInvalidValue,
        fmt::format("{} bytes of shared memory, a block has {}", value, kMaxSharedBytes));
  shared_limits()[kernel] = std::max(std::size_t(value), kSharedBytes);
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  attributes->ptxVersion = 90;
  return cudaSuccess;
}
