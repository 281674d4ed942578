// SPDX-License-Identifier: Apache-2.0
#include "core/base/check.h"
#include "core/nn/builder.h"
#include "core/ops/attention.h"
#include "core/ops/embedding.h"
#include "core/ops/gelu.h"
#include "core/ops/layer_norm.h"
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

Value Builder::layer_norm(Value x, const LayerNormOptions& o, SourceLoc where) {
  const std::string path = layer_path(o.name, "layer_norm");
  const Shape channels{x.shape()[-1]};
  std::vector<ValueId> inputs{
      x.id(), norm_or_bias(path + ".weight", channels, {Init::Kind::constant, 1.0f}).id()};
  if (o.bias)
    inputs.push_back(norm_or_bias(path + ".bias", channels, {Init::Kind::constant, 0.0f}).id());
  return apply(std::make_shared<ops::LayerNorm>(o.eps, o.bias, false), inputs, path, where);
}

Value Builder::gelu(Value x, ops::GeluKind kind, SourceLoc where) {
  return keep_layout(
      x, apply(std::make_shared<ops::Gelu>(kind), {x.id()}, layer_path("", "gelu"), where));
}

Value Builder::attention(Value qkv, const AttentionOptions& o, SourceLoc where) {
  const float dropout = mode() == Mode::training ? o.dropout : 0.0f;
  return apply(std::make_shared<ops::Attention>(
                   ops::AttentionAttrs{.heads = o.heads, .causal = o.causal, .dropout = dropout}),
               {qkv.id()},
               layer_path("", "attention"),
               where);
}

Value Builder::scale(Value x, float factor, SourceLoc where) {
  return keep_layout(
      x, apply(std::make_shared<ops::Scale>(factor), {x.id()}, layer_path("", "scale"), where));
}

}  // namespace lockstep
