// SPDX-License-Identifier: Apache-2.0
#include "core/ops/dropout.h"

#include <cstring>

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/dropout_stream.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

template <typename T>
class DropoutKernel final : public BoundKernel {
 public:
  DropoutKernel(const ops::Dropout& op, const KernelSpec& spec)
      : dropout_(op.rate(), spec.path), samples_(spec.inputs[0].shape[0]) {
    sample_elems_ = samples_ == 0 ? 0 : spec.inputs[0].elems() / samples_;
  }

  void run(const RunState& state) override {
    loop_(output<T>(0), input<T>(0), samples_, sample_elems_, dropout_.at(state));
  }

 private:
  decltype(&baseline::dropout<T>) loop_ = LOCKSTEP_CHOOSE(dropout<T>);
  KeyedDropout dropout_;
  std::int64_t samples_;
  std::int64_t sample_elems_ = 0;
};

template <typename T>
class SampleDropoutKernel final : public BoundKernel {
 public:
  SampleDropoutKernel(const ops::Dropout& op, const KernelSpec& spec)
      : dropout_(op.rate(), spec.path), samples_(spec.inputs[0].shape[0]) {
    sample_elems_ = samples_ == 0 ? 0 : spec.inputs[0].elems() / samples_;
  }

  void run(const RunState& state) override {
    const DropoutStream stream = dropout_.at(state);
    for (std::int64_t n = 0; n < samples_; ++n) {
      const std::int64_t at = n * sample_elems_;
      const std::uint64_t sample = stream.first_sample + std::uint64_t(n);
      if (philox(stream.key, stream.step, sample << 32)[0] >= stream.threshold)
        scale_(output<T>(0) + at, input<T>(0) + at, stream.scale, sample_elems_);
      else if (sample_elems_ > 0)
        std::memset(output<std::byte>(0) + std::size_t(at) * sizeof(T),
                    0,
                    std::size_t(sample_elems_) * sizeof(T));
    }
  }

 private:
  decltype(&baseline::scale<T>) scale_ = LOCKSTEP_CHOOSE(scale<T>);
  KeyedDropout dropout_;
  std::int64_t samples_;
  std::int64_t sample_elems_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_dropout_kernel(const ops::Dropout& op, const KernelSpec& spec) {
  if (op.whole_samples()) return make_stored<SampleDropoutKernel>(spec.inputs[0].dtype, op, spec);
  return make_stored<DropoutKernel>(spec.inputs[0].dtype, op, spec);
}

}  // namespace lockstep::cpu
