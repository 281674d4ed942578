// SPDX-License-Identifier: Apache-2.0
#include "core/nn/trace.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/name_patterns.h"
#include "core/data/augment/mix.h"
#include "core/data/embedded_column.h"
#include "core/grad/differentiate.h"
#include "core/nn/builder.h"
#include "core/ops/cast.h"
#include "core/plan/fuse.h"
#include "core/plan/pad_logits.h"
#include "core/plan/precision.h"

namespace lockstep {
namespace {

TensorType batch_of(const TensorType& sample, std::int64_t n) {
  std::vector<std::int64_t> dims{n};
  dims.insert(dims.end(), sample.shape.dims().begin(), sample.shape.dims().end());
  return {Shape(dims), sample.dtype};
}

void check_loss(const Graph& graph, Value result) {
  const NodeId producer = result.id() == kNoValue ? -1 : graph.value(result.id()).producer;
  LOCKSTEP_CHECK(producer >= 0 && graph.nodes()[std::size_t(producer)].op->is_loss(),
                 ConfigError,
                 "model: the loss function must end in one of the builder's losses");
}

/// The passes before differentiation; returns what `value` has become.
ValueId apply_forward_passes(Graph& graph, ValueId value, const BuilderSettings& settings) {
  if (settings.precision == Precision::bf16) value = lower_to_bf16(graph, value, kInputName);
  if (!settings.fuse) return value;
  value = fuse(graph, value, settings.mode == Mode::training, settings.recompute);
  return pad_logits(graph, value, settings.row_multiple);
}

/// Of data with embedded columns: an index that a model takes for a number means nothing.
void check_embedding(const Graph& graph, const data::SampleSpec& samples) {
  if (samples.embedded.empty()) return;
  const bool embeds = std::ranges::any_of(
      graph.nodes(), [](const Node& node) { return node.op->kind() == OpKind::column_embedding; });
  if (embeds) return;
  const data::EmbeddedColumn& column = samples.embedded[0];
  throw ConfigError(fmt::format("model: feature {} of the data is the index of one of {} "
                                "categories, which the model does not embed",
                                column.feature,
                                column.categories),
                    "a model begins with x = nn.column_embedding(x), as the zoo's mlp does; "
                    "TableOptions::one_hot_columns keeps a table's column one-hot");
}

ValueId as_f32(Graph& graph, ValueId value) {
  if (graph.value(value).type.dtype == DType::f32) return value;
  const Node producer = graph.nodes()[std::size_t(graph.value(value).producer)];
  return graph.add_node(
      std::make_shared<ops::Cast>(DType::f32), {value}, producer.path, producer.where)[0];
}

void freeze(Graph& graph, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  const NamePatterns frozen("`freeze`", patterns);
  std::vector<std::string> names;
  bool trains = false;
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    const Parameter& parameter = graph.parameters()[i];
    if (parameter.kind != ParameterKind::trained) continue;
    names.push_back(parameter.name);
    if (frozen.match(parameter.name))
      graph.freeze(int(i));
    else
      trains = true;
  }
  frozen.expect_matches(names);
  LOCKSTEP_CHECK(trains, ConfigError, "`freeze`: nothing is left to train");
}

}  // namespace

Graph trace(const ModelFunction& model,
            const LossFunction& loss,
            const data::SampleSpec& samples,
            const BuilderSettings& settings) {
  Graph graph;
  check_embedded(samples);
  BuilderSettings traced = settings;
  traced.vocabulary = samples.classes;
  traced.embedded = samples.embedded;
  LOCKSTEP_CHECK(samples.input.dtype != DType::i32 || samples.classes > 0,
                 ConfigError,
                 "data: samples of tokens need to say how many different ones there are");
  Builder nn(graph, traced);
  Value x(&graph, graph.add_input(kInputName, batch_of(samples.input, settings.micro_batch)));
  const bool soft = settings.soft_targets && settings.mode == Mode::training;
  if (soft) data::check_mixed(samples);
  const TensorType target_type = soft ? data::soft_target() : samples.target;
  const Value target(&graph,
                     graph.add_input(kTargetName, batch_of(target_type, settings.micro_batch)));
  if (!samples.scale.empty()) x = nn.normalize(x, samples.scale, samples.shift);
  const Value prediction = model(nn, x);
  check_embedding(graph, samples);
  LOCKSTEP_CHECK(samples.classes == 0 || prediction.shape()[-1] == samples.classes,
                 ShapeError,
                 "model: it ends in {}, but the data has {} classes",
                 prediction.type().to_string(),
                 samples.classes);
  const Value result = loss(nn, prediction, target);
  check_loss(graph, result);
  freeze(graph, settings.freeze);
  const ValueId loss_value = apply_forward_passes(graph, result.id(), settings);
  if (settings.mode == Mode::training) {
    differentiate(graph, loss_value);
    if (settings.fuse) {
      fuse_gradient_sum(graph, loss_value);
      fuse_gelu_gradient(graph);
    }
  }
  verify(graph);
  return graph;
}

