// SPDX-License-Identifier: Apache-2.0
#include "core/base/check.h"
#include "core/nn/builder.h"
#include "core/ops/activations/gelu.h"
#include "core/ops/activations/swiglu.h"
#include "core/ops/attention.h"
#include "core/ops/channel_scale.h"
#include "core/ops/embedding/class_token.h"
#include "core/ops/embedding/embedding.h"
#include "core/ops/narrow.h"
#include "core/ops/norms/layer_norm.h"
#include "core/ops/norms/rms_norm.h"
#include "core/ops/rotary.h"
#include "core/ops/scale.h"

// The layers that transformers add to Builder.
namespace lockstep {

Value Builder::embedding(Value tokens, const EmbeddingOptions& o, SourceLoc where) {
  LOCKSTEP_CHECK(o.vocabulary >= 1 && o.width >= 1 && o.positions >= 0,
                 ShapeError,
                 "embedding: expected a vocabulary and a width of at least 1, got {} and {} (asked "
                 "for at {}:{})",
                 o.vocabulary,
                 o.width,
                 where.file,
                 where.line);
  LOCKSTEP_CHECK(tokens.type().dtype != DType::i32 || settings_->vocabulary <= o.vocabulary,
                 ShapeError,
                 "embedding: a table of {} rows for data with {} tokens (asked for at {}:{})",
                 o.vocabulary,
                 settings_->vocabulary,
                 where.file,
                 where.line);
  const std::string path = layer_path(o.name, "embedding");
  const Init init{Init::Kind::normal, o.init_deviation};
  const Shape table{o.vocabulary, o.width};
  std::vector<ValueId> inputs{tokens.id(),
                              weight(path + ".weight", table, init, {table, {}, table}).id()};
  if (o.positions > 0) {
    const Shape rows{o.positions, o.width};
    const std::string name = layer_path(o.position_name, "positions");
    inputs.push_back(weight(name + ".weight", rows, init, {rows, {}, rows}).id());
  }
  return apply(std::make_shared<ops::Embedding>(o.positions > 0), inputs, path, where);
}

Value Builder::class_token(Value x, const ClassTokenOptions& o, SourceLoc where) {
  const Shape& shape = x.shape();
  LOCKSTEP_CHECK(shape.rank() == 3 || shape.rank() == 4,
                 ShapeError,
                 "class_token: expected an input [N, T, C] or [N, H, W, C], got {} (asked for at "
                 "{}:{})",
                 x.type().to_string(),
                 where.file,
                 where.line);
  const std::int64_t width = shape[-1];
  const std::int64_t tokens = shape.rank() == 3 ? shape[1] : shape[1] * shape[2];
  // Like norms and biases they do not decay: as in DeiT's recipe and torchvision's.
  const auto parameter = [&](const std::string& name, std::int64_t rows) {
    Parameter p;
    p.name = prefix_ + name;
    p.shape = {rows, width};
    p.init = {Init::Kind::normal, o.init_deviation};
    p.file_layout = {p.shape, {}, {1, rows, width}};
    p.normalisation_or_bias = true;
    return graph_.add_parameter(std::move(p));
  };
  const ValueId token = parameter(o.name, 1), positions = parameter(o.position_name, tokens + 1);
  return apply(std::make_shared<ops::ClassToken>(),
               {x.id(), token, positions},
               layer_path("", "class_token"),
               where);
}

Value Builder::narrow(Value x, std::int64_t start, std::int64_t length, SourceLoc where) {
  return apply(
      std::make_shared<ops::Narrow>(start, length), {x.id()}, layer_path("", "narrow"), where);
}

Value Builder::layer_norm(Value x, const LayerNormOptions& o, SourceLoc where) {
  const std::string path = layer_path(o.name, "layer_norm");
  const Shape channels{x.shape()[-1]};
  std::vector<ValueId> inputs{
      x.id(), norm_or_bias(path + ".weight", channels, {Init::Kind::constant, 1.0f}).id()};
  if (o.bias)
    inputs.push_back(norm_or_bias(path + ".bias", channels, {Init::Kind::constant, 0.0f}).id());
  return apply(std::make_shared<ops::LayerNorm>(o.eps, o.bias, false), inputs, path, where);
}

Value Builder::rms_norm(Value x, const RmsNormOptions& o, SourceLoc where) {
  const std::string path = layer_path(o.name, "rms_norm");
  const ValueId gamma =
      norm_or_bias(path + ".weight", {x.shape()[-1]}, {Init::Kind::constant, 1.0f}).id();
  return apply(std::make_shared<ops::RmsNorm>(o.eps, false), {x.id(), gamma}, path, where);
}

Value Builder::swiglu(Value gate, Value up, SourceLoc where) {
  return apply(
      std::make_shared<ops::Swiglu>(), {gate.id(), up.id()}, layer_path("", "swiglu"), where);
}

Value Builder::rotary(Value q, Value k, Value v, const RotaryOptions& o, SourceLoc where) {
  return apply(std::make_shared<ops::Rotary>(
                   ops::RotaryAttrs{o.heads, o.kv_heads == 0 ? o.heads : o.kv_heads, o.positions}),
               {q.id(), k.id(), v.id()},
               layer_path("", "rotary"),
               where);
}

Value Builder::gelu(Value x, ops::GeluKind kind, SourceLoc where) {
  return keep_layout(
      x, apply(std::make_shared<ops::Gelu>(kind), {x.id()}, layer_path("", "gelu"), where));
}

Value Builder::attention(Value qkv, const AttentionOptions& o, SourceLoc where) {
  const float dropout = mode() == Mode::training ? o.dropout : 0.0f;
  return apply(
      std::make_shared<ops::Attention>(ops::AttentionAttrs{
          .heads = o.heads, .kv_heads = o.kv_heads, .causal = o.causal, .dropout = dropout}),
      {qkv.id()},
      layer_path("", "attention"),
      where);
}

Value Builder::channel_scale(Value x, float initial, const std::string& name, SourceLoc where) {
  Parameter p;
  p.name = prefix_ + name;
  p.shape = {x.shape()[-1]};
  p.init = {Init::Kind::constant, initial};
  p.file_layout = {p.shape, {}, {x.shape()[-1], 1, 1}};
  p.normalisation_or_bias = true;
  const ValueId factors = graph_.add_parameter(std::move(p));
  return keep_layout(x,
                     apply(std::make_shared<ops::ChannelScale>(),
                           {x.id(), factors},
                           layer_path("", "channel_scale"),
                           where));
}

Value Builder::scale(Value x, float factor, SourceLoc where) {
  return keep_layout(
      x, apply(std::make_shared<ops::Scale>(factor), {x.id()}, layer_path("", "scale"), where));
}

}  // namespace lockstep
