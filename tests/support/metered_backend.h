// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <string>

#include "core/base/check.h"
#include "tests/support/test_backend.h"

namespace lockstep::testing {

/// Another backend that remembers what memory of its is alive, by what it was asked for.
class MeteredBackend final : public Backend {
 public:
  explicit MeteredBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  std::size_t alive(const std::string& what) const {
    const auto position = alive_.find(what);
    return position == alive_.end() ? 0 : position->second;
  }
  std::size_t alive() const {
    std::size_t sum = 0;
    for (const auto& [what, bytes] : alive_) sum += bytes;
    return sum;
  }

  /// The most that has been alive at once.
  std::size_t most_alive() const { return most_; }
  /// From now on, no more than `bytes` are given out.
  void set_limit(std::size_t bytes) { limit_ = bytes; }
  /// What memory() is to say.
  DeviceMemory pretended = {};

  DeviceMemory memory() const override { return pretended; }
  /// After the device class.
  std::string pretended_class = {};
  std::string device_class() const override { return inner_->device_class() + pretended_class; }
  bool multiplies_bf16() const override { return inner_->multiplies_bf16(); }
  bool allow_tf32(bool allowed) override { return inner_->allow_tf32(allowed); }
  std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, const std::string& what) override {
    LOCKSTEP_CHECK(alive() + bytes <= limit_, OutOfMemory, "{}: {} bytes", what, bytes);
    return metered(inner_->allocate(bytes, what), what);
  }
  std::unique_ptr<DeviceBuffer> allocate_host(std::size_t bytes, const std::string& what) override {
    return metered(inner_->allocate_host(bytes, what), what);
  }
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return inner_->make_kernel(spec);
  }
  JoinedKernels join(std::span<Kernel* const> kernels) override { return inner_->join(kernels); }
  DevicePeaks measure_peaks() override { return inner_->measure_peaks(); }
  void copy_to_device(void* device, const void* host, std::size_t bytes) override {
    inner_->copy_to_device(device, host, bytes);
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    inner_->copy_to_host(host, device, bytes);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    inner_->copy(to, from, bytes);
  }
  void set_zero(void* memory, std::size_t bytes) override { inner_->set_zero(memory, bytes); }
  void add(float* out, const float* a, const float* b, std::int64_t elems) override {
    inner_->add(out, a, b, elems);
  }
  void optimizer_update(const OptimizerUpdate& update, std::span<const FlatRange> ranges) override {
    inner_->optimizer_update(update, ranges);
  }
  void squared_norms(const float* values,
                     std::span<const FlatRange> ranges,
                     double* result) override {
    inner_->squared_norms(values, ranges, result);
  }
  void start_squared_norms(const float* values,
                           std::span<const FlatRange> ranges,
                           double* result) override {
    inner_->start_squared_norms(values, ranges, result);
  }
  void start_block_norms(const float* values,
                         std::span<const BlockRange> ranges,
                         double* result) override {
    inner_->start_block_norms(values, ranges, result);
  }
  void gather(const double* values,
              const std::int32_t* places,
              std::int64_t count,
              double* result) override {
    inner_->gather(values, places, count, result);
  }
  void add_in_order(const double* values,
                    std::span<const std::int64_t> ends,
                    double* result) override {
    inner_->add_in_order(values, ends, result);
  }
  void reserve_norms(std::span<const FlatRange> tensors) override {
    inner_->reserve_norms(tensors);
  }
  void conclude_step(const StepSums& sums, StepOutcome* outcome) override {
    inner_->conclude_step(sums, outcome);
  }
  void clip_values(float* gradients,
                   float limit,
                   std::span<const FlatRange> ranges,
                   const StepOutcome* outcome) override {
    inner_->clip_values(gradients, limit, ranges, outcome);
  }
  void clip_units(const UnitClip& clip, std::span<const UnitRange> ranges) override {
    inner_->clip_units(clip, ranges);
  }
  void pack_weights(const float* values,
                    std::span<const WeightPiece> pieces,
                    std::uint16_t* message) override {
    inner_->pack_weights(values, pieces, message);
  }
  void unpack_weights(const std::uint16_t* message,
                      std::span<const WeightPiece> pieces,
                      float* values) override {
    inner_->unpack_weights(message, pieces, values);
  }
  void hash(const float* values,
            std::span<const HashRange> ranges,
            std::uint64_t* result) override {
    inner_->hash(values, ranges, result);
  }
  void update_average(const AverageUpdate& update) override { inner_->update_average(update); }
  void swap(float* a, float* b, std::int64_t elems) override { inner_->swap(a, b, elems); }
  void update_running_statistics(float* values,
                                 const float* sums,
                                 std::span<const RunningStatistic> statistics,
                                 const StepOutcome* outcome) override {
    inner_->update_running_statistics(values, sums, statistics, outcome);
  }

 private:
  class Buffer final : public DeviceBuffer {
   public:
    Buffer(std::unique_ptr<DeviceBuffer> inner, std::size_t& alive)
        : inner_(std::move(inner)), alive_(alive) {
      alive_ += inner_->bytes();
    }
    ~Buffer() override { alive_ -= inner_->bytes(); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    std::byte* data() override { return inner_->data(); }
    std::size_t bytes() const override { return inner_->bytes(); }

   private:
    std::unique_ptr<DeviceBuffer> inner_;
    std::size_t& alive_;
  };

  std::unique_ptr<DeviceBuffer> metered(std::unique_ptr<DeviceBuffer> buffer,
                                        const std::string& what) {
    auto result = std::make_unique<Buffer>(std::move(buffer), alive_[what]);
    most_ = std::max(most_, alive());
    return result;
  }

  std::unique_ptr<Backend> inner_;
  std::size_t most_ = 0, limit_ = std::size_t(-1) / 2;
  std::map<std::string, std::size_t> alive_;  // outlives the buffers, which refer into it
};

}  // namespace lockstep::testing
