// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <fmt/format.h>
#include <thread>

#include "kernels/cuda/attention/fused_attention.h"
#include "kernels/cuda/device/algorithm_key.h"
#include "kernels/cuda/linear/product_helpers.h"
#include "tests/support/cuda_emulator/host_values.h"
#include "tests/support/cuda_emulator/library_limits.h"

namespace lockstep::cuda {
namespace {

/// Longer than the own kernel takes for the sizes of tests.
constexpr std::chrono::milliseconds kSlow{400};

/// One head of one sample.
struct Head {
  const FusedAttentionSpec& s;
  std::int64_t sample, head;

  std::size_t packed(std::int64_t part, std::int64_t t, std::int64_t d) const {
    return std::size_t((((sample * s.tokens + t) * 3 + part) * s.heads + head) * s.depth + d);
  }
  std::size_t plain(std::int64_t t, std::int64_t d) const {
    return std::size_t(((sample * s.tokens + t) * s.heads + head) * s.depth + d);
  }
  std::size_t row(std::int64_t t) const {
    return std::size_t((sample * s.heads + head) * s.tokens + t);
  }
  std::int64_t seen(std::int64_t t) const { return s.causal ? t + 1 : s.tokens; }
  float score(const std::vector<float>& qkv, std::int64_t i, std::int64_t j) const {
    float sum = 0;
    for (std::int64_t d = 0; d < s.depth; ++d) sum += qkv[packed(0, i, d)] * qkv[packed(1, j, d)];
    return sum / std::sqrt(float(s.depth));
  }
};

template <typename Body>
void for_each_head(const FusedAttentionSpec& spec, Body body) {
  for (std::int64_t sample = 0; sample < spec.samples; ++sample)
    for (std::int64_t head = 0; head < spec.heads; ++head) body(Head{spec, sample, head});
}

/// Keys from the last to the first, and weights that are not rounded: other bits than the own
/// kernel's.
void attend(const Head& h, const std::vector<float>& qkv, std::vector<float>& y, float* lse) {
  std::vector<float> weights(std::size_t(h.s.tokens));
  for (std::int64_t i = 0; i < h.s.tokens; ++i) {
    float total = 0;
    for (std::int64_t j = h.seen(i); j-- > 0;)
      total += weights[std::size_t(j)] = std::exp(h.score(qkv, i, j));
    lse[h.row(i)] = std::log(total);
    for (std::int64_t j = h.seen(i); j-- > 0;)
      for (std::int64_t d = 0; d < h.s.depth; ++d)
        y[h.plain(i, d)] += weights[std::size_t(j)] / total * qkv[h.packed(2, j, d)];
  }
}

struct BackwardInputs {
  std::vector<float> qkv, y, dy;
  const float* lse;
};

void attend_bwd(const Head& h, const BackwardInputs& in, std::vector<float>& dqkv) {
  const float scale = 1 / std::sqrt(float(h.s.depth));
  for (std::int64_t i = h.s.tokens; i-- > 0;) {
    float delta = 0;
    for (std::int64_t d = 0; d < h.s.depth; ++d)
      delta += in.dy[h.plain(i, d)] * in.y[h.plain(i, d)];
    for (std::int64_t j = h.seen(i); j-- > 0;) {
      const float p = std::exp(h.score(in.qkv, i, j) - in.lse[h.row(i)]);
      float dp = 0;
      for (std::int64_t d = 0; d < h.s.depth; ++d)
        dp += in.dy[h.plain(i, d)] * in.qkv[h.packed(2, j, d)];
      const float ds = p * (dp - delta) * scale;
      for (std::int64_t d = 0; d < h.s.depth; ++d) {
        dqkv[h.packed(0, i, d)] += ds * in.qkv[h.packed(1, j, d)];
        dqkv[h.packed(1, j, d)] += ds * in.qkv[h.packed(0, i, d)];
        dqkv[h.packed(2, j, d)] += p * in.dy[h.plain(i, d)];
      }
    }
  }
}

class EmulatedAttention final : public FusedAttention {
 public:
  EmulatedAttention(const FusedAttentionSpec& spec, EmulatedOffer kind, const Device& device)
      : spec_(spec), kind_(kind), stream_(device.compute) {}
  std::size_t workspace_bytes() const override { return kEmulatedWorkspace; }

