// SPDX-License-Identifier: Apache-2.0
#include "core/base/check.h"
#include "core/nn/builder.h"
#include "core/nn/trace.h"
#include "core/ops/losses/binary_cross_entropy.h"
#include "core/ops/losses/distillation_loss.h"
#include "core/ops/losses/regression_losses.h"
#include "core/ops/losses/softmax_cross_entropy.h"
#include "lockstep/builder.h"

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
                                     const std::vector<float>& class_weights,
                                     SourceLoc where) {
  const bool with_gradient = mode() == Mode::training;
  const bool distils = settings_->distilled.has_value() && with_gradient;
  std::vector<float> weights = class_weights;
  if (distils) weights = weights_beside_teacher(logits, ignore_index, class_weights);
  const auto outputs =
      graph_.add_node(std::make_shared<ops::SoftmaxCrossEntropy>(
                          label_smoothing, with_gradient, ignore_index, 0, weights),
                      {logits.id(), labels.id(), sample_weight().id()},
                      layer_path("", "softmax_cross_entropy"),
                      where);
  const ValueId loss = distils ? add_distillation(logits, outputs[0], where) : outputs[0];
  graph_.accumulate_into(loss, metric("loss"));
  graph_.accumulate_into(outputs[1], metric("correct"));
  if (ignore_index) graph_.accumulate_into(outputs[2], metric("counted"));
  return {&graph_, loss};
}

std::vector<float> Builder::weights_beside_teacher(Value logits,
                                                   std::optional<std::int32_t> ignore_index,
                                                   std::vector<float> class_weights) const {
  LOCKSTEP_CHECK(logits.shape().rank() == 2 && !ignore_index,
                 ConfigError,
                 "`teacher`: distillation needs logits [N, K] and no `ignore_index`, got {}{}",
                 logits.type().to_string(),
                 ignore_index ? fmt::format(" and `ignore_index` {}", *ignore_index) : "");
  if (class_weights.empty()) class_weights.assign(std::size_t(logits.shape()[1]), 1.0f);
  for (float& weight : class_weights) weight *= 1 - settings_->distilled->alpha;
  return class_weights;
}

ValueId Builder::add_distillation(Value logits, ValueId base, SourceLoc where) {
  const ValueId teacher = graph_.add_input(kTeacherName, {logits.shape(), DType::f32});
  return graph_.add_node(
      std::make_shared<ops::DistillationLoss>(*settings_->distilled, mode() == Mode::training),
      {logits.id(), teacher, sample_weight().id(), base},
      layer_path("", "distillation_loss"),
      where)[0];
}

Value Builder::regression_loss(std::shared_ptr<const Operator> op,
                               Value prediction,
                               Value target,
                               SourceLoc where) {
  const std::string path = layer_path("", name_of(op->kind()).data());
  const auto outputs = graph_.add_node(
      std::move(op), {prediction.id(), target.id(), sample_weight().id()}, path, where);
  graph_.accumulate_into(outputs[0], metric("loss"));
  return {&graph_, outputs[0]};
}

Value Builder::mean_squared_error(Value prediction, Value target, SourceLoc where) {
  return regression_loss(
      std::make_shared<ops::MeanSquaredError>(mode() == Mode::training), prediction, target, where);
}

Value Builder::l1_loss(Value prediction, Value target, SourceLoc where) {
  return regression_loss(
      std::make_shared<ops::L1Loss>(mode() == Mode::training), prediction, target, where);
}

Value Builder::huber_loss(Value prediction, Value target, float delta, SourceLoc where) {
  return regression_loss(
      std::make_shared<ops::HuberLoss>(delta, mode() == Mode::training), prediction, target, where);
}

Value Builder::binary_cross_entropy_with_logits(Value logits, Value target, SourceLoc where) {
  const auto outputs =
      graph_.add_node(std::make_shared<ops::BinaryCrossEntropy>(mode() == Mode::training),
                      {logits.id(), target.id(), sample_weight().id()},
                      layer_path("", "binary_cross_entropy"),
                      where);
  graph_.accumulate_into(outputs[0], metric("loss"));
  graph_.accumulate_into(outputs[1], metric("correct"));
  return {&graph_, outputs[0]};
}

Value softmax_cross_entropy(Builder& nn, Value logits, Value labels) {
  return nn.softmax_cross_entropy(logits, labels);
}

Value mean_squared_error(Builder& nn, Value prediction, Value target) {
  return nn.mean_squared_error(prediction, target);
}

Value l1_loss(Builder& nn, Value prediction, Value target) {
  return nn.l1_loss(prediction, target);
}

Value huber_loss(Builder& nn, Value prediction, Value target) {
  return nn.huber_loss(prediction, target);
}

Value binary_cross_entropy_with_logits(Builder& nn, Value logits, Value target) {
  return nn.binary_cross_entropy_with_logits(logits, target);
}

}  // namespace lockstep
