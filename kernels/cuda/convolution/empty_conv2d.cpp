// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/convolution/empty_conv2d.h"

#include <algorithm>

#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/device/cuda_check.h"
#include "kernels/cuda/linear/bias.h"
#include "kernels/cuda/linear/column_sums.h"
#include "kernels/cuda/linear/product_helpers.h"

namespace lockstep::cuda {
namespace {

class EmptyConvolution final : public BoundKernel {
 public:
  EmptyConvolution(const KernelSpec& spec, int bias_input, const Device& device)
      : BoundKernel(device),
        bias_input_(bias_input),
        output_(spec.outputs[0]),
        output_accumulates_(spec.output_accumulates) {
    if (spec.outputs.size() == 2) dy_ = spec.inputs[1];
  }

  std::size_t workspace_bytes() const override {
    return has_bias_gradient() ? column_sums_workspace(rows(dy_), dy_.shape[-1]) : 0;
  }

  void run(const RunState& state) override {
    if (bias_input_ >= 0)
      add_bias(device(),
               {.bias = input(std::size_t(bias_input_)),
                .y = output<void>(0),
                .type = output_.dtype,
                .rows = rows(output_),
                .columns = output_.shape[-1]});
    else if (!accumulates(output_accumulates_, 0, state))
      check(cudaMemsetAsync(output<void>(0), 0, output_.bytes(), stream()), "empty conv2d");
    if (has_bias_gradient())
      column_sums(device(),
                  {.values = input<void>(1),
                   .type = dy_.dtype,
                   .rows = rows(dy_),
                   .columns = dy_.shape[-1],
                   .sums = output(1),
                   .accumulate = accumulates(output_accumulates_, 1, state),
                   .workspace = workspace<void>()});
  }

 private:
  static std::int64_t rows(const TensorType& images) {
    return images.shape[0] * images.shape[1] * images.shape[2];
  }
  bool has_bias_gradient() const { return dy_.shape.rank() == 4; }

  int bias_input_;
  TensorType output_, dy_;
  std::vector<bool> output_accumulates_;
};

}  // namespace

bool is_empty(const KernelSpec& spec) {
  const auto no_elems = [](const TensorType& type) { return type.elems() == 0; };
  return std::any_of(spec.inputs.begin(), spec.inputs.end(), no_elems) ||
         std::any_of(spec.outputs.begin(), spec.outputs.end(), no_elems);
}

std::unique_ptr<Kernel> make_empty_conv2d(const KernelSpec& spec,
                                          int bias_input,
                                          const Device& device) {
  return std::make_unique<EmptyConvolution>(spec, bias_input, device);
}

}  // namespace lockstep::cuda
