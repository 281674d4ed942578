// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <ctime>
#include <memory>
#include <vector>

#include "core/base/random.h"
#include "core/exec/backend.h"
#include "core/exec/roofline.h"

namespace lockstep {

/// CPU time of this thread: what neighbours take from it does not count.
inline double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

/// What benchmarks read: floats in [low, high), integers and bytes below `bound`.
struct Fill {
  std::uint32_t bound = 1;
  float low = -1.0f, high = 1.0f;
};

/// Fills device memory from the host: a million random values, again and
/// again, as drawing more would take longer than what is measured. Zeros would not do: a device
/// needs less power for them, and runs faster than it will.
inline void fill(
    Backend& backend, void* device, const TensorType& type, const Fill& fill, std::uint64_t key) {
  constexpr std::int64_t kPeriod = 1000003;  // prime, so that rows differ
  const auto count = std::size_t(std::min(type.elems(), kPeriod));
  const std::size_t size = size_in_bytes(type.dtype);
  std::vector<std::byte> values(count * size);
  RandomStream stream(1, key);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits = 0;
    if (is_float(type.dtype))
      bits = std::bit_cast<std::uint32_t>(stream.uniform(fill.low, fill.high));
    else
      bits = stream.below(fill.bound);
    if (type.dtype == DType::bf16) bits >>= 16;
    std::memcpy(values.data() + i * size, &bits, size);
  }
  auto* const to = static_cast<std::byte*>(device);
  backend.copy_to_device(to, values.data(), values.size());
  for (std::size_t done = values.size(); done < type.bytes();) {
    const std::size_t bytes = std::min(done, type.bytes() - done);
    backend.copy(to + done, to, bytes);
    done += bytes;
  }
}

/// An operator with memory of its own, for benchmarks: inputs and outputs filled, packed copies
/// made.
class OperatorRun {
 public:
  OperatorRun(Backend& backend,
              const Operator& op,
              std::vector<TensorType> inputs,
              const Fill& fill = {})
      : backend_(backend), spec_{op, std::move(inputs), {}, "benchmark", {}, {}} {
    spec_.outputs = op.infer(spec_.inputs);
    spec_.input_parameter.assign(spec_.inputs.size(), 0);
    // As in a program: what accumulates are gradients in the flat space, which are fp32.
    for (std::size_t i = 0; i < spec_.outputs.size(); ++i)
      spec_.output_accumulates.push_back(op.accumulates(int(i)) &&
                                         spec_.outputs[i].dtype == DType::f32);
    kernel_ = backend.make_kernel(spec_);
    KernelBuffers buffers;
    for (const TensorType& type : spec_.inputs) buffers.inputs.push_back(filled(type, fill));
    for (const TensorType& type : spec_.outputs) buffers.outputs.push_back(filled(type, fill));
    buffers.workspace = memory(kernel_->workspace_bytes());
    for (const PackedCopy& copy : kernel_->packed_copies())
      buffers.packed.push_back(memory(copy.bytes));
    packed_ = int(buffers.packed.size());
    kernel_->bind(buffers);
    pack();
  }

  /// From now on gradients are added to what is there.
  void accumulate() { state_.accumulate = true; }
  void run() { kernel_->run(state_); }
  bool packs() const { return packed_ > 0; }
  void pack() {
    for (int i = 0; i < packed_; ++i) kernel_->pack(i);
  }

  const std::vector<TensorType>& inputs() const { return spec_.inputs; }
  const std::vector<TensorType>& outputs() const { return spec_.outputs; }
  Cost cost() const { return spec_.op.cost(spec_.inputs, spec_.outputs); }
  /// The least time that these peaks allow in the time that a run took, in percent, as --profile
  /// prints it.
  double roofline_percent(double seconds, const DevicePeaks& peaks) const {
    return 100 * min_seconds(cost(), computes_in_bf16(spec_.inputs), peaks) / seconds;
  }

 private:
  void* memory(std::size_t bytes) {
    memory_.push_back(backend_.allocate(bytes, "benchmark"));
    return memory_.back()->data();
  }
  void* filled(const TensorType& type, const Fill& values) {
    void* const data = memory(type.bytes());
    fill(backend_, data, type, values, memory_.size());
    return data;
  }

  Backend& backend_;
  KernelSpec spec_;
  RunState state_{.seed = 1, .step = 1};
  int packed_ = 0;
  std::unique_ptr<Kernel> kernel_;
  std::vector<std::unique_ptr<DeviceBuffer>> memory_;
};

}  // namespace lockstep
