// SPDX-License-Identifier: Apache-2.0
#include "core/ops/normalize.h"

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

std::vector<float> repeated(const std::vector<float>& pattern) {
  const std::int64_t repeats = pattern_repeats(std::int64_t(pattern.size()));
  std::vector<float> result;
  for (std::int64_t i = 0; i < repeats; ++i)
    result.insert(result.end(), pattern.begin(), pattern.end());
  return result;
}

/// T: of the output.
template <typename T>
class NormalizeKernel final : public BoundKernel {
 public:
  NormalizeKernel(const ops::Normalize& op, const TensorType& x)
      : scale_(repeated(op.scale())),
        shift_(repeated(op.shift())),
        elems_(x.elems()),
        is_u8_(x.dtype == DType::u8) {}

  void run(const RunState&) override {
    const auto period = std::int64_t(scale_.size());
    if (is_u8_)
      affine_u8_(
          output<T>(0), input<std::uint8_t>(0), elems_, scale_.data(), shift_.data(), period);
    else
      affine_f32_(output<T>(0), input(0), elems_, scale_.data(), shift_.data(), period);
  }

 private:
  decltype(&baseline::affine_f32<T>) affine_f32_ = LOCKSTEP_CHOOSE(affine_f32<T>);
  decltype(&baseline::affine_u8<T>) affine_u8_ = LOCKSTEP_CHOOSE(affine_u8<T>);
  std::vector<float> scale_, shift_;  // whole repetitions of the channels
  std::int64_t elems_;
  bool is_u8_;
};

}  // namespace

std::unique_ptr<Kernel> make_normalize_kernel(const ops::Normalize& op, const KernelSpec& spec) {
  return make_stored<NormalizeKernel>(spec.outputs[0].dtype, op, spec.inputs[0]);
}

}  // namespace lockstep::cpu
