// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "core/base/check.h"
#include "tests/support/test_backend.h"

namespace lockstep::testing {

/// Another backend that behaves as if its memory were a device's and the host ahead of it: copies
/// to the host of start_copy_to_host() arrive only when waited for, what lies there before is
/// garbage; and memory of allocate_host() that a copy to the device reads is looked at when
/// the host waits: torn_copies() counts those that were overwritten meanwhile. Its clock counts
/// what is asked of it: copies from and to the host, hashes and events.
class LateBackend final : public Backend {
 public:
  explicit LateBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  int torn_copies() const { return torn_copies_; }
  int late_copies() const { return late_copies_; }

  std::string device_class() const override { return inner_->device_class(); }
  bool multiplies_bf16() const override { return inner_->multiplies_bf16(); }
  bool allow_tf32(bool allowed) override { return inner_->allow_tf32(allowed); }
  std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, const std::string& what) override {
    return std::make_unique<Buffer>(*this, inner_->allocate(bytes, what), device_memory_);
  }
  std::unique_ptr<DeviceBuffer> allocate_host(std::size_t bytes, const std::string& what) override {
    return std::make_unique<Buffer>(*this, inner_->allocate(bytes, what), pinned_memory_);
  }
  bool is_host_memory(const void* memory) const override { return !in(device_memory_, memory); }
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return inner_->make_kernel(spec);
  }
  JoinedKernels join(std::span<Kernel* const> kernels) override { return inner_->join(kernels); }
  DevicePeaks measure_peaks() override { return inner_->measure_peaks(); }

  void synchronize() override { arrive(asked_); }
  void copy_to_device(void* device, const void* host, std::size_t bytes) override {
    inner_->copy_to_device(device, host, bytes);
    ++asked_;
    if (in(pinned_memory_, host)) add(const_cast<void*>(host), host, bytes, false);
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    ++asked_;
    synchronize();
    inner_->copy_to_host(host, device, bytes);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    inner_->copy(to, from, bytes);
  }
  std::unique_ptr<DeviceEvent> make_event() override { return std::make_unique<Event>(*this); }
  std::unique_ptr<DeviceEvent> make_timed_event() override { return make_event(); }
  void record(DeviceEvent& event) override { static_cast<Event&>(event).asked = ++asked_; }
  void start_copy_to_host(void* host, const void* device, std::size_t bytes) override {
    LOCKSTEP_CHECK(in(pinned_memory_, host), InternalError, "copy to pageable memory started");
    ++asked_;
    ++late_copies_;
    add(host, device, bytes, true);
    std::memset(host, 0xab, bytes);
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
    ++asked_;
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
  struct Extent {
    const std::byte* data;
    std::size_t bytes;
  };
  using Extents = std::vector<Extent>;

  /// Enters its extent into `extents` while it lives; waits before it goes, as CUDA does.
  class Buffer final : public DeviceBuffer {
   public:
    Buffer(LateBackend& late, std::unique_ptr<DeviceBuffer> inner, Extents& extents)
        : late_(late), inner_(std::move(inner)), extents_(extents) {
      extents_.push_back({inner_->data(), inner_->bytes()});
    }
    ~Buffer() override {
      late_.synchronize();
      std::erase_if(extents_, [&](const Extent& e) { return e.data == inner_->data(); });
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    std::byte* data() override { return inner_->data(); }
    std::size_t bytes() const override { return inner_->bytes(); }

   private:
    LateBackend& late_;
    std::unique_ptr<DeviceBuffer> inner_;
    Extents& extents_;
  };

  struct Event final : DeviceEvent {
    explicit Event(LateBackend& backend) : late(backend) {}
    void wait() override { late.arrive(asked); }
    bool done() override {
      wait();
      return true;
    }
    double seconds_since(const DeviceEvent& earlier) const override {
      LOCKSTEP_CHECK(late.arrived_ >= asked, InternalError, "the time of an event that is to come");
      return double(asked - static_cast<const Event&>(earlier).asked);
    }
    LateBackend& late;
    std::uint64_t asked = 0;
  };

  struct Copy {
    std::uint64_t number;
    void* host;
    std::vector<std::byte> bytes;
    bool to_host;
  };

  static bool in(const Extents& extents, const void* memory) {
    const auto* byte = static_cast<const std::byte*>(memory);
    for (const Extent& e : extents)
      if (byte >= e.data && byte < e.data + e.bytes) return true;
    return false;
  }

  void add(void* host, const void* from, std::size_t bytes, bool to_host) {
    const auto* begin = static_cast<const std::byte*>(from);
    copies_.push_back({asked_, host, {begin, begin + bytes}, to_host});
  }

  /// Everything up to request `number` is done.
  void arrive(std::uint64_t number) {
    arrived_ = std::max(arrived_, number);
    for (; !copies_.empty() && copies_.front().number <= number; copies_.pop_front()) {
      const Copy& copy = copies_.front();
      if (copy.to_host)
        std::memcpy(copy.host, copy.bytes.data(), copy.bytes.size());
      else if (std::memcmp(copy.host, copy.bytes.data(), copy.bytes.size()) != 0)
        ++torn_copies_;
    }
  }

  std::unique_ptr<Backend> inner_;
  Extents device_memory_, pinned_memory_;
  std::deque<Copy> copies_;
  std::uint64_t asked_ = 0, arrived_ = 0;
  int torn_copies_ = 0, late_copies_ = 0;
};

}  // namespace lockstep::testing
