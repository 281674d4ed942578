// SPDX-License-Identifier: Apache-2.0
#include "core/nn/trace.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/text/name_patterns.h"
#include "core/data/augment/mix.h"
#include "core/data/embedded_column.h"
#include "core/grad/differentiate.h"
#include "core/nn/builder.h"
#include "core/ops/add.h"
#include "core/ops/cast.h"
#include "core/ops/narrow.h"
#include "core/ops/reshape.h"
#include "core/ops/scale.h"
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

/// Images of an evaluation, with their mirror images after them.
bool evaluates_mirrors(const BuilderSettings& settings) {
  return settings.mirrors && settings.mode == Mode::evaluation;
}

std::int64_t input_samples(const BuilderSettings& settings) {
  return (evaluates_mirrors(settings) ? 2 : 1) * settings.micro_batch;
}

/// The means of rows i and n + i of a prediction [2 n, K].
Value mean_with_mirrored(Graph& graph, Value prediction, std::int64_t n) {
  LOCKSTEP_CHECK(prediction.shape().rank() == 2,
                 ShapeError,
                 "`tta` flip: expected a model that ends in [N, K], got {}",
                 prediction.type().to_string());
  const std::int64_t width = prediction.shape()[1];
  const auto add = [&](std::shared_ptr<const Operator> op, std::vector<ValueId> inputs) {
    return graph.add_node(std::move(op), std::move(inputs), "tta", SourceLoc::current())[0];
  };
  const ValueId both =
      add(std::make_shared<ops::Reshape>(Shape{2 * n, width}, 1), {prediction.id()});
  const ValueId own = add(std::make_shared<ops::Narrow>(0, n), {both});
  const ValueId mirrored = add(std::make_shared<ops::Narrow>(n, n), {both});
  const ValueId sum = add(std::make_shared<ops::Add>(), {own, mirrored});
  const ValueId mean = add(std::make_shared<ops::Scale>(0.5f), {sum});
  return {&graph, add(std::make_shared<ops::Reshape>(Shape{width}, n), {mean})};
}

/// The prediction of the model for `x`, one for each sample.
Value predict(const ModelFunction& model,
              Builder& nn,
              Graph& graph,
              Value x,
              const BuilderSettings& settings) {
  const Value prediction = model(nn, x);
  return evaluates_mirrors(settings) ? mean_with_mirrored(graph, prediction, settings.micro_batch)
                                     : prediction;
}

void check_loss(const Graph& graph, Value result) {
  const NodeId producer = result.id() == kNoValue ? -1 : graph.value(result.id()).producer;
  LOCKSTEP_CHECK(producer >= 0 && graph.nodes()[std::size_t(producer)].op->is_loss(),
                 ConfigError,
                 "model: the loss function must end in one of the builder's losses");
}

/// The teacher must have been asked.
void check_distillation(const Graph& graph, const BuilderSettings& settings) {
  if (!settings.distilled || settings.mode != Mode::training) return;
  LOCKSTEP_CHECK(std::ranges::find(graph.input_names(), kTeacherName) != graph.input_names().end(),
                 ConfigError,
                 "`teacher`: distillation needs classes and a loss of softmax_cross_entropy");
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

/// Inputs of a sample.
std::int64_t views_of(const Graph& traced) {
  std::int64_t inputs = 0, samples = 0;
  for (std::size_t i = 0; i < traced.input_names().size(); ++i) {
    const Shape& shape = traced.value(traced.input_value(int(i))).type.shape;
    if (traced.input_names()[i] == kInputName) inputs = shape[0];
    if (traced.input_names()[i] == kTargetName) samples = shape[0];
  }
  return samples > 0 ? inputs / samples : 1;
}

std::string size_text(const data::SampleSpec& samples) {
  const Shape& shape = samples.input.shape;
  return shape.rank() == 3 ? fmt::format("{}x{}", shape[1], shape[0]) : samples.input.to_string();
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
  traced.normalises_input = !samples.scale.empty();
  LOCKSTEP_CHECK(samples.input.dtype != DType::i32 || samples.classes > 0,
                 ConfigError,
                 "data: samples of tokens need to say how many different ones there are");
  Builder nn(graph, traced);
  Value x(&graph, graph.add_input(kInputName, batch_of(samples.input, input_samples(settings))));
  const bool soft = settings.soft_targets && settings.mode == Mode::training;
  if (soft) data::check_mixed(samples);
  const TensorType target_type = soft ? data::soft_target() : samples.target;
  const Value target(&graph,
                     graph.add_input(kTargetName, batch_of(target_type, settings.micro_batch)));
  if (!samples.scale.empty()) x = nn.normalize(x, samples.scale, samples.shift);
  const Value prediction = predict(model, nn, graph, x, settings);
  check_embedding(graph, samples);
  LOCKSTEP_CHECK(samples.classes == 0 || prediction.shape()[-1] == samples.classes,
                 ShapeError,
                 "model: it ends in {}, but the data has {} classes",
                 prediction.type().to_string(),
                 samples.classes);
  const Value result = loss(nn, prediction, target);
  check_loss(graph, result);
  check_distillation(graph, settings);
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
  const std::int64_t views = views_of(traced);
  for (const std::string& note : traced.notes()) graph.add_note(note);
  for (const ValueInfo& info : traced.values()) {
    if (info.role == ValueRole::parameter)
      graph.add_parameter(traced.parameters()[std::size_t(info.index)]);
    if (info.role != ValueRole::input) continue;
    const std::string& name = traced.input_names()[std::size_t(info.index)];
    const bool is_input = name == kInputName,
               is_batch = is_input || name == kTargetName || name == kTeacherName;
    graph.add_input(name,
                    is_batch ? batch_of({Shape(info.type.shape.dims().subspan(1)), info.type.dtype},
                                        is_input ? views * micro_batch : micro_batch)
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
  evaluation.normalises_input = !samples.scale.empty();
  Builder nn(graph, evaluation);
  Value x(&graph, graph.add_input(kInputName, batch_of(samples.input, input_samples(evaluation))));
  if (!samples.scale.empty()) x = nn.normalize(x, samples.scale, samples.shift);
  const ValueId answer = predict(model, nn, graph, x, evaluation).id();
  check_embedding(graph, samples);
  const ValueId prediction = apply_forward_passes(graph, answer, evaluation);
  graph.add_output(kPredictionName, as_f32(graph, prediction));
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) graph.freeze(int(i));
  verify(graph);
  return graph;
}

void expect_same_parameters(const ModelFunction& model,
                            const data::SampleSpec& samples,
                            const data::SampleSpec& other,
                            const char* setting) {
  const Graph first = trace_prediction(model, samples, {}),
              second = trace_prediction(model, other, {});
  const std::vector<Parameter>&a = first.parameters(), &b = second.parameters();
  const std::string size = size_text(other);
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i].name == b[i].name && a[i].shape != b[i].shape)
      throw ConfigError(
          fmt::format("{}: for images of {} the model's {} is {}, and {} for those of {}",
                      setting,
                      size,
                      a[i].name,
                      b[i].shape.to_string(),
                      a[i].shape.to_string(),
                      size_text(samples)),
          fmt::format("leave {} out, or choose a model that takes images of any size, as resnet18",
                      setting));
  LOCKSTEP_CHECK(std::ranges::equal(a, b, {}, &Parameter::name, &Parameter::name),
                 ConfigError,
                 "{}: the model has other parameters for images of {} than for those of {}",
                 setting,
                 size,
                 size_text(samples));
}

}  // namespace lockstep
