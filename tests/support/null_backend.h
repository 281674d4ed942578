// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <new>

#include "core/base/check.h"
#include "core/exec/backend.h"

namespace lockstep::testing {

/// Host memory from the C++ heap; counts what is alive.
class HostBuffer final : public DeviceBuffer {
 public:
  HostBuffer(std::size_t bytes, std::size_t& alive) : bytes_(bytes), alive_(alive) {
    data_ = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{4096}));
    std::memset(data_, 0, bytes);
    alive_ += bytes_;
  }
  ~HostBuffer() override {
    ::operator delete (data_, std::align_val_t{4096});
    alive_ -= bytes_;
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  std::byte* data() override { return data_; }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
  std::size_t& alive_;
};

/// A device of plain host memory and plain loops, without kernels: for tests of ordering, planning
/// and exchange that need no matrix library. Whatever it cannot do throws.
class NullBackend : public Backend {
 public:
  std::string device_class() const override { return "null"; }
  std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, const std::string& what) override {
    LOCKSTEP_CHECK(bytes <= limit_ - alive_, OutOfMemory, "{}: {} bytes", what, bytes);
    ++allocations_;
    return std::make_unique<HostBuffer>(bytes, alive_);
  }
  std::unique_ptr<Kernel> make_kernel(const KernelSpec&) override { no("make_kernel"); }

  DevicePeaks measure_peaks() override { no("measure_peaks"); }

  void copy_to_device(void* to, const void* from, std::size_t n) override { copy(to, from, n); }
  void copy_to_host(void* to, const void* from, std::size_t n) override { copy(to, from, n); }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void set_zero(void* memory, std::size_t bytes) override {
    if (bytes > 0) std::memset(memory, 0, bytes);
  }
  void add(float* out, const float* a, const float* b, std::int64_t elems) override {
    for (std::int64_t i = 0; i < elems; ++i) out[i] = a[i] + b[i];
  }
  void optimizer_update(const OptimizerUpdate&, std::span<const FlatRange>) override {
    no("optimizer_update");
  }
  void squared_norms(const float*, std::span<const FlatRange>, double*) override {
    no("squared_norms");
  }
  void start_block_norms(const float*, std::span<const BlockRange>, double*) override {
    no("start_block_norms");
  }
  void gather(const double*, const std::int32_t*, std::int64_t, double*) override { no("gather"); }
  void add_in_order(const double*, std::span<const std::int64_t>, double*) override {
    no("add_in_order");
  }
  void conclude_step(const StepSums&, StepOutcome*) override { no("conclude_step"); }
  void clip_values(float*, float, std::span<const FlatRange>, const StepOutcome*) override {
    no("clip_values");
  }
  void clip_units(const UnitClip&, std::span<const UnitRange>) override { no("clip_units"); }
  void pack_weights(const float*, std::span<const WeightPiece>, std::uint16_t*) override {
    no("pack_weights");
  }
  void unpack_weights(const std::uint16_t*, std::span<const WeightPiece>, float*) override {
    no("unpack_weights");
  }
  void hash(const float*, std::span<const HashRange>, std::uint64_t*) override { no("hash"); }
  void update_average(const AverageUpdate&) override { no("update_average"); }
  void swap(float*, float*, std::int64_t) override { no("swap"); }
  void update_running_statistics(float*,
                                 const float*,
                                 std::span<const RunningStatistic>,
                                 const StepOutcome*) override {
    no("update_running_statistics");
  }

  std::size_t bytes_alive() const { return alive_; }
  int allocations() const { return allocations_; }
  void set_memory_limit(std::size_t bytes) { limit_ = bytes; }

 private:
  [[noreturn]] static void no(const char* what) {
    throw InternalError(std::string("NullBackend has no ") + what);
  }
  std::size_t alive_ = 0;
  std::size_t limit_ = std::size_t(-1) / 2;
  int allocations_ = 0;
};

}  // namespace lockstep::testing
