// SPDX-License-Identifier: Apache-2.0
#include "core/nn/builder.h"
#include "core/nn/trace.h"
#include "core/ops/mean_squared_error.h"
#include "core/ops/softmax_cross_entropy.h"

namespace lockstep {

int Builder::metric(const std::string& name) {
  Parameter p;
  p.name = name;
  p.shape = {1};
  p.kind = ParameterKind::metric;
  p.file_layout = {p.shape, {}, p.shape};
  graph_.add_parameter(std::move(p));
  return int(graph_.parameters().size()) - 1;
}

Value Builder::sample_weight() {
  if (sample_weight_ == kNoValue)
    sample_weight_ = graph_.add_input(kSampleWeightName, {{1}, DType::f32});
  return {&graph_, sample_weight_};
}

Value Builder::softmax_cross_entropy(Value logits,
                                     Value labels,
                                     float label_smoothing,
                                     std::optional<std::int32_t> ignore_index,
                                     SourceLoc where) {
  const bool with_gradient = mode() == Mode::training;
  const auto outputs = graph_.add_node(
      std::make_shared<ops::SoftmaxCrossEntropy>(label_smoothing, with_gradient, ignore_index),
      {logits.id(), labels.id(), sample_weight().id()},
      layer_path("", "softmax_cross_entropy"),
      where);
  graph_.accumulate_into(outputs[0], metric("loss"));
  graph_.accumulate_into(outputs[1], metric("correct"));
  if (ignore_index) graph_.accumulate_into(outputs[2], metric("counted"));
  return {&graph_, outputs[0]};
}

Value Builder::mean_squared_error(Value prediction, Value target, SourceLoc where) {
  const auto outputs =
      graph_.add_node(std::make_shared<ops::MeanSquaredError>(mode() == Mode::training),
                      {prediction.id(), target.id(), sample_weight().id()},
                      layer_path("", "mean_squared_error"),
                      where);
  graph_.accumulate_into(outputs[0], metric("loss"));
  return {&graph_, outputs[0]};
}

Value softmax_cross_entropy(Builder& nn, Value logits, Value labels) {
  return nn.softmax_cross_entropy(logits, labels);
}

Value mean_squared_error(Builder& nn, Value prediction, Value target) {
  return nn.mean_squared_error(prediction, target);
}

}  // namespace lockstep
