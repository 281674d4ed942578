// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn/convolution_trial.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/device/cuda_check.h"

namespace lockstep::cuda {
namespace {

using Pass = ConvolutionPass;

DType type_of(const ConvolutionSpec& spec, Pass writer) {
  return spec.pass == writer ? spec.result : spec.type;
}

std::size_t bytes_of_x(const ConvolutionSpec& spec) {
  return std::size_t(spec.n * spec.h * spec.w * spec.c) *
         size_in_bytes(type_of(spec, Pass::data_gradient));
}

std::size_t bytes_of_weight(const ConvolutionSpec& spec) {
  return std::size_t(spec.k * spec.kernel_h * spec.kernel_w * (spec.c / spec.groups)) *
         size_in_bytes(type_of(spec, Pass::weight_gradient));
}

std::size_t bytes_of_y(const ConvolutionSpec& spec) {
  return std::size_t(spec.n * spec.out_h * spec.out_w * spec.k) *
         size_in_bytes(type_of(spec, Pass::forward));
}

std::size_t largest_workspace(const std::vector<std::unique_ptr<Convolution>>& candidates) {
  std::size_t bytes = 0;
  for (const auto& candidate : candidates) bytes = std::max(bytes, candidate->workspace_bytes());
  return bytes;
}

}  // namespace

bool ConvolutionTrial::fits(const ConvolutionSpec& spec, std::size_t workspace_bytes) {
  return bytes_of_x(spec) + bytes_of_weight(spec) + bytes_of_y(spec) + workspace_bytes <=
         free_device_bytes() / 2;
}

ConvolutionTrial::ConvolutionTrial(const Device& device,
                                   const ConvolutionSpec& spec,
                                   std::vector<std::unique_ptr<Convolution>> candidates)
    : device_(device),
      candidates_(std::move(candidates)),
      x_(bytes_of_x(spec)),
      weight_(bytes_of_weight(spec)),
      y_(bytes_of_y(spec)),
      bias_(std::size_t(spec.k) * sizeof(float)),
      workspace_(largest_workspace(candidates_)),
      result_(spec.pass == Pass::forward         ? y_
              : spec.pass == Pass::data_gradient ? x_
                                                 : weight_),
      arguments_{.x = x_.data(),
                 .weight = weight_.data(),
                 .y = y_.data(),
                 .bias = spec.bias ? reinterpret_cast<const float*>(bias_.data()) : nullptr,
                 .workspace = workspace_.data()} {
  x_.fill(spec.type);
  weight_.fill(spec.type);
  y_.fill(spec.type);
  bias_.fill(DType::f32);
}

std::uint64_t ConvolutionTrial::result_hash(std::size_t candidate) {
  // Another filling each time: what a candidate leaves unwritten differs.
  check(cudaMemsetAsync(
            result_.data(), fillings_++ % 2 == 0 ? 0 : 0x3f, result_.bytes(), device_.compute),
        "trial of a convolution");
  candidates_[candidate]->run(arguments_);
  return device_hash(device_, result_, result_.bytes());
}

double ConvolutionTrial::seconds(std::size_t candidate) {
  return device_seconds(device_, [&] { candidates_[candidate]->run(arguments_); });
}

}  // namespace lockstep::cuda
