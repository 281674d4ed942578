// SPDX-License-Identifier: Apache-2.0
#include "core/ops/embedding/class_token.h"
#include "core/ops/embedding/embedding.h"
#include "core/ops/losses/softmax_cross_entropy.h"
#include "core/ops/narrow.h"
#include "core/ops/norms/layer_norm.h"
#include "core/ops/norms/rms_norm.h"
#include "core/ops/rotary.h"
#include "tests/gpu/rates.h"

namespace lockstep::rates {
namespace {

/// The parts of GPT-2 124M that are not products.
struct Sizes {
  std::int64_t tokens = 1024, width = 768, vocabulary = 50257;
  std::int64_t classes = 50304;  ///< of the loss: the vocabulary in multiples of 64
};

void time_layer_norm(Rates& rates, const Sizes& sizes, std::int64_t samples, DType type) {
  const TensorType x{{samples, sizes.tokens, sizes.width}, type};
  const TensorType c = f32({sizes.width}), saved = f32({samples * sizes.tokens, 2});
  const auto time = [&](const std::string& name, const Operator& op, const auto&... inputs) {
    rates.time({.name = name, .type = type}, op, {inputs...});
  };
  time("layer_norm", ops::LayerNorm(1e-5f, true, false), x, c, c);
  time("layer_norm residual", ops::LayerNorm(1e-5f, true, true), x, c, c, x);
  time("layer_norm_bwd", ops::LayerNormBwd(true, false), x, x, c, saved);
  time("layer_norm_bwd residual", ops::LayerNormBwd(true, true), x, x, c, saved, x);
  const TensorType rstd = f32({samples * sizes.tokens});
  time("rms_norm", ops::RmsNorm(1e-5f, false), x, c);
  time("rms_norm residual", ops::RmsNorm(1e-5f, true), x, c, x);
  time("rms_norm_bwd", ops::RmsNormBwd(false), x, x, c, rstd);
  time("rms_norm_bwd residual", ops::RmsNormBwd(true), x, x, c, rstd, x);
}

void time_embedding(Rates& rates, const Sizes& sizes, std::int64_t samples, DType type) {
  const TensorType tokens{{samples, sizes.tokens}, DType::i32};
  const TensorType dy{{samples, sizes.tokens, sizes.width}, type};
  const auto time = [&](const std::string& name,
                        std::int64_t different_tokens,
                        const Operator& op,
                        const auto&... inputs) {
    rates.time({.name = name,
                .shape = dy.shape.to_string(),
                .type = type,
                .fill = {.bound = std::uint32_t(different_tokens)}},
               op,
               {inputs...});
  };
  time("embedding",
       sizes.vocabulary,
       ops::Embedding(true, type),
       tokens,
       f32({sizes.vocabulary, sizes.width}),
       f32({sizes.tokens, sizes.width}));
  const ops::EmbeddingBwdTokens bwd(sizes.vocabulary);
  time("embedding_bwd_tokens", sizes.vocabulary, bwd, tokens, dy);
  // As in a text, where some tokens are far more frequent than others.
  const std::int64_t few = rates.small() ? 4 : 64;
  time(fmt::format("embedding_bwd_tokens of {} tokens", few), few, bwd, tokens, dy);
  time("embedding_bwd_positions", 1, ops::EmbeddingBwdPositions(sizes.tokens), dy);
}

/// Of vision transformers: one token more than there are patches.
void time_patches(Rates& rates, const Sizes& sizes, std::int64_t samples, DType type) {
  const std::int64_t patches = sizes.tokens / 4, width = sizes.width;
  const TensorType x{{samples, patches, width}, type}, y{{samples, patches + 1, width}, type};
  const auto time = [&](const std::string& name, const Operator& op, const auto&... inputs) {
    rates.time({.name = name, .shape = y.shape.to_string(), .type = type}, op, {inputs...});
  };
  time("class_token", ops::ClassToken(), x, f32({1, width}), f32({patches + 1, width}));
  time("narrow", ops::Narrow(1, patches), y);
  time("narrow_bwd", ops::NarrowBwd(1, patches + 1), x);
}

/// Heads of 64 columns, three of which share keys and values.
void time_rotary(Rates& rates, const Sizes& sizes, std::int64_t samples, DType type) {
  const int heads = rates.small() ? 3 : 12, kv_heads = heads / 3;
  const ops::RotaryAttrs attrs{heads, kv_heads, {}};
  const TensorType q{{samples, sizes.tokens, heads * 64}, type},
      k{{samples, sizes.tokens, kv_heads * 64}, type},
      packed{{samples, sizes.tokens, (heads + 2 * kv_heads) * 64}, type};
  const auto time = [&](const std::string& name, const Operator& op, const auto&... inputs) {
    rates.time({.name = name, .shape = packed.shape.to_string(), .type = type}, op, {inputs...});
  };
  time("rotary", ops::Rotary(attrs), q, k, k);
  time("rotary_bwd", ops::RotaryBwd(attrs), packed);
}

void time_loss(Rates& rates, const Sizes& sizes, std::int64_t samples, DType type) {
  const TensorType logits{{samples, sizes.tokens, sizes.classes}, type};
  const TensorType labels{{samples, sizes.tokens}, DType::i32};
  for (bool gradient : {true, false})
    rates.time({.name = fmt::format("softmax_cross_entropy{}", gradient ? "" : ", loss alone"),
                .type = type,
                .fill = {.bound = std::uint32_t(sizes.classes)}},
               ops::SoftmaxCrossEntropy(0.0f, gradient, -1),
               {logits, labels, f32({1})});
}

}  // namespace

void time_transformer(Rates& rates) {
  const Sizes sizes = rates.small() ? Sizes{8, 40, 50, 52} : Sizes{};
  const auto samples =
      rates.small() ? std::vector<std::int64_t>{2} : std::vector<std::int64_t>{8, 64};
  for (DType type : {DType::f32, DType::bf16}) {
    for (std::int64_t n : samples) {
      time_layer_norm(rates, sizes, n, type);
      time_embedding(rates, sizes, n, type);
      time_patches(rates, sizes, n, type);
      time_rotary(rates, sizes, n, type);
    }
    time_loss(rates, sizes, samples.front(), type);
  }
}

}  // namespace lockstep::rates
