// SPDX-License-Identifier: Apache-2.0
#include "core/ops/dropout.h"

#include <cmath>

#include "core/base/random.h"
#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

template <typename T>
class DropoutKernel final : public BoundKernel {
 public:
  DropoutKernel(const ops::Dropout& op, const KernelSpec& spec)
      : path_(spec.path), samples_(spec.inputs[0].shape[0]) {
    sample_elems_ = samples_ == 0 ? 0 : spec.inputs[0].elems() / samples_;
    // rate < 1 has 24 bits, so the threshold is below 2^32.
    threshold_ = std::uint32_t(std::llround(double(op.rate()) * 0x1p32));
    scale_ = float(1.0 / (1.0 - double(op.rate())));
  }

  void run(const RunState& state) override {
    dropout_(output<T>(0),
             input<T>(0),
             samples_,
             sample_elems_,
             {.key = random_key(state.seed, path_),
              .step = state.step,
              .first_sample = state.first_sample,
              .threshold = threshold_,
              .scale = scale_});
  }

 private:
  decltype(&avx2::dropout<T>) dropout_ = LOCKSTEP_CHOOSE(dropout<T>);
  std::string path_;
  std::int64_t samples_;
  std::int64_t sample_elems_ = 0;
  std::uint32_t threshold_ = 0;
  float scale_ = 1.0f;
};

}  // namespace

std::unique_ptr<Kernel> make_dropout_kernel(const ops::Dropout& op, const KernelSpec& spec) {
  return make_stored<DropoutKernel>(spec.inputs[0].dtype, op, spec);
}

}  // namespace lockstep::cpu
