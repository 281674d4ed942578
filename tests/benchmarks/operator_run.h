// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// An operator with memory of its own, for benchmarks: floats in [-1, 1), integers below `bound`,
/// bytes 0, packed copies made.
class OperatorRun {
 public:
  OperatorRun(Backend& backend,
              const Operator& op,
              std::vector<TensorType> inputs,
              std::uint32_t bound = 1)
      : backend_(backend), spec_{op, std::move(inputs), {}, "benchmark", {}, {}} {
    spec_.outputs = op.infer(spec_.inputs);
    spec_.input_parameter.assign(spec_.inputs.size(), 0);
    for (std::size_t i = 0; i < spec_.outputs.size(); ++i)
      spec_.output_accumulates.push_back(op.accumulates(int(i)));
    kernel_ = backend.make_kernel(spec_);
    KernelBuffers buffers;
    for (const TensorType& type : spec_.inputs) buffers.inputs.push_back(filled(type, bound));
    for (const TensorType& type : spec_.outputs) buffers.outputs.push_back(filled(type, bound));
    buffers.workspace = memory(kernel_->workspace_bytes());
    for (const PackedCopy& copy : kernel_->packed_copies())
      buffers.packed.push_back(memory(copy.bytes));
    packed_ = int(buffers.packed.size());
    kernel_->bind(buffers);
    pack();
  }

  void run() { kernel_->run(state_); }
  bool packs() const { return packed_ > 0; }
  void pack() {
    for (int i = 0; i < packed_; ++i) kernel_->pack(i);
  }

  Cost cost() const { return spec_.op.cost(spec_.inputs, spec_.outputs); }
  /// The least time that these peaks allow in the time that a run took, in percent, as --profile
  /// prints it.
  double roofline_percent(double seconds, const DevicePeaks& peaks) const {
    return 100 * least_seconds(cost(), computes_in_bf16(spec_.inputs), peaks) / seconds;
  }

 private:
  void* memory(std::size_t bytes) {
    memory_.push_back(backend_.allocate(bytes, "benchmark"));
    return memory_.back()->data();
  }
  void* filled(const TensorType& type, std::uint32_t bound) {
    void* const data = memory(type.bytes());
    RandomStream stream(1, memory_.size());
    for (std::int64_t i = 0; i < type.elems(); ++i)
      if (type.dtype == DType::f32)
        static_cast<float*>(data)[i] = stream.uniform(-1, 1);
      else if (type.dtype == DType::i32)
        static_cast<std::int32_t*>(data)[i] = std::int32_t(stream.below(bound));
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
