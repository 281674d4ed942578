// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/trial_memory.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "core/base/random.h"
#include "core/base/xxh64.h"
#include "kernels/cuda/device/cuda_check.h"

namespace lockstep::cuda {
namespace {

constexpr const char* kMeasurement = "measurement";
// A GEMM of a language model's logits stores gigabytes. An order of sums that changes shows
// everywhere.
constexpr std::size_t kHashedParts = 64, kHashedPart = std::size_t(1) << 18;

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), kMeasurement); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

TrialMemory::TrialMemory(std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
  check(cudaMalloc(&data_, bytes_), kMeasurement);
}

TrialMemory::~TrialMemory() { cudaFree(data_); }

void TrialMemory::fill(DType type, std::uint64_t seed) {
  constexpr std::size_t kChunk = std::size_t(1) << 20;
  std::vector<float> values(kChunk);
  RandomStream stream(random_key(seed, kMeasurement), 0);
  for (float& value : values) value = stream.uniform(-1.0f, 1.0f);
  if (type == DType::bf16) {
    // Two bf16 numbers of the upper halves.
    std::vector<std::uint32_t> bits(values.size());
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const auto high = std::bit_cast<std::uint32_t>(values[i]) & 0xffff0000u;
      bits[i] = high | (std::bit_cast<std::uint32_t>(values[bits.size() - 1 - i]) >> 16);
    }
    std::ranges::transform(
        bits, values.begin(), [](std::uint32_t pair) { return std::bit_cast<float>(pair); });
  }
  for (std::size_t offset = 0; offset < bytes_; offset += kChunk * sizeof(float))
    check(cudaMemcpy(data() + offset,
                     values.data(),
                     std::min(kChunk * sizeof(float), bytes_ - offset),
                     cudaMemcpyHostToDevice),
          kMeasurement);
  wait_for_copies();
}

void wait_for_copies() { check(cudaStreamSynchronize(nullptr), kMeasurement); }

std::size_t free_device_bytes() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), kMeasurement);
  return free;
}

double device_seconds(const Device& device, const std::function<void()>& work) {
  const Event begin, end;
  check(cudaEventRecord(begin.get(), device.compute), kMeasurement);
  work();
  check(cudaEventRecord(end.get(), device.compute), kMeasurement);
  check(cudaEventSynchronize(end.get()), kMeasurement);
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin.get(), end.get()), kMeasurement);
  return double(ms) * 1e-3;
}

std::uint64_t device_hash(const Device& device, const TrialMemory& memory, std::size_t bytes) {
  check(cudaStreamSynchronize(device.compute), kMeasurement);
  const bool whole = bytes <= kHashedParts * kHashedPart;
  const std::size_t parts = whole ? 1 : kHashedParts, part = whole ? bytes : kHashedPart;
  std::vector<std::byte> copy(part);
  std::uint64_t hash = 0;
  for (std::size_t p = 0; p < parts; ++p) {
    const std::size_t offset = parts == 1 ? 0 : p * ((bytes - part) / (parts - 1));
    check(cudaMemcpy(copy.data(), memory.data() + offset, part, cudaMemcpyDeviceToHost),
          kMeasurement);
    hash = xxh64(copy.data(), part, hash);
  }
  return hash;
}

}  // namespace lockstep::cuda
