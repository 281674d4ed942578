// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "kernels/cuda/device/algorithm_trial.h"
#include "kernels/cuda/device/trial_memory.h"
#include "kernels/cuda/linear/matrix_product.h"

namespace lockstep::cuda {

/// Runs algorithms of one GEMM on matrices of its own.
class ProductTrial final : public CandidateRunner {
 public:
  using Run = std::function<void(std::size_t candidate, const MatrixArguments& arguments)>;

  /// Whether it takes no more than half of the device's free memory.
  static bool fits(const MatrixProductSpec& spec, std::size_t workspace_bytes);
  ProductTrial(const Device& device,
               const MatrixProductSpec& spec,
               std::size_t workspace_bytes,
               Run run);

  std::uint64_t result_hash(std::size_t candidate) override;
  double seconds(std::size_t candidate) override;

  /// What of an epilogue a GEMM keeps whose other part an own kernel does after it: `epilogue`
  /// itself where there is no such pair.
  static MatrixEpilogue without_own_part(MatrixEpilogue epilogue);
  /// Of the epilogue in two: seconds of `product`, which has without_own_part() of it, and the own
  /// kernel after it.
  double seconds_apart(MatrixProduct& product);

 private:
  const Device& device_;
  MatrixProductSpec spec_;
  Run run_;
  TrialMemory a_, b_, c_, second_, bias_, workspace_;
  MatrixArguments arguments_;
  int fillings_ = 0;
};

}  // namespace lockstep::cuda