  void run(const FusedAttentionArguments& arguments) override {
    if (kind_ == EmulatedOffer::fails) throw EnvironmentError("the emulated library fails", "");
    check_workspace(arguments.workspace, kEmulatedWorkspace);
    const bool other_bits = kind_ == EmulatedOffer::unsteady && runs_++ % 2 == 1;
    enqueue_library_call(stream_, [s = spec_, kind = kind_, other_bits, arguments] {
      compute(s, kind, other_bits, arguments);
    });
  }

 private:
  static void compute(const FusedAttentionSpec& s,
                      EmulatedOffer kind,
                      bool other_bits,
                      const FusedAttentionArguments& arguments) {
    use_workspace(arguments.workspace);
    if (kind == EmulatedOffer::slow) std::this_thread::sleep_for(kSlow);
    const std::int64_t elems = s.rows() * s.depth;
    const std::vector<float> qkv = widened(arguments.qkv, DType::bf16, 3 * elems);
    const bool forward = s.pass == AttentionPass::forward;
    std::vector<float> result(std::size_t(forward ? elems : 3 * elems));
    if (forward) {
      for_each_head(s, [&](const Head& head) { attend(head, qkv, result, arguments.lse); });
    } else {
      const BackwardInputs inputs{qkv,
                                  widened(arguments.y, DType::bf16, elems),
                                  widened(arguments.dy, DType::bf16, elems),
                                  arguments.lse};
      for_each_head(s, [&](const Head& head) { attend_bwd(head, inputs, result); });
    }
    if (kind == EmulatedOffer::wrong_last_token)
      for (std::size_t i = result.size() - std::size_t(s.heads * s.depth); i < result.size(); ++i)
        result[i] = 0;
    if (kind == EmulatedOffer::wrong_logarithm && forward)
      for (std::int64_t i = 0; i < s.rows(); ++i) arguments.lse[i] /= std::log(2.0f);
    if (kind == EmulatedOffer::wrong_scale)
      for (float& value : result) value *= 1.03f;
    if (other_bits) result[0] *= 1 + 0x1p-6f;
    void* const stored = forward ? arguments.y : arguments.dqkv;
    for (std::size_t i = 0; i < result.size(); ++i)
      store(result[i], stored, DType::bf16, std::int64_t(i));
  }

  FusedAttentionSpec spec_;
  EmulatedOffer kind_;
  cudaStream_t stream_;
  int runs_ = 0;
};

}  // namespace

AttentionOffers offer_attention(const Device& device,
                                const FusedAttentionSpec& spec,
                                const std::string&) {
  AttentionOffers offers;
  offers.why_none = "the emulated library has none";
  for (const EmulatedOffer kind : library_limits().attention) {
    offers.texts.push_back(fmt::format("kernel {}", offers.kernels.size()));
    offers.kernels.push_back(std::make_unique<EmulatedAttention>(spec, kind, device));
  }
  return offers;
}

std::unique_ptr<FusedAttention> build_attention(const Device& device,
                                                const FusedAttentionSpec& spec,
                                                const std::string& text,
                                                const std::string& what) {
  const std::size_t number = std::size_t(text.back() - '0');
  const std::vector<EmulatedOffer>& kinds = library_limits().attention;
  if (number >= kinds.size()) throw_cannot_follow(what, text, "the emulated library lacks it");
  return std::make_unique<EmulatedAttention>(spec, kinds[number], device);
}

}  // namespace lockstep::cuda
