// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn/attention_cut.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

#include "kernels/cuda/libraries/cudnn/cudnn_plan.h"

namespace lockstep::cuda {
namespace {

/// The largest divisor of `count` that is `most` at most, or 1.
std::int64_t divisor(std::int64_t count, std::int64_t most) {
  std::int64_t found = std::clamp<std::int64_t>(most, 1, count);
  while (count % found != 0) --found;
  return found;
}

}  // namespace

AttentionCut cut_of(const FusedAttentionSpec& spec) {
  constexpr std::int64_t kTile = 128, kOtherWorkspace = std::int64_t(1) << 20;
  const AttentionCut whole{spec.samples, spec.heads};
  const bool rows_are_aligned = spec.tokens * std::int64_t(sizeof(float)) % 16 == 0;
  if (spec.pass == AttentionPass::forward || !rows_are_aligned) return whole;
  const std::int64_t tokens = (spec.tokens + kTile - 1) / kTile * kTile;
  const std::int64_t heads = (kMaxPlanWorkspace - kOtherWorkspace) / (tokens * tokens * 2);
  if (heads < spec.heads) return {1, divisor(spec.heads, heads)};
  return {divisor(spec.samples, heads / spec.heads), spec.heads};
}

std::string why_not_attention(const FusedAttentionSpec& spec, int number) {
  if (spec.depth % 8 != 0)
    return fmt::format("heads of {} columns, not a multiple of 8", spec.depth);
  if (spec.tokens < 2) return "a single token";
  if (number == 91000 || number == 91001) return "cuDNN 9.10.0 and 9.10.1 compute it wrongly";
  if (spec.pass == AttentionPass::backward && spec.tokens % 128 != 0 && number <= 91500)
    return fmt::format(
        "{} tokens, of which cuDNN up to 9.15.0 needs a multiple of 128 for gradients",
        spec.tokens);
  return {};
}

float hidden_score(int number) {
  using Float = std::numeric_limits<float>;
  return number < 91000 ? Float::lowest() : -Float::infinity();
}

}  // namespace lockstep::cuda
