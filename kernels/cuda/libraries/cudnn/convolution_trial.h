// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/device/algorithm_trial.h"
#include "kernels/cuda/device/trial_memory.h"

namespace lockstep::cuda {

/// Runs plans of one convolution on tensors of its own.
class ConvolutionTrial final : public CandidateRunner {
 public:
  /// Whether it takes no more than half of the device's free memory.
  static bool fits(const ConvolutionSpec& spec, std::size_t workspace_bytes);
  ConvolutionTrial(const Device& device,
                   const ConvolutionSpec& spec,
                   std::vector<std::unique_ptr<Convolution>> candidates);

  std::uint64_t result_hash(std::size_t candidate) override;
  double seconds(std::size_t candidate) override;

 private:
  const Device& device_;
  std::vector<std::unique_ptr<Convolution>> candidates_;
  TrialMemory x_, weight_, y_, bias_, workspace_;
  const TrialMemory& result_;
  ConvolutionArguments arguments_;
  int fillings_ = 0;
};

}  // namespace lockstep::cuda
