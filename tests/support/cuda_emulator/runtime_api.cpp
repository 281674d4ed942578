// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cuda_emulator/runtime_api.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>

#include "tests/support/cuda_emulator/access_record.h"
#include "tests/support/cuda_emulator/device_memory.h"
#include "tests/support/cuda_emulator/status.h"

using lockstep::emulator::device_in_use;
using lockstep::emulator::device_memory;
using lockstep::emulator::set_status;

struct CUstream_st {};
struct CUevent_st {
  bool timed = true, recorded = false;
  std::chrono::steady_clock::time_point time = {};
};

namespace {

// Few, so that kernels that walk on by the grid do.
constexpr int kMultiprocessors = 4;

/// Nothing lies there and is needed: an empty copy may name any address.
bool on_device(const void* data, std::size_t bytes) {
  return bytes == 0 || device_memory().holds(data, bytes);
}

cudaError_t bad_range(const char* what, const void* data, std::size_t bytes) {
  return set_status(
      cudaErrorInvalidValue,
      fmt::format("{} of {} bytes at {}", what, bytes, device_memory().describe(data)));
}

cudaError_t host_memory(void** data, std::size_t bytes) {
  *data = std::malloc(bytes);
  return *data ? cudaSuccess : set_status(cudaErrorMemoryAllocation, "out of host memory");
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
                 .uuid = {{char(0xE0), char(device)}},
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
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  *data = nullptr;
  if (bytes == 0) return cudaSuccess;
  const std::lock_guard lock(device_in_use());
  *data = device_memory().allocate(bytes);
  return *data ? cudaSuccess : set_status(cudaErrorMemoryAllocation, "out of memory");
}
cudaError_t cudaFree(void* data) {
  const std::lock_guard lock(device_in_use());
  if (data == nullptr || device_memory().free(data)) return cudaSuccess;
  return set_status(cudaErrorInvalidValue, "freed what is not allocated");
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) { return host_memory(data, bytes); }
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  return host_memory(data, bytes);
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  attributes->type = on_device(memory, 1) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(device_in_use());
  *free = device_memory().free_bytes();
  *total = lockstep::emulator::DeviceMemory::kBytes;
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const std::lock_guard lock(device_in_use());
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (to_device && !on_device(to, bytes)) return bad_range("copy to the device", to, bytes);
  if (from_device && !on_device(from, bytes)) return bad_range("copy from the device", from, bytes);
  if (bytes > 0) std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  const std::lock_guard lock(device_in_use());
  if (!on_device(data, bytes)) return bad_range("fill", data, bytes);
  if (bytes > 0) std::memset(data, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t) {
  return cudaMemset(data, value, bytes);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return cudaStreamCreate(stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st{.timed = (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
// What was asked for before is done: an event's time is the host's.
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  event->recorded = true;
  event->time = std::chrono::steady_clock::now();
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  for (const cudaEvent_t event : {start, end})
    if (!event->timed || !event->recorded)
      return set_status(
          cudaErrorInvalidResourceHandle,
          event->timed ? "an event was never recorded" : "an event was made without a time");
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return cudaSuccess;
}
