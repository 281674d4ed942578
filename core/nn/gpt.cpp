// SPDX-License-Identifier: Apache-2.0
#include "core/nn/gpt.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"

namespace lockstep::nn {
namespace {

constexpr float kDeviation = 0.02f;
constexpr const char* kTokenTable = "transformer.wte";

struct Preset {
  std::string_view name;
  int layers, heads, width;
};
constexpr Preset kPresets[] = {{"gpt2-124m", 12, 12, 768},
                               {"gpt2-355m", 24, 16, 1024},
                               {"gpt2-774m", 36, 20, 1280},
                               {"gpt2-1.5b", 48, 25, 1600}};

const Preset* find_preset(std::string_view name) {
  const auto* found = std::ranges::find(kPresets, name, &Preset::name);
  return found == std::end(kPresets) ? nullptr : found;
}

LinearOptions projection(const ModelSpec& spec,
                         std::int64_t out,
                         float deviation,
                         const char* name) {
  return {.out_features = out,
          .bias = spec.bias,
          .normal_init = deviation,
          .transposed_in_file = true,
          .name = name};
}

Value attention(const ModelSpec& spec, Builder& nn, Value x, float residual_deviation) {
  const Builder::Scope scope = nn.scope("attn");
  const std::int64_t width = spec.width;
  x = nn.linear(x, projection(spec, 3 * width, kDeviation, "c_attn"));
  x = nn.attention(x, {.heads = spec.heads, .causal = true, .dropout = spec.dropout});
  x = nn.linear(x, projection(spec, width, residual_deviation, "c_proj"));
  return nn.dropout(x, spec.dropout);
}

Value feed_forward(const ModelSpec& spec, Builder& nn, Value x, float residual_deviation) {
  const Builder::Scope scope = nn.scope("mlp");
  x = nn.gelu(nn.linear(x, projection(spec, 4 * spec.width, kDeviation, "c_fc")), spec.gelu);
  x = nn.linear(x, projection(spec, spec.width, residual_deviation, "c_proj"));
  return nn.dropout(x, spec.dropout);
}

void check(const ModelSpec& spec, const Value& tokens) {
  LOCKSTEP_CHECK(
      spec.layers >= 1 && spec.heads >= 1 && spec.width >= 1 && spec.width % spec.heads == 0,
      ConfigError,
      "gpt: expected layers, heads and width of at least 1 and width a multiple of heads, "
      "got {}, {} and {}",
      spec.layers,
      spec.heads,
      spec.width);
  LOCKSTEP_CHECK(tokens.type().dtype == DType::i32 && tokens.shape().rank() == 2,
                 ConfigError,
                 "gpt: expected tokens, i32[N, T], got samples of {}; `data` text:FILE and "
                 "tokens:FILE have tokens",
                 tokens.type().to_string());
  LOCKSTEP_CHECK(tokens.shape()[1] <= spec.context,
                 ConfigError,
                 "gpt: samples of {} tokens are longer than the context of {}",
                 tokens.shape()[1],
                 spec.context);
}

}  // namespace

bool is_gpt2_preset(std::string_view name) { return find_preset(name) != nullptr; }

void apply_gpt2_preset(ModelSpec& spec) {
  const Preset* preset = find_preset(spec.name);
  LOCKSTEP_ASSERT(preset != nullptr);
  spec.layers = preset->layers;
  spec.heads = preset->heads;
  spec.width = preset->width;
  spec.context = 1024;
  spec.bias = true;
  spec.tied_head = true;
  spec.gelu = ops::GeluKind::tanh;
}

Value gpt(const ModelSpec& spec, Builder& nn, Value tokens) {
  check(spec, tokens);
  const float residual_deviation = kDeviation / std::sqrt(2.0f * float(spec.layers));
  Value x = nn.embedding(tokens,
                         {.vocabulary = spec.outputs,
                          .width = spec.width,
                          .positions = spec.context,
                          .init_deviation = kDeviation,
                          .name = kTokenTable,
                          .position_name = "transformer.wpe"});
  x = nn.dropout(x, spec.dropout);
  for (int layer = 0; layer < spec.layers; ++layer) {
    const Builder::Scope scope = nn.scope(fmt::format("transformer.h.{}", layer));
    Value h = nn.layer_norm(x, {.bias = spec.bias, .name = "ln_1"});
    x = nn.add(x, attention(spec, nn, h, residual_deviation));
    h = nn.layer_norm(x, {.bias = spec.bias, .name = "ln_2"});
    x = nn.add(x, feed_forward(spec, nn, h, residual_deviation));
  }
  x = nn.layer_norm(x, {.bias = spec.bias, .name = "transformer.ln_f"});
  return nn.linear(x,
                   {.out_features = spec.outputs,
                    .bias = false,
                    .normal_init = kDeviation,
                    .tied_to = spec.tied_head ? std::string(kTokenTable) + ".weight" : "",
                    .name = "lm_head"});
}

}  // namespace lockstep::nn
