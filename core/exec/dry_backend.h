// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/backend.h"

namespace lockstep {

/// A device that has addresses but no memory, and does nothing with them: what would be allocated
/// can be built on it and asked for its size. Its kernels want neither workspace nor packed copies,
/// which only a real device knows.
class DryBackend : public Backend {
 public:
  /// Where its addresses begin: processors translate 57 bits at most.
  static constexpr std::uintptr_t kFirstAddress = std::uintptr_t{1} << 60;

  /// As devices of that kind.
  explicit DryBackend(const DeviceTraits& traits = {}) : traits_(traits) {}
  DeviceTraits traits() const override { return traits_; }
  std::string device_class() const override { return "none"; }
  bool allow_tf32(bool /*allowed*/) override { return true; }
  bool has_memory() const override { return false; }
  /// Addresses that no memory ever has: they must not be read or written, and no limit of this
  /// process is touched. Throws OutOfMemory: there are not enough of them.
  std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, const std::string& what) override;
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override;
  /// Throws InternalError.
  DevicePeaks measure_peaks() override;

  void copy_to_device(void*, const void*, std::size_t) override {}
  void copy_to_host(void*, const void*, std::size_t) override {}
  void copy(void*, const void*, std::size_t) override {}
  void set_zero(void*, std::size_t) override {}
  void add(float*, const float*, const float*, std::int64_t) override {}
  void optimizer_update(const OptimizerUpdate&, std::span<const FlatRange>) override {}
  void squared_norms(const float*, std::span<const FlatRange>, double*) override {}
  void start_block_norms(const float*, std::span<const BlockRange>, double*) override {}
  void gather(const double*, const std::int32_t*, std::int64_t, double*) override {}
  void add_in_order(const double*, std::span<const std::int64_t>, double*) override {}
  void conclude_step(const StepSums&, StepOutcome*) override {}
  void clip_values(float*, float, std::span<const FlatRange>, const StepOutcome*) override {}
  void clip_units(const UnitClip&, std::span<const UnitRange>) override {}
  void pack_weights(const float*, std::span<const WeightPiece>, std::uint16_t*) override {}
  void unpack_weights(const std::uint16_t*, std::span<const WeightPiece>, float*) override {}
  void hash(const float*, std::span<const HashRange>, std::uint64_t*) override {}
  void update_average(const AverageUpdate&) override {}
  void swap(float*, float*, std::int64_t) override {}
  void update_running_statistics(float*,
                                 const float*,
                                 std::span<const RunningStatistic>,
                                 const StepOutcome*) override {}

 private:
  DeviceTraits traits_;
  std::uintptr_t next_ = kFirstAddress;
};

}  // namespace lockstep
