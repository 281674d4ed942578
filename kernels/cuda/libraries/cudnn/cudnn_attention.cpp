// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn/cudnn_attention.h"

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/cuda/device/algorithm_key.h"
#include "kernels/cuda/libraries/cudnn/attention_graph.h"
#include "kernels/cuda/linear/product_helpers.h"

namespace lockstep::cuda {
namespace {

class CudnnAttention final : public FusedAttention {
 public:
  CudnnAttention(std::shared_ptr<const BuiltAttention> built,
                 const FusedAttentionSpec& spec,
                 const AttentionCut& cut,
                 const std::string& what)
      : what_(what),
        spec_(spec),
        cut_(cut),
        built_(std::move(built)),
        scale_(1.0f / std::sqrt(float(spec.depth))),
        hidden_score_(hidden_score(cudnn_number())) {}

  std::size_t workspace_bytes() const override {
    return deltas_offset() + (is_forward() ? 0 : spec_.lse_bytes());
  }

  void run(const FusedAttentionArguments& arguments) override {
    check_workspace(arguments.workspace, workspace_bytes());
    if (packs_.empty() || !is_bound_to(arguments)) bind(arguments);
    for (const CudnnDescriptor& pack : packs_)
      check(cudnn().cudnnBackendExecute(built_->handle.get(), built_->plan.plan.get(), pack.get()),
            what_);
  }

  std::shared_ptr<const void> built() const override { return built_; }

 private:
  bool is_forward() const { return spec_.pass == AttentionPass::forward; }
  std::size_t deltas_offset() const { return aligned(built_->plan.workspace_bytes); }

  bool is_bound_to(const FusedAttentionArguments& a) const {
    const FusedAttentionArguments& b = bound_;
    return a.qkv == b.qkv && a.y == b.y && a.lse == b.lse && a.dy == b.dy && a.dqkv == b.dqkv &&
           a.workspace == b.workspace;
  }

  void bind(const FusedAttentionArguments& arguments) {
    packs_.clear();
    bound_ = arguments;
    for (std::int64_t sample = 0; sample < spec_.samples; sample += cut_.samples)
      for (std::int64_t head = 0; head < spec_.heads; head += cut_.heads)
        packs_.push_back(bound_part(arguments, sample, head));
  }

  /// The tensors of the samples and heads from these on.
  CudnnDescriptor bound_part(const FusedAttentionArguments& a,
                             std::int64_t sample,
                             std::int64_t head) const {
    const std::int64_t width = spec_.heads * spec_.depth;
    const auto plain = [&](const void* tensor) {
      return moved(tensor, (sample * spec_.tokens * width + head * spec_.depth) * 2);
    };
    const auto packed = [&](const void* tensor, std::int64_t part) {
      return moved(tensor,
                   (sample * spec_.tokens * 3 * width + part * width + head * spec_.depth) * 2);
    };
    const auto rows = [&](const void* tensor) {
      return moved(tensor,
                   (sample * spec_.heads + head) * spec_.tokens * std::int64_t(sizeof(float)));
    };
    std::vector<std::pair<std::int64_t, const void*>> tensors{{kQueries, packed(a.qkv, 0)},
                                                              {kKeys, packed(a.qkv, 1)},
                                                              {kValues, packed(a.qkv, 2)},
                                                              {kAttended, plain(a.y)},
                                                              {kLse, rows(a.lse)},
                                                              {kScale, &scale_}};
    if (spec_.causal) tensors.emplace_back(kHiddenScore, &hidden_score_);
    if (!is_forward())
      tensors.insert(tensors.end(),
                     {{kAttendedGradient, plain(a.dy)},
                      {kQueriesGradient, packed(a.dqkv, 0)},
                      {kKeysGradient, packed(a.dqkv, 1)},
                      {kValuesGradient, packed(a.dqkv, 2)},
                      {kDeltas, rows(moved(a.workspace, std::int64_t(deltas_offset())))},
                      {kOne, &one_}});
    std::vector<std::int64_t> ids;
    std::vector<const void*> pointers;
    for (const auto& [id, pointer] : tensors) {
      ids.push_back(id);
      pointers.push_back(pointer);
    }
    CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, what_);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids.size(), ids.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
             CUDNN_TYPE_VOID_PTR,
             pointers.size(),
             pointers.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &a.workspace);
    pack.finalize();
    return pack;
  }

  static const void* moved(const void* from, std::int64_t bytes) {
    return static_cast<const std::byte*>(from) + bytes;
  }

  std::string what_;
  FusedAttentionSpec spec_;
  AttentionCut cut_;
  std::shared_ptr<const BuiltAttention> built_;
  // Where cuDNN reads them when the plan is executed.
  float scale_, hidden_score_, one_ = 1;
  FusedAttentionArguments bound_;
  std::vector<CudnnDescriptor> packs_;  ///< one for each part of the cut
};

}  // namespace

std::unique_ptr<FusedAttention> make_cudnn_attention(std::shared_ptr<const BuiltAttention> built,
                                                     const FusedAttentionSpec& spec,
                                                     const AttentionCut& cut,
                                                     const std::string& what) {
  return std::make_unique<CudnnAttention>(std::move(built), spec, cut, what);
}

AttentionOffers offer_attention(const Device& device,
                                const FusedAttentionSpec& spec,
                                const std::string& what) {
  // As many as cuDNN's heuristic proposes for an H100, before those that it calls slow.
  constexpr std::size_t kTriedAttentions = 4;
  AttentionOffers result;
  result.why_none = why_not_attention(spec, cudnn_number());
  if (!result.why_none.empty()) return result;
  const auto handle = cudnn_handle(device);
  try {
    PlanOffers offers = offer_plans(handle.get(),
                                    describe_attention(spec, cut_of(spec), what),
                                    /*rounded_factors=*/true,
                                    what,
                                    kTriedAttentions);
    result.why_none = std::move(offers.why_none);
    result.texts = std::move(offers.texts);
    for (CudnnPlan& plan : offers.plans)
      result.kernels.push_back(std::make_unique<CudnnAttention>(
          std::make_shared<const BuiltAttention>(BuiltAttention{handle, std::move(plan)}),
          spec,
          cut_of(spec),
          what));
  } catch (const CudnnUnsupported&) {
    result.why_none = "cuDNN does not support it";
  }
  return result;
}

std::unique_ptr<FusedAttention> build_attention(const Device& device,
                                                const FusedAttentionSpec& spec,
                                                const std::string& text,
                                                const std::string& what) {
  std::shared_ptr<const void>& built = device.algorithms->built(algorithm_key(device, spec));
  if (!built) {
    const auto handle = cudnn_handle(device);
    built = std::make_shared<const BuiltAttention>(BuiltAttention{
        handle,
        build_plan(handle.get(), describe_attention(spec, cut_of(spec), what), text, what)});
  }
  return std::make_unique<CudnnAttention>(
      std::static_pointer_cast<const BuiltAttention>(built), spec, cut_of(spec), what);
}

}  // namespace lockstep::cuda