std::optional<Graph> with_micro_batch(const Graph& traced, std::int64_t micro_batch) {
  Graph graph;
  for (const std::string& note : traced.notes()) graph.add_note(note);
  for (const ValueInfo& info : traced.values()) {
    if (info.role == ValueRole::parameter)
      graph.add_parameter(traced.parameters()[std::size_t(info.index)]);
    if (info.role != ValueRole::input) continue;
    const std::string& name = traced.input_names()[std::size_t(info.index)];
    const bool is_batch = name == kInputName || name == kTargetName;
    graph.add_input(name,
                    is_batch ? batch_of({Shape(info.type.shape.dims().subspan(1)), info.type.dtype},
                                        micro_batch)
                             : info.type);
  }
  try {
    for (const Node& node : traced.nodes()) {
      if (graph.add_node(node.op, node.inputs, node.path, node.where, node.phase) != node.outputs)
        return std::nullopt;
      for (const ValueId output : node.outputs)
        if (const int parameter = traced.value(output).accumulates_into; parameter >= 0)
          graph.accumulate_into(output, parameter);
    }
  } catch (const ShapeError&) {
    return std::nullopt;
  }
  for (const auto& [name, value] : traced.outputs()) graph.add_output(name, value);
  return graph;
}

bool equal_programs(const Graph& a, const Graph& b) {
  const auto equal_nodes = [](const Node& x, const Node& y) {
    return x.op->kind() == y.op->kind() && x.inputs == y.inputs && x.outputs == y.outputs &&
           x.phase == y.phase && x.path == y.path && x.op->attributes() == y.op->attributes();
  };
  const auto equal_values = [](const ValueInfo& x, const ValueInfo& y) {
    return x.type == y.type && x.role == y.role && x.index == y.index && x.producer == y.producer &&
           x.accumulates_into == y.accumulates_into;
  };
  const auto equal_parameters = [](const Parameter& x, const Parameter& y) {
    return x.name == y.name && x.kind == y.kind && x.frozen == y.frozen && x.shape == y.shape;
  };
  return a.input_names() == b.input_names() && a.outputs() == b.outputs() &&
         std::ranges::equal(a.parameters(), b.parameters(), equal_parameters) &&
         std::ranges::equal(a.values(), b.values(), equal_values) &&
         std::ranges::equal(a.nodes(), b.nodes(), equal_nodes);
}

Graph trace_prediction(const ModelFunction& model,
                       const data::SampleSpec& samples,
                       const BuilderSettings& settings) {
  Graph graph;
  check_embedded(samples);
  BuilderSettings evaluation = settings;
  evaluation.mode = Mode::evaluation;
  evaluation.vocabulary = samples.classes;
  evaluation.embedded = samples.embedded;
  Builder nn(graph, evaluation);
  Value x(&graph, graph.add_input(kInputName, batch_of(samples.input, settings.micro_batch)));
  if (!samples.scale.empty()) x = nn.normalize(x, samples.scale, samples.shift);
  const ValueId answer = model(nn, x).id();
  check_embedding(graph, samples);
  const ValueId prediction = apply_forward_passes(graph, answer, evaluation);
  graph.add_output(kPredictionName, as_f32(graph, prediction));
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) graph.freeze(int(i));
  verify(graph);
  return graph;
}

}  // namespace lockstep
