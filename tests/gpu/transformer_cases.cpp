// SPDX-License-Identifier: Apache-2.0
#include "core/ops/embedding.h"
#include "core/ops/layer_norm.h"
#include "core/ops/softmax_cross_entropy.h"
#include "tests/gpu/rates.h"

namespace lockstep::rates {
namespace {

/// The parts of GPT-2 124M that are no products.
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

/// One range for each parameter of GPT-2 124M, each starting at a multiple of 64 numbers.
std::vector<FlatRange> parameter_ranges(bool small) {
  const std::int64_t w = small ? 16 : 768, vocabulary = small ? 100 : 50257;
  std::vector<std::int64_t> elems{vocabulary * w, (small ? 8 : 1024) * w};
  for (int layer = 0; layer < (small ? 1 : 12); ++layer)
    elems.insert(elems.end(),
                 {w, w, 3 * w * w, 3 * w, w * w, w, w, w, 4 * w * w, 4 * w, 4 * w * w, w});
  elems.insert(elems.end(), {w, w});
  std::vector<FlatRange> ranges;
  std::int64_t offset = 0;
  for (std::int64_t n : elems) {
    ranges.push_back({.offset = offset, .elems = n, .weight_decay = 0.1f});
    offset += (n + 63) / 64 * 64;
  }
  return ranges;
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
    }
    time_loss(rates, sizes, samples.front(), type);
  }
}

void time_flat(Rates& rates) {
  const std::vector<FlatRange> ranges = parameter_ranges(rates.small());
  const std::int64_t elems = ranges.back().offset + ranges.back().elems;
  const TensorType type = f32({elems});
  Backend& backend = rates.backend();
  // `moved`: how often the whole array is read or written.
  const auto time = [&](const std::string& name, int moved, const auto& prepare) {
    rates.time({.name = name, .shape = type.shape.to_string()},
               {.flops = 0, .bytes = double(moved) * double(type.bytes())},
               type.bytes(),
               prepare);
  };
  const auto filled = [&] { return rates.filled(type, {.low = 0, .high = 1e-3f}); };
  time("copy", 2, [&] {
    return [&backend, bytes = type.bytes(), to = filled(), from = filled()] {
      backend.copy(to->data(), from->data(), bytes);
    };
  });
  time("flat add", 3, [&] {
    return [&backend, elems, a = filled(), b = filled()] {
      backend.add(a->as<float>(), a->as<float>(), b->as<float>(), elems);
    };
  });
  time("sgd_update momentum", 5, [&] {
    return [&backend, &ranges, p = filled(), g = filled(), m = filled()] {
      backend.sgd_update({.params = p->as<float>(),
                          .grads = g->as<float>(),
                          .momentum_buffer = m->as<float>(),
                          .lr = 1e-3f,
                          .momentum = 0.9f},
                         ranges);
    };
  });
  time("adamw_update", 7, [&] {
    return [&backend, &ranges, p = filled(), g = filled(), m = filled(), v = filled()] {
      backend.adamw_update({.params = p->as<float>(),
                            .grads = g->as<float>(),
                            .first_moment = m->as<float>(),
                            .second_moment = v->as<float>(),
                            .lr = 1e-3f,
                            .beta1 = 0.9f,
                            .beta2 = 0.95f,
                            .eps = 1e-8f},
                           ranges);
    };
  });
  time("squared_norms, sent to the host", 1, [&] {
    return [&backend, &ranges, g = filled(), norms = std::vector<double>(ranges.size())]() mutable {
      backend.squared_norms(g->as<float>(), ranges, norms.data());
    };
  });
  time("update_running_statistics", 3, [&] {
    return [&backend, elems, value = filled(), sum = filled()] {
      const RunningStatistic all{.offset = 0, .elems = elems, .weight = 0, .momentum = 0.1f};
      backend.update_running_statistics(value->as<float>(), sum->as<float>(), {&all, 1}, nullptr);
    };
  });
}

}  // namespace lockstep::rates
