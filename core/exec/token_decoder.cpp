// SPDX-License-Identifier: Apache-2.0
#include "core/exec/token_decoder.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/base/check.h"
#include "core/nn/trace.h"
#include "core/ops/attention.h"
#include "core/ops/embedding/embedding.h"
#include "core/ops/rotary.h"

namespace lockstep {
namespace {

constexpr const char* kEmbedded = "embedded";

std::string name_of_layer(const char* what, std::size_t layer) {
  return fmt::format("{}.{}", what, layer);
}

/// Whether each token's result of a node depends on that token alone, once embedding's and
/// attention's results are overwritten.
bool is_of_one_token(const Node& node) {
  switch (node.op->kind()) {
    case OpKind::attention:
      return static_cast<const ops::Attention&>(*node.op).attrs().causal;
    case OpKind::embedding:
    case OpKind::rotary:
    case OpKind::linear:
    case OpKind::layer_norm:
    case OpKind::rms_norm:
    case OpKind::swiglu:
    case OpKind::gelu:
    case OpKind::relu:
    case OpKind::add:
    case OpKind::scale:
      return true;
    default:
      return false;
  }
}

/// The rotary node that made an attention's input; null: none did.
const Node* rotary_of(const Graph& graph, const Node& attention) {
  const NodeId producer = graph.value(attention.inputs[0]).producer;
  if (producer < 0) return nullptr;
  const Node& node = graph.nodes()[std::size_t(producer)];
  return node.op->kind() == OpKind::rotary ? &node : nullptr;
}

/// Whether nothing but one attention of as many heads reads what a rotary node makes.
bool turns_for_attention_alone(const Graph& graph) {
  std::set<NodeId> read;
  return std::ranges::all_of(graph.nodes(), [&](const Node& node) {
    return std::ranges::all_of(node.inputs, [&](ValueId input) {
      const NodeId producer = graph.value(input).producer;
      if (producer < 0) return true;
      const Operator& op = *graph.nodes()[std::size_t(producer)].op;
      if (op.kind() != OpKind::rotary) return true;
      if (node.op->kind() != OpKind::attention || !read.insert(producer).second) return false;
      const auto& attention = static_cast<const ops::Attention&>(*node.op).attrs();
      const auto& rotary = static_cast<const ops::Rotary&>(op).attrs();
      return attention.heads == rotary.heads && attention.key_heads() == rotary.kv_heads;
    });
  });
}

bool can_decode(const Graph& graph) {
  const auto& nodes = graph.nodes();
  const auto embeddings = std::ranges::count_if(
      nodes, [](const Node& node) { return node.op->kind() == OpKind::embedding; });
  return embeddings == 1 && std::ranges::all_of(nodes, is_of_one_token) &&
         turns_for_attention_alone(graph) &&
         std::ranges::all_of(graph.values(), [](const ValueInfo& value) {
           return value.role != ValueRole::activation || value.type.dtype == DType::f32;
         });
}

/// softmax(scores), as exp(s - max) / sum.
void softmax_in_place(std::span<float> scores) {
  const float most = *std::ranges::max_element(scores);
  float sum = 0;
  for (float& score : scores) sum += score = std::exp(score - most);
  for (float& score : scores) score /= sum;
}

}  // namespace

std::unique_ptr<TokenDecoder> TokenDecoder::make(Backend& backend,
                                                 const ModelFunction& model,
                                                 const data::SampleSpec& spec,
                                                 Precision precision,
                                                 const std::string& weights) {
  if (!backend.device_class().starts_with("cpu") || precision != Precision::fp32) return nullptr;
  data::SampleSpec one = spec;
  one.input.shape = one.target.shape = {1};
  Graph graph = trace_prediction(model, one, {.micro_batch = 1, .precision = precision});
  if (!can_decode(graph)) return nullptr;
  return std::unique_ptr<TokenDecoder>(
      new TokenDecoder(backend, std::move(graph), spec.input.shape[0], weights));
}

TokenDecoder::TokenDecoder(Backend& backend,
                           Graph graph,
                           std::int64_t context,
                           const std::string& weights)
    : backend_(backend), context_(context), space_(prediction_space(graph)) {
  // What is read or overwritten becomes an output, whose memory no other value takes.
  std::size_t layer = 0;
  for (const Node& node : std::vector<Node>(graph.nodes())) {
    if (node.op->kind() == OpKind::embedding) graph.add_output(kEmbedded, node.outputs[0]);
    if (node.op->kind() != OpKind::attention) continue;
    graph.add_output(name_of_layer("qkv", layer), node.inputs[0]);
    graph.add_output(name_of_layer("y", layer++), node.outputs[0]);
  }
  const ValueId logits =
      std::ranges::find(
          graph.outputs(), std::string(kPredictionName), &std::pair<std::string, ValueId>::first)
          ->second;
  logits_.resize(std::size_t(graph.value(logits).type.elems()));
  program_ = std::make_unique<Program>(
      std::move(graph), backend, space_, MemoryReuse::on, NodeOrder::as_given);
  Program* const program = program_.get();
  parameters_ =
      std::make_unique<LoadedParameters>(backend, space_, std::span(&program, 1), weights);
  find_nodes();
}

void TokenDecoder::find_nodes() {
  const Graph& graph = program_->graph();
  const auto data = [&](const std::string& name) {
    return static_cast<float*>(const_cast<void*>(program_->output(name)));
  };
  embedded_ = data(kEmbedded);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op->kind() == OpKind::embedding) embedding_ = NodeId(i);
    if (node.op->kind() != OpKind::attention) continue;
    Layer layer;
    layer.node = NodeId(i);
    const auto& attrs = static_cast<const ops::Attention&>(*node.op).attrs();
    layer.heads = attrs.heads;
    layer.kv_heads = attrs.key_heads();
    layer.depth = attrs.depth_of(graph.value(node.inputs[0]).type);
    if (const Node* const rotary = rotary_of(graph, node))
      layer.phases = ops::rotary_phases(
          static_cast<const ops::Rotary&>(*rotary->op).attrs().positions, layer.depth);
    layer.qkv = data(name_of_layer("qkv", layers_.size()));
    layer.y = data(name_of_layer("y", layers_.size()));
    layer.keys.resize(std::size_t(layer.kv_heads * layer.depth * context_));
    layer.values.resize(layer.keys.size());
    layers_.push_back(std::move(layer));
  }
  scores_.resize(std::size_t(context_));
}

