// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/peaks.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "core/base/random.h"
#include "kernels/cuda/device/cuda_check.h"
#include "kernels/cuda/linear/matrix_product.h"

namespace lockstep::cuda {
namespace {

constexpr const char* kWhat = "peak measurement";
constexpr std::int64_t kMaxSize = 8192, kMinSize = 1024;
constexpr std::size_t kMaxCopied = std::size_t(1) << 30;
constexpr int kRuns = 8;

class Memory {
 public:
  explicit Memory(std::size_t bytes) { check(cudaMalloc(&data_, bytes), kWhat); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { cudaFree(data_); }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), kWhat); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Of the fastest of some runs.
template <typename Work>
double best_seconds(const Device& device, Work work) {
  const Event begin, end;
  work();
  float best_ms = 1e30f;
  for (int i = 0; i < kRuns; ++i) {
    check(cudaEventRecord(begin.get(), device.compute), kWhat);
    work();
    check(cudaEventRecord(end.get(), device.compute), kWhat);
    check(cudaEventSynchronize(end.get()), kWhat);
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin.get(), end.get()), kWhat);
    best_ms = std::min(best_ms, ms);
  }
  return double(best_ms) * 1e-3;
}

std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), kWhat);
  return free;
}

/// Values in [-1, 1): with zeros a device needs less power, and runs faster than it will.
void fill(const Memory& memory, DType type, std::int64_t elems) {
  constexpr std::int64_t kChunk = std::int64_t(1) << 20;
  std::vector<float> values(static_cast<std::size_t>(kChunk));
  RandomStream stream(random_key(1, kWhat), 0);
  for (float& value : values) value = stream.uniform(-1.0f, 1.0f);
  if (type == DType::bf16) {
    // Two bf16 numbers of the upper halves.
    std::vector<std::uint32_t> bits(values.size());
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const auto high = std::bit_cast<std::uint32_t>(values[i]) & 0xffff0000u;
      bits[i] = high | (std::bit_cast<std::uint32_t>(values[bits.size() - 1 - i]) >> 16);
    }
    std::transform(bits.begin(), bits.end(), values.begin(), [](std::uint32_t pair) {
      return std::bit_cast<float>(pair);
    });
  }
  const std::size_t bytes = std::size_t(elems) * size_in_bytes(type);
  const std::size_t chunk = values.size() * sizeof(float);
  for (std::size_t offset = 0; offset < bytes; offset += chunk)
    check(cudaMemcpy(memory.data() + offset,
                     values.data(),
                     std::min(chunk, bytes - offset),
                     cudaMemcpyHostToDevice),
          kWhat);
}

double product_flops(const Device& device, DType type) {
  std::int64_t size = kMaxSize;
  const auto wanted = [&] { return std::size_t(3 * size * size) * size_in_bytes(type); };
  while (size > kMinSize && wanted() > free_bytes() / 2) size /= 2;
  const auto product = make_matrix_product(
      device, {.m = size, .n = size, .k = size, .factors = type, .result = type}, kWhat);
  const std::size_t bytes = wanted() / 3;
  const Memory a(bytes), b(bytes), c(bytes);
  const Memory workspace(std::max(product->workspace_bytes(), std::size_t(1)));
  fill(a, type, size * size);
  fill(b, type, size * size);
  const double seconds = best_seconds(device, [&] {
    product->run({.a = a.data(), .b = b.data(), .c = c.data(), .workspace = workspace.data()});
  });
  return 2.0 * double(size) * double(size) * double(size) / seconds;
}

double copied_bytes(const Device& device) {
  const std::size_t bytes = std::min(kMaxCopied, free_bytes() / 4) / 4096 * 4096;
  const Memory from(bytes), to(bytes);
  check(cudaMemsetAsync(from.data(), 1, bytes, device.compute), kWhat);
  const double seconds = best_seconds(device, [&] {
    check(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, device.compute),
          kWhat);
  });
  return 2.0 * double(bytes) / seconds;
}

}  // namespace

DevicePeaks measure_peaks(const Device& device) {
  return {.fp32_flops = product_flops(device, DType::f32),
          .bf16_flops = product_flops(device, DType::bf16),
          .bytes = copied_bytes(device)};
}

}  // namespace lockstep::cuda
