// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/product_trial.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cuda/activation_kernel.h"
#include "kernels/cuda/device/cuda_check.h"
#include "kernels/cuda/linear/product_helpers.h"

namespace lockstep::cuda {
namespace {

std::size_t bytes_of_a(const MatrixProductSpec& spec) {
  const std::int64_t rows = spec.transpose_a ? spec.k : spec.m;
  const std::int64_t columns = spec.transpose_a ? spec.m : spec.k;
  return std::size_t(rows * std::max(columns, spec.a_pitch)) * size_in_bytes(spec.factors);
}

std::size_t bytes_of_b(const MatrixProductSpec& spec) {
  return std::size_t(spec.k * spec.n) * size_in_bytes(spec.factors);
}

std::size_t bytes_of_c(const MatrixProductSpec& spec) {
  return std::size_t(spec.parts * spec.m * spec.n) * size_in_bytes(spec.result);
}

std::size_t bytes_of_second(const MatrixProductSpec& spec) {
  return has_second_matrix(spec.epilogue) ? bytes_of_c(spec) : 0;
}

/// A GEMM as the kernel that an activation follows.
class ProductKernel final : public Kernel {
 public:
  ProductKernel(MatrixProduct& product, const MatrixArguments& arguments)
      : product_(product), arguments_(arguments) {}
  void bind(const KernelBuffers& buffers) override { arguments_.c = buffers.outputs[0]; }
  void run(const RunState&) override { product_.run(arguments_); }

 private:
  MatrixProduct& product_;
  MatrixArguments arguments_;
};

}  // namespace

bool ProductTrial::fits(const MatrixProductSpec& spec, std::size_t workspace_bytes) {
  return bytes_of_a(spec) + bytes_of_b(spec) + bytes_of_c(spec) + bytes_of_second(spec) +
             workspace_bytes <=
         free_device_bytes() / 2;
}

ProductTrial::ProductTrial(const Device& device,
                           const MatrixProductSpec& spec,
                           std::size_t workspace_bytes,
                           Run run)
    : device_(device),
      spec_(spec),
      run_(std::move(run)),
      a_(bytes_of_a(spec)),
      b_(bytes_of_b(spec)),
      c_(bytes_of_c(spec)),
      second_(bytes_of_second(spec)),
      bias_(std::size_t(spec.n) * sizeof(float)),
      workspace_(workspace_bytes),
      arguments_{.a = a_.data(),
                 .b = b_.data(),
                 .c = c_.data(),
                 .bias = bias_.data(),
                 .kept = second_.data(),
                 .slope_at = second_.data(),
                 .workspace = workspace_.data()} {
  a_.fill(spec.factors);
  b_.fill(spec.factors);
  bias_.fill(spec.result);
  if (bytes_of_second(spec) > 0) second_.fill(spec.result);
}

std::uint64_t ProductTrial::result_hash(std::size_t candidate) {
  // Another filling each time: what a candidate leaves unwritten differs.
  check(cudaMemsetAsync(c_.data(), fillings_++ % 2 == 0 ? 0 : 0x3f, c_.bytes(), device_.compute),
        "trial of a GEMM");
  run_(candidate, arguments_);
  return device_hash(device_, c_, bytes_of_c(spec_));
}

double ProductTrial::seconds(std::size_t candidate) {
  return device_seconds(device_, [&] { run_(candidate, arguments_); });
}

MatrixEpilogue ProductTrial::without_own_part(MatrixEpilogue epilogue) {
  switch (epilogue) {
    case MatrixEpilogue::gelu_tanh_gradient:
      return MatrixEpilogue::none;
    case MatrixEpilogue::bias_gelu_tanh:
    case MatrixEpilogue::bias_gelu_tanh_kept:
      return MatrixEpilogue::bias;
    case MatrixEpilogue::none:
    case MatrixEpilogue::bias:  // fp32 sums would go through memory
      break;
  }
  return epilogue;
}

double ProductTrial::seconds_apart(MatrixProduct& product) {
  const MatrixArguments plain{.a = arguments_.a,
                              .b = arguments_.b,
                              .c = arguments_.c,
                              .bias = has_bias(spec_.epilogue) ? arguments_.bias : nullptr,
                              .workspace = arguments_.workspace};
  const bool kept = spec_.epilogue == MatrixEpilogue::bias_gelu_tanh_kept;
  const std::unique_ptr<Kernel> with_gelu =
      wrap_activation(std::make_unique<ProductKernel>(product, plain),
                      has_bias(spec_.epilogue) ? ops::Activation::gelu_tanh : ops::Activation::none,
                      kept,
                      {{spec_.m, spec_.n}, spec_.result},
                      device_);
  KernelBuffers buffers;
  buffers.outputs = {c_.data()};
  if (kept) buffers.outputs.push_back(second_.data());
  with_gelu->bind(buffers);
  const auto both = [&] {
    with_gelu->run({});
    if (spec_.epilogue == MatrixEpilogue::gelu_tanh_gradient)
      apply_gelu_gradient(device_,
                          ops::Activation::gelu_tanh,
                          c_.data(),
                          second_.data(),
                          spec_.result,
                          spec_.m * spec_.n);
  };
  std::vector<double> seconds;
  both();
  for (int round = 0; round < kTrialRounds; ++round)
    seconds.push_back(device_seconds(device_, both));
  std::ranges::nth_element(seconds, seconds.begin() + kTrialRounds / 2);
  return seconds[kTrialRounds / 2];
}

}  // namespace lockstep::cuda
