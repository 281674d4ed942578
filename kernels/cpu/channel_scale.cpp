// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/channel_scale.h"

#include "core/ops/channel_scale.h"
#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

template <typename T>
class ChannelScaleKernel final : public BoundKernel {
 public:
  explicit ChannelScaleKernel(const Shape& x)
      : columns_(x[-1]), rows_(columns_ == 0 ? 0 : x.elems() / columns_) {}
  void run(const RunState&) override {
    loop_(output<T>(0), input<T>(0), input(1), rows_, columns_);
  }

 private:
  decltype(&baseline::channel_scale<T>) loop_ = LOCKSTEP_CHOOSE(channel_scale<T>);
  std::int64_t columns_, rows_;
};

template <typename T>
class ChannelScaleBwdKernel final : public BoundKernel {
 public:
  explicit ChannelScaleBwdKernel(const KernelSpec& spec)
      : columns_(spec.inputs[0].shape[-1]),
        rows_(columns_ == 0 ? 0 : spec.inputs[0].elems() / columns_),
        accumulates_(spec.output_accumulates[1]) {}
  std::size_t workspace_bytes() const override { return std::size_t(columns_) * sizeof(double); }
  void run(const RunState& state) override {
    double* const total = workspace<double>();
    loop_(output<T>(0), total, input<T>(0), input<T>(1), input(2), rows_, columns_);
    for (std::int64_t c = 0; c < columns_; ++c)
      output(1)[c] =
          state.accumulate && accumulates_ ? output(1)[c] + float(total[c]) : float(total[c]);
  }

 private:
  decltype(&baseline::channel_scale_bwd<T>) loop_ = LOCKSTEP_CHOOSE(channel_scale_bwd<T>);
  std::int64_t columns_, rows_;
  bool accumulates_;
};

}  // namespace

std::unique_ptr<Kernel> make_channel_scale_kernel(const ops::ChannelScale&,
                                                  const KernelSpec& spec) {
  return make_stored<ChannelScaleKernel>(spec.inputs[0].dtype, spec.inputs[0].shape);
}

std::unique_ptr<Kernel> make_channel_scale_bwd_kernel(const ops::ChannelScaleBwd&,
                                                      const KernelSpec& spec) {
  return make_stored<ChannelScaleBwdKernel>(spec.inputs[0].dtype, spec);
}

}  // namespace lockstep::cpu
