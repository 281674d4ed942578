// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/product_trial.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cuda/device/cuda_check.h"
#include "kernels/cuda/linear/column_sums.h"
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
  return std::size_t(spec.m * spec.n) * size_in_bytes(spec.result);
}

std::size_t bytes_of_second(const MatrixProductSpec& spec) {
  return has_second_matrix(spec.epilogue) ? bytes_of_c(spec) : 0;
}

bool is_sums_of_a(const MatrixProductSpec& spec) {
  return spec.epilogue == MatrixEpilogue::sums_of_a;
}

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
      // A bias of n or sums of m, in the wider type.
      vector_(std::size_t(std::max(spec.m, spec.n)) * sizeof(float)),
      // The column sums follow the GEMM's own.
      workspace_(aligned(workspace_bytes) +
                 (is_sums_of_a(spec) ? column_sums_workspace(spec.k, spec.m) : 0)),
      arguments_{.a = a_.data(),
                 .b = b_.data(),
                 .c = c_.data(),
                 .bias = vector_.data(),
                 .kept = second_.data(),
                 .slope_at = second_.data(),
                 .sums = vector_.data(),
                 .workspace = workspace_.data()} {
  a_.fill(spec.factors);
  b_.fill(spec.factors);
  vector_.fill(is_sums_of_a(spec) ? spec.result : spec.bias);
  if (bytes_of_second(spec) > 0) second_.fill(spec.result);
}

std::uint64_t ProductTrial::result_hash(std::size_t candidate) {
  // Another filling each time: what a candidate leaves unwritten differs.
  check(cudaMemsetAsync(c_.data(), fillings_++ % 2 == 0 ? 0 : 0x3f, c_.bytes(), device_.compute),
        "trial of a GEMM");
  run_(candidate, arguments_);
  const std::uint64_t hash = device_hash(device_, c_, bytes_of_c(spec_));
  return is_sums_of_a(spec_) ? hash ^ device_hash(device_, vector_, vector_.bytes()) : hash;
}

double ProductTrial::seconds(std::size_t candidate) {
  return device_seconds(device_, [&] { run_(candidate, arguments_); });
}

double ProductTrial::seconds_apart(MatrixProduct& product) {
  const auto both = [&] {
    product.run({.a = arguments_.a,
                 .b = arguments_.b,
                 .c = arguments_.c,
                 .workspace = arguments_.workspace});
    column_sums(device_,
                {.values = arguments_.a,
                 .type = spec_.factors,
                 .rows = spec_.k,
                 .columns = spec_.m,
                 .sums = reinterpret_cast<float*>(vector_.data()),
                 .workspace = workspace_.data() + aligned(product.workspace_bytes())});
  };
  std::vector<double> seconds;
  both();
  for (int round = 0; round < kTrialRounds; ++round)
    seconds.push_back(device_seconds(device_, both));
  std::ranges::nth_element(seconds, seconds.begin() + kTrialRounds / 2);
  return seconds[kTrialRounds / 2];
}

}  // namespace lockstep::cuda
