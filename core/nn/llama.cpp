// SPDX-License-Identifier: Apache-2.0
#include "core/nn/llama.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"

namespace lockstep::nn {
namespace {

constexpr float kLlamaDeviation = 0.02f;
constexpr const char* kLlamaTable = "model.embed_tokens";

struct LlamaPreset {
  std::string_view name;
  int layers, heads, kv_heads;
  std::int64_t width, mlp_width, context, vocabulary;
  ops::RotaryPositions rotary;
};
constexpr ops::RotaryPositions kLlama3{.theta = 500000.0f, .factor = 32.0f};
/// Hugging Face's HuggingFaceTB/SmolLM-135M and SmolLM-360M, and meta-llama/Llama-3.2-1B.
constexpr LlamaPreset kLlamaPresets[] = {
    {"smollm-135m", 30, 9, 3, 576, 1536, 2048, 49152, {}},
    {"smollm-360m", 32, 15, 5, 960, 2560, 2048, 49152, {}},
    {"llama-3.2-1b", 16, 32, 8, 2048, 8192, 131072, 128256, kLlama3}};

const LlamaPreset* find_llama_preset(std::string_view name) {
  const auto* found = std::ranges::find(kLlamaPresets, name, &LlamaPreset::name);
  return found == std::end(kLlamaPresets) ? nullptr : found;
}

int kv_heads_of(const ModelSpec& spec) { return spec.kv_heads == 0 ? spec.heads : spec.kv_heads; }

Value project(Builder& nn, Value x, std::int64_t out, const char* name, float deviation) {
  return nn.linear(x, {.out_features = out, .bias = false, .normal_init = deviation, .name = name});
}

Value self_attention(const ModelSpec& spec, Builder& nn, Value x, float residual_deviation) {
  const Builder::Scope scope = nn.scope("self_attn");
  const int kv_heads = kv_heads_of(spec);
  const std::int64_t kv_width = spec.width / spec.heads * kv_heads;
  const Value q = project(nn, x, spec.width, "q_proj", kLlamaDeviation);
  const Value k = project(nn, x, kv_width, "k_proj", kLlamaDeviation);
  const Value v = project(nn, x, kv_width, "v_proj", kLlamaDeviation);
  x = nn.rotary(q, k, v, {.heads = spec.heads, .kv_heads = kv_heads, .positions = spec.rotary});
  x = nn.attention(
      x, {.heads = spec.heads, .kv_heads = kv_heads, .causal = true, .dropout = spec.dropout});
  return nn.dropout(project(nn, x, spec.width, "o_proj", residual_deviation), spec.dropout);
}

Value gated_layers(const ModelSpec& spec, Builder& nn, Value x, float residual_deviation) {
  const Builder::Scope scope = nn.scope("mlp");
  const std::int64_t hidden = spec.mlp_width == 0 ? usual_mlp_width(spec.width) : spec.mlp_width;
  const Value gate = project(nn, x, hidden, "gate_proj", kLlamaDeviation);
  const Value up = project(nn, x, hidden, "up_proj", kLlamaDeviation);
  x = project(nn, nn.swiglu(gate, up), spec.width, "down_proj", residual_deviation);
  return nn.dropout(x, spec.dropout);
}

void check_llama(const ModelSpec& spec, const Value& tokens) {
  LOCKSTEP_CHECK(spec.layers >= 1 && spec.heads >= 1 && spec.width >= 1 &&
                     spec.width % spec.heads == 0 && spec.width / spec.heads % 2 == 0,
                 ConfigError,
                 "llama: expected layers, heads and width of at least 1 and width an even multiple "
                 "of heads, got {}, {} and {}",
                 spec.layers,
                 spec.heads,
                 spec.width);
  LOCKSTEP_CHECK(spec.kv_heads >= 0 && spec.heads % kv_heads_of(spec) == 0 && spec.mlp_width >= 0,
                 ConfigError,
                 "llama: expected heads to be a multiple of kv_heads and an mlp_width of at least "
                 "1, got {}, {} and {}",
                 spec.heads,
                 spec.kv_heads,
                 spec.mlp_width);
  LOCKSTEP_CHECK(tokens.type().dtype == DType::i32 && tokens.shape().rank() == 2,
                 ConfigError,
                 "llama: expected tokens, i32[N, T], got samples of {}; `data` text:FILE and "
                 "tokens:FILE have tokens",
                 tokens.type().to_string());
  LOCKSTEP_CHECK(tokens.shape()[1] <= spec.context,
                 ConfigError,
                 "llama: samples of {} tokens are longer than the context of {}",
                 tokens.shape()[1],
                 spec.context);
}

}  // namespace

std::int64_t usual_mlp_width(std::int64_t width) {
  constexpr std::int64_t kMultiple = 64;
  return (8 * width + 3 * kMultiple - 1) / (3 * kMultiple) * kMultiple;
}

bool is_llama_preset(std::string_view name) { return find_llama_preset(name) != nullptr; }

std::int64_t vocabulary_of_llama_preset(std::string_view name) {
  const LlamaPreset* preset = find_llama_preset(name);
  LOCKSTEP_ASSERT(preset != nullptr);
  return preset->vocabulary;
}

void apply_llama_preset(ModelSpec& spec) {
  const LlamaPreset* preset = find_llama_preset(spec.name);
  LOCKSTEP_ASSERT(preset != nullptr);
  spec.layers = preset->layers;
  spec.heads = preset->heads;
  spec.kv_heads = preset->kv_heads;
  spec.width = preset->width;
  spec.mlp_width = preset->mlp_width;
  spec.context = preset->context;
  spec.rotary = preset->rotary;
  spec.norm_eps = 1e-5f;
  spec.tied_head = true;
}

Value llama(const ModelSpec& spec, Builder& nn, Value tokens) {
  check_llama(spec, tokens);
  const float residual_deviation = kLlamaDeviation / std::sqrt(2.0f * float(spec.layers));
  Value x = nn.embedding(tokens,
                         {.vocabulary = spec.outputs,
                          .width = spec.width,
                          .init_deviation = kLlamaDeviation,
                          .name = kLlamaTable});
  x = nn.dropout(x, spec.dropout);
  for (int layer = 0; layer < spec.layers; ++layer) {
    const Builder::Scope scope = nn.scope(fmt::format("model.layers.{}", layer));
    Value h = nn.rms_norm(x, {.eps = spec.norm_eps, .name = "input_layernorm"});
    x = nn.add(x, self_attention(spec, nn, h, residual_deviation));
    h = nn.rms_norm(x, {.eps = spec.norm_eps, .name = "post_attention_layernorm"});
    x = nn.add(x, gated_layers(spec, nn, h, residual_deviation));
  }
  x = nn.rms_norm(x, {.eps = spec.norm_eps, .name = "model.norm"});
  return nn.linear(x,
                   {.out_features = spec.outputs,
                    .bias = false,
                    .normal_init = kLlamaDeviation,
                    .tied_to = spec.tied_head ? std::string(kLlamaTable) + ".weight" : "",
                    .name = "lm_head"});
}

}  // namespace lockstep::nn
