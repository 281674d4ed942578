// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "core/graph/graph.h"
#include "launcher/onnx/onnx_graph.h"

namespace lockstep::onnx {

/// Of ONNX: what its runtimes have had since 2021. LayerNormalization is the newest operator used.
inline constexpr int kOperatorSet = 17, kIrVersion = 8;

/// Writes the operators of a forward program as ONNX's. Images are [N, C, H, W] there, as in
/// PyTorch, so that parameters are used as weight files have them; the program's are [N, H, W, C].
class OperatorWriter {
 public:
  /// The graph has no fused operators (BuilderSettings::fuse) and computes in fp32. Both must
  /// outlive it.
  OperatorWriter(const Graph& graph, GraphWriter& out) : graph_(graph), out_(out) {}

  /// What ONNX's graph calls an input or a parameter. Before add().
  void set_name(ValueId value, const std::string& name) { names_[value] = name; }
  /// Appends what computes the outputs of `node`. Throws ConfigError naming the operator: it has no
  /// counterpart.
  void add(const Node& node);
  const std::string& name_of(ValueId value) const { return names_.at(value); }

 private:
  std::string in(const Node& node, int input) const {
    return names_.at(node.inputs[std::size_t(input)]);
  }
  int rank(ValueId value) const { return graph_.value(value).type.shape.rank(); }
  const Parameter& parameter(ValueId value) const {
    return graph_.parameters()[std::size_t(graph_.value(value).index)];
  }

  [[noreturn]] static void refuse(const Node& node, const char* reason);
  std::string translate(const Node& node);
  std::string normalize(const Node& node);
  std::string linear(const Node& node);
  std::string conv2d(const Node& node);
  std::string batch_norm(const Node& node);
  /// `apply` of an image [N, C, H, W], to which it is handed as [N, H, W, C], and the result back.
  std::string channels_last(const std::string& image,
                            const std::function<std::string(const std::string&)>& apply);
  std::string relu(const Node& node);
  std::string pool(const Node& node);
  std::string reshape(const Node& node);
  std::string column_embedding(const Node& node);
  std::string embedding(const Node& node);
  std::string class_token(const Node& node);
  std::string layer_norm(const Node& node);
  std::string rms_norm(const Node& node);
  std::string gelu(const Node& node);
  std::string rotary(const Node& node);
  /// `heads` of D columns each of x, [N, T, heads D], turned.
  std::string turned(const std::string& x, std::int64_t heads, const Node& rotary);
  std::string attention(const Node& node);
  /// softmax(q k^T / sqrt(D)) v over the last two extents of [N, heads, T, D] or, `grouped`, of
  /// [N, kv_heads, heads of a group, T, D]; the others are broadcast. `qkv` says how many positions
  /// there are.
  std::string attend(const std::array<std::string, 3>& parts,
                     std::int64_t depth,
                     bool causal,
                     bool grouped,
                     const std::string& qkv);
  std::string slice(const std::string& of, std::int64_t begin, std::int64_t end, int axis);
  /// 0 where a position sees another one, minus infinity elsewhere: [T, T]
  std::string causal_mask(const std::string& length);

  const Graph& graph_;
  GraphWriter& out_;
  std::map<ValueId, std::string> names_;
  std::string mask_;                                         // causal_mask(), once there is one
  std::map<std::string, std::array<std::string, 2>> turns_;  // of rotary, by its attributes
  std::set<ValueId> flattened_;  // of images, whose elements lie in another order here
};

}  // namespace lockstep::onnx