std::span<const float> TokenDecoder::next(std::int32_t token) {
  LOCKSTEP_ASSERT(size_ < context_);
  backend_.copy_to_device(program_->input(kInputName), &token, sizeof token);
  ran_ = 0;
  run_until(embedding_ + 1);
  embed(token);
  for (Layer& layer : layers_) {
    run_until(layer.node + 1);
    turn(layer);
    attend(layer);
  }
  run_until(NodeId(program_->graph().nodes().size()));
  backend_.copy_to_host(
      logits_.data(), program_->output(kPredictionName), logits_.size() * sizeof(float));
  ++size_;
  return logits_;
}

void TokenDecoder::run_until(NodeId end) {
  program_->run(program_->forward_part(ran_, end), {});
  ran_ = end;
}

const float* TokenDecoder::parameter(int node_input) const {
  const Graph& graph = program_->graph();
  const Node& node = graph.nodes()[std::size_t(embedding_)];
  const ValueInfo& value = graph.value(node.inputs[std::size_t(node_input)]);
  return parameters_->data() + space_.of(value.index).offset;
}

void TokenDecoder::embed(std::int32_t token) {
  const Node& node = program_->graph().nodes()[std::size_t(embedding_)];
  if (!static_cast<const ops::Embedding&>(*node.op).positions()) return;
  const std::int64_t width = program_->graph().value(node.outputs[0]).type.shape[-1];
  const float* const row = parameter(1) + token * width;
  const float* const position = parameter(2) + size_ * width;
  for (std::int64_t i = 0; i < width; ++i) embedded_[i] = row[i] + position[i];
}

void TokenDecoder::turn(Layer& layer) const {
  if (layer.phases.empty()) return;
  const auto pairs = std::int64_t(layer.phases.size());
  for (std::int64_t i = 0; i < pairs; ++i) {
    const auto [cosine, sine] =
        ops::rotation_of(layer.phases[std::size_t(i)] * std::uint64_t(size_));
    for (std::int64_t head = 0; head < layer.heads + layer.kv_heads; ++head) {
      float &x = layer.qkv[head * layer.depth + i], &y = layer.qkv[head * layer.depth + pairs + i];
      const float turned = x * cosine - y * sine;
      y = y * cosine + x * sine;
      x = turned;
    }
  }
}

void TokenDecoder::attend(Layer& layer) {
  const std::int64_t depth = layer.depth, width = layer.kv_heads * depth, count = size_ + 1;
  const float *const q = layer.qkv, *const k = q + layer.heads * depth, *const v = k + width;
  for (std::int64_t i = 0; i < width; ++i) layer.keys[std::size_t(i * context_ + size_)] = k[i];
  std::copy_n(v, width, layer.values.begin() + size_ * width);
  const float scale = 1 / std::sqrt(float(depth));
  float* const scores = scores_.data();
  for (std::int64_t head = 0; head < layer.heads; ++head) {
    // Over positions inside, so that neither loop sums into one number.
    const std::int64_t shared = head / (layer.heads / layer.kv_heads) * depth;
    std::fill_n(scores, count, 0.0f);
    for (std::int64_t d = 0; d < depth; ++d) {
      const float* const keys = layer.keys.data() + (shared + d) * context_;
      const float factor = q[head * depth + d] * scale;
      for (std::int64_t j = 0; j < count; ++j) scores[j] += factor * keys[j];
    }
    softmax_in_place(std::span(scores_).first(std::size_t(count)));
    float* const y = layer.y + head * depth;
    std::fill_n(y, depth, 0.0f);
    for (std::int64_t j = 0; j < count; ++j) {
      const float* const values = layer.values.data() + j * width + shared;
      for (std::int64_t d = 0; d < depth; ++d) y[d] += scores[j] * values[d];
    }
  }
}

}  // namespace lockstep
