// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/attention/fused_attention.h"
#include "kernels/cuda/device/algorithm_trial.h"
#include "kernels/cuda/device/trial_memory.h"

namespace lockstep::cuda {

/// The own kernel of an attention.
struct OwnAttention {
  std::function<void(const FusedAttentionArguments& arguments)> run;
  std::size_t workspace_bytes = 0;
};

/// Runs an attention by the own kernel, candidate 0, and by others, on tensors of its own. A
/// candidate that does not agree with candidate 0, which runs first, throws an Error (Note [Kernels
/// of attention that agree]).
class AttentionTrial final : public CandidateRunner {
 public:
  /// Whether it takes no more than half of the device's free memory.
  static bool fits(const FusedAttentionSpec& spec, std::size_t workspace_bytes);
  AttentionTrial(const Device& device,
                 const FusedAttentionSpec& spec,
                 const OwnAttention& own,
                 std::span<const std::unique_ptr<FusedAttention>> others);

  std::uint64_t result_hash(std::size_t candidate) override;
  double seconds(std::size_t candidate) override;

  /// The largest workspace of a candidate.
  static std::size_t workspace_bytes(const OwnAttention& own,
                                     std::span<const std::unique_ptr<FusedAttention>> others);
  /// Why `candidate` threw; empty: it did not.
  const std::string& why_refused(std::size_t candidate) const { return why_refused_[candidate]; }

 private:
  void run(std::size_t candidate);
  std::string difference() const;

  const Device& device_;
  FusedAttentionSpec spec_;
  const OwnAttention& own_;
  std::span<const std::unique_ptr<FusedAttention>> others_;
  TrialMemory qkv_, y_, lse_, dy_, dqkv_, workspace_;
  TrialMemory own_result_, own_lse_;
  FusedAttentionArguments arguments_;
  std::vector<std::string> why_refused_;
  int fillings_ = 0;
};

}  // namespace lockstep::cuda
