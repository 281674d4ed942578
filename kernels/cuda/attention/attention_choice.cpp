// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/attention_choice.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cuda/device/algorithm_key.h"
#include "lockstep/error.h"

namespace lockstep::cuda {
namespace {

/// Nothing: no library is asked for such an attention.
std::optional<FusedAttentionSpec> fused_spec(const KernelSpec& kernel,
                                             const ops::AttentionAttrs& attrs) {
  const TensorType& qkv = kernel.inputs[0];
  if (qkv.dtype != DType::bf16 || attrs.dropout > 0.0f || attrs.group() > 1 || qkv.elems() == 0)
    return std::nullopt;
  return FusedAttentionSpec{.pass = kernel.op.kind() == OpKind::attention ? AttentionPass::forward
                                                                          : AttentionPass::backward,
                            .samples = qkv.shape[0],
                            .tokens = qkv.shape[1],
                            .heads = attrs.heads,
                            .depth = qkv.shape[2] / 3 / attrs.heads,
                            .causal = attrs.causal};
}

struct Timed {
  std::unique_ptr<FusedAttention> kernel;  ///< null: the own one
  AlgorithmChoice choice;
  std::string rejected;  ///< which were, and why
};

std::string in_milliseconds(double seconds) { return fmt::format("{:.3g} ms", 1e3 * seconds); }

/// Why each offer but the fastest candidate, 0 being the own kernel, was not taken.
std::string rejections(const std::vector<std::string>& texts,
                       const AttentionTrial& trial,
                       const TrialResult& result) {
  std::vector<std::string> reasons;
  for (std::size_t candidate = 1; candidate <= texts.size(); ++candidate) {
    std::string why = trial.why_refused(candidate);
    if (why.empty() && std::ranges::count(result.nondeterministic, candidate) > 0)
      why = "it stores other bits in a second run";
    // Where another one was taken, those that it won against are none of the user's business.
    if (why.empty() && result.fastest == std::size_t(0))
      why = fmt::format("{}, where the own kernel takes {}",
                        in_milliseconds(result.medians[candidate]),
                        in_milliseconds(result.medians[0]));
    if (!why.empty()) reasons.push_back(fmt::format("{}: {}", texts[candidate - 1], why));
  }
  return fmt::format("{}", fmt::join(reasons, "; "));
}

Timed time(const Device& device,
           const FusedAttentionSpec& spec,
           const OwnAttention& own,
           const std::string& what) {
  AttentionOffers offers = offer_attention(device, spec, what);
  const auto keep_own = [](const std::string& why) {
    return Timed{nullptr, {.text = "", .why_none = why}, why};
  };
  if (offers.kernels.empty()) return keep_own(offers.why_none);
  if (!AttentionTrial::fits(spec, AttentionTrial::workspace_bytes(own, offers.kernels)))
    return keep_own("a trial of it takes more than half of the free memory");
  const AlgorithmTimer timer(*device.algorithms);
  AttentionTrial trial(device, spec, own, offers.kernels);
  const TrialResult result = try_candidates(1 + offers.kernels.size(), trial);
  const std::string rejected = rejections(offers.texts, trial, result);
  const std::size_t fastest = result.fastest.value_or(0);
  if (fastest == 0) return keep_own(rejected);
  device.algorithms->note_other_choice();
  return {std::move(offers.kernels[fastest - 1]),
          {.text = offers.texts[fastest - 1], .why_none = ""},
          rejected};
}

}  // namespace

std::unique_ptr<FusedAttention> choose_attention(const Device& device,
                                                 const KernelSpec& kernel,
                                                 const ops::AttentionAttrs& attrs,
                                                 const OwnAttention& own) {
  const std::optional<FusedAttentionSpec> spec = fused_spec(kernel, attrs);
  if (!spec) return nullptr;
  AlgorithmCache& book = *device.algorithms;
  const std::string key = algorithm_key(device, *spec), what = describe(kernel);
  if (const AlgorithmChoice* known = book.find(key))
    return known->text.empty() ? nullptr : build_attention(device, *spec, known->text, what);
  if (!device.times_algorithms) return nullptr;
  Timed timed = time(device, *spec, own, what);
  book.choice(key, [&] { return timed.choice; });
  if (!timed.rejected.empty())
    book.note_rejected(fmt::format("{} {}", name_of(kernel.op.kind()), kernel.path),
                       fmt::format("a library's fused attention was rejected: {}", timed.rejected));
  if (timed.kernel) book.built(key) = timed.kernel->built();
  return std::move(timed.kernel);
}

}  // namespace lockstep::cuda
