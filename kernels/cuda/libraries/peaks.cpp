// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/peaks.h"

#include <algorithm>

#include "kernels/cuda/device/cuda_check.h"
#include "kernels/cuda/device/trial_memory.h"
#include "kernels/cuda/linear/matrix_product.h"

namespace lockstep::cuda {
namespace {

constexpr const char* kWhat = "peak measurement";
constexpr std::int64_t kMaxSize = 8192, kMinSize = 1024;
constexpr std::size_t kMaxCopied = std::size_t(1) << 30;
constexpr int kRuns = 8;

/// Of the fastest of some runs.
template <typename Work>
double best_seconds(const Device& device, Work work) {
  work();
  double best = device_seconds(device, work);
  for (int i = 1; i < kRuns; ++i) best = std::min(best, device_seconds(device, work));
  return best;
}

double product_flops(const Device& device, DType type) {
  std::int64_t size = kMaxSize;
  const auto wanted = [&] { return std::size_t(3 * size * size) * size_in_bytes(type); };
  while (size > kMinSize && wanted() > free_device_bytes() / 2) size /= 2;
  const auto product = make_matrix_product(
      device, {.m = size, .n = size, .k = size, .factors = type, .result = type}, kWhat);
  const std::size_t bytes = wanted() / 3;
  TrialMemory a(bytes), b(bytes);
  const TrialMemory c(bytes);
  const TrialMemory workspace(product->workspace_bytes());
  a.fill(type);
  b.fill(type);
  const double seconds = best_seconds(device, [&] {
    product->run({.a = a.data(), .b = b.data(), .c = c.data(), .workspace = workspace.data()});
  });
  return 2.0 * double(size) * double(size) * double(size) / seconds;
}

double copied_bytes(const Device& device) {
  const std::size_t bytes = std::min(kMaxCopied, free_device_bytes() / 4) / 4096 * 4096;
  const TrialMemory from(bytes), to(bytes);
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
