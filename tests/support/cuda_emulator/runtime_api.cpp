// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cuda_emulator/runtime_api.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <unistd.h>

#include "tests/support/cuda_emulator/access_record.h"
#include "tests/support/cuda_emulator/graphs.h"

using lockstep::emulator::device_in_use;
using lockstep::emulator::device_memory;
using lockstep::emulator::Fault;
using lockstep::emulator::Lock;
using lockstep::emulator::refuse_unsafe;
using lockstep::emulator::run_everything;
using lockstep::emulator::see_error;
using lockstep::emulator::set_status;
using lockstep::emulator::Work;

namespace {

// Few, so that kernels that walk on by the grid do.
constexpr int kMultiprocessors = 4;

/// Every process has a device of its own.
cudaUUID_t uuid_of(int device) {
  const auto process = std::uint32_t(getpid());
  cudaUUID_t uuid = {{char(0xE0), char(device)}};
  std::memcpy(uuid.bytes + 4, &process, sizeof process);
  return uuid;
}

/// Nothing lies there and is needed: an empty copy may name any address.
bool on_device(const void* data, std::size_t bytes) {
  return bytes == 0 || device_memory().holds(data, bytes);
}

void check_range(const char* what, const void* data, std::size_t bytes) {
  if (!on_device(data, bytes))
    throw Fault(cudaErrorInvalidValue,
                fmt::format("{} of {} bytes at {}", what, bytes, device_memory().describe(data)));
}

void check_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice)
    check_range("copy to the device", to, bytes);
  if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice)
    check_range("copy from the device", from, bytes);
}
void check_fill(const void* data, std::size_t bytes) { check_range("fill", data, bytes); }

// Both look again when they run: what a graph names may have been freed since.
Work copy_work(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const auto copy = [=] {
    check_copy(to, from, bytes, kind);
    if (bytes > 0) std::memmove(to, from, bytes);
  };
  return {.run = copy, .counted = &lockstep::emulator::Calls::copies};
}
/// What cudaMemcpy() leaves to the null stream: memory of the device need not have it when it
/// returns, from pageable memory or from the device, but the host's may be written again.
Work staged_copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (kind != cudaMemcpyHostToDevice || bytes == 0) return copy_work(to, from, bytes, kind);
  const auto* const first = static_cast<const std::byte*>(from);
  const auto staged = std::make_shared<const std::vector<std::byte>>(first, first + bytes);
  Work work = copy_work(to, staged->data(), bytes, kind);
  work.run = [staged, run = std::move(work.run)] { run(); };
  return work;
}
Work fill_work(void* data, int value, std::size_t bytes) {
  return {.run = [=] {
    check_fill(data, bytes);
    if (bytes > 0) std::memset(data, value, bytes);
  }};
}

/// What `ask()` returns, unless `check()` finds something wrong.
template <typename Check, typename Ask>
cudaError_t asked(Check check, Ask ask) {
  try {
    check();
  } catch (const Fault& fault) {
    return set_status(fault.status(), fault.what());
  }
  return ask();
}

/// Bytes of each allocation.
std::map<std::uintptr_t, std::size_t>& pinned_memory() {
  static auto& memory = *new std::map<std::uintptr_t, std::size_t>;
  return memory;
}

bool is_pinned(const void* address) {
  auto after = pinned_memory().upper_bound(std::uintptr_t(address));
  if (after == pinned_memory().begin()) return false;
  --after;
  return std::uintptr_t(address) - after->first < after->second;
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : set_status(cudaErrorInvalidDevice, "invalid device ordinal");
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {.name = "emulated device",
                 .uuid = uuid_of(device),
                 .totalGlobalMem = lockstep::emulator::DeviceMemory::kBytes,
                 .sharedMemPerBlock = std::size_t{48} << 10,
                 .sharedMemPerBlockOptin = lockstep::emulator::kMaxSharedBytes,
                 .multiProcessorCount = kMultiprocessors,
                 .major = 9,
                 .minor = 0,
                 .warpSize = lockstep::emulator::kWarpLanes,
                 .maxThreadsPerBlock = lockstep::emulator::kMaxBlockThreads,
                 .l2CacheSize = 50 << 20};
  return cudaSetDevice(device);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? kMultiprocessors
                                                       : int(lockstep::emulator::kMaxSharedBytes);
  return cudaSetDevice(device);
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  std::snprintf(text, std::size_t(bytes), "0000:00:%02d.0", device);
  return cudaSetDevice(device);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  const std::lock_guard lock(device_in_use());
  *data = nullptr;
  if (const cudaError_t status = refuse_unsafe("cudaMalloc"); status != cudaSuccess) return status;
  if (bytes == 0) return cudaSuccess;
  *data = device_memory().allocate(bytes);
  return *data ? cudaSuccess : set_status(cudaErrorMemoryAllocation, "out of memory");
}
cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cudaSuccess;
  Lock lock(device_in_use());
  if (const cudaError_t status = refuse_unsafe("cudaFree"); status != cudaSuccess) return status;
  run_everything(lock);
  if (device_memory().free(data)) return see_error();
  return set_status(cudaErrorInvalidValue, "freed what is not allocated");
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  const std::lock_guard lock(device_in_use());
  *data = nullptr;
  if (const cudaError_t status = refuse_unsafe("cudaMallocHost"); status != cudaSuccess)
    return status;
  *data = std::malloc(bytes);
  if (*data == nullptr) return set_status(cudaErrorMemoryAllocation, "out of host memory");
  pinned_memory()[std::uintptr_t(*data)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  return cudaMallocHost(data, bytes);
}
cudaError_t cudaFreeHost(void* data) {
  if (data == nullptr) return cudaSuccess;
  Lock lock(device_in_use());
  if (const cudaError_t status = refuse_unsafe("cudaFreeHost"); status != cudaSuccess)
    return status;
  run_everything(lock);
  if (pinned_memory().erase(std::uintptr_t(data)) == 0)
    return set_status(cudaErrorInvalidValue, "freed host memory that is not pinned");
  std::free(data);
  return see_error();
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  const std::lock_guard lock(device_in_use());
  attributes->type = cudaMemoryTypeUnregistered;
  if (on_device(memory, 1)) attributes->type = cudaMemoryTypeDevice;
  if (is_pinned(memory)) attributes->type = cudaMemoryTypeHost;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(device_in_use());
  *free = device_memory().free_bytes();
  *total = lockstep::emulator::DeviceMemory::kBytes;
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  Lock lock(device_in_use());
  if (const cudaError_t status = refuse_unsafe("cudaMemcpy"); status != cudaSuccess) return status;
  return asked([&] { check_copy(to, from, bytes, kind); },
               [&] {
                 return kind == cudaMemcpyDeviceToHost
                            ? run_now(lock, copy_work(to, from, bytes, kind))
                            : enqueue(lock, nullptr, staged_copy(to, from, bytes, kind));
               });
}
cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  Lock lock(device_in_use());
  return asked([&] { check_copy(to, from, bytes, kind); },
               [&] { return enqueue(lock, stream, copy_work(to, from, bytes, kind)); });
}
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  Lock lock(device_in_use());
  if (const cudaError_t status = refuse_unsafe("cudaMemset"); status != cudaSuccess) return status;
  return asked([&] { check_fill(data, bytes); },
               [&] { return run_now(lock, fill_work(data, value, bytes)); });
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  Lock lock(device_in_use());
  return asked([&] { check_fill(data, bytes); },
               [&] { return enqueue(lock, stream, fill_work(data, value, bytes)); });
}
