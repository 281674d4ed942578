// SPDX-License-Identifier: Apache-2.0
#include "core/ops/norms/batch_norm.h"

#include "core/base/check.h"
#include "core/nn/builder.h"
#include "core/ops/all_gather.h"

namespace lockstep {

int Builder::running_statistic(const std::string& name,
                               std::int64_t channels,
                               float init,
                               float momentum) {
  Parameter p;
  p.name = name;
  p.shape = {channels};
  p.kind = ParameterKind::running_statistic;
  p.init = {Init::Kind::constant, init};
  p.file_layout = {p.shape, {}, p.shape};
  p.momentum = momentum;
  graph_.add_parameter(std::move(p));
  return int(graph_.parameters().size()) - 1;
}

Value Builder::batch_norm(Value x, const BatchNormOptions& o, SourceLoc where) {
  LOCKSTEP_CHECK(
      x.shape().rank() == 2 || x.shape().rank() == 4,
      ShapeError,
      "batch_norm: expected an input [N, C] or [N, H, W, C], got {} (asked for at {}:{})",
      x.type().to_string(),
      where.file,
      where.line);
  const std::string path = layer_path(o.name, "batch_norm");
  const std::int64_t channels = x.shape()[-1];
  const Value gamma =
      norm_or_bias(path + ".weight", {channels}, {Init::Kind::constant, o.init_weight});
  if (!o.trains_weight) graph_.freeze(int(graph_.parameters().size()) - 1);
  const Value beta = norm_or_bias(path + ".bias", {channels}, {Init::Kind::constant, 0.0f});
  const int mean = running_statistic(path + ".running_mean", channels, 0.0f, o.momentum);
  const int variance = running_statistic(path + ".running_var", channels, 1.0f, o.momentum);
  // The weight is declared in both modes, so that training and evaluation share one flat space.
  const int weight = metric(path + ".statistics_weight");
  graph_.set_weight_parameter(mean, weight);
  graph_.set_weight_parameter(variance, weight);
  if (mode() == Mode::training)
    return batch_norm_training(x, o, path, gamma, beta, mean, variance, where);
  return keep_layout(x,
                     apply(std::make_shared<ops::BatchNormInference>(o.eps),
                           {x.id(),
                            gamma.id(),
                            beta.id(),
                            graph_.parameter_value(mean),
                            graph_.parameter_value(variance)},
                           path,
                           where));
}

Value Builder::batch_norm_training(Value x,
                                   const BatchNormOptions& o,
                                   const std::string& path,
                                   Value gamma,
                                   Value beta,
                                   int mean,
                                   int variance,
                                   SourceLoc where) {
  const bool across_ranks = settings_->group_ranks > 1;
  const std::int64_t group =
      across_ranks || settings_->batch_norm.kind != BatchNormPolicy::Kind::group
          ? 0
          : settings_->batch_norm.group;
  Value moments = apply(std::make_shared<ops::BatchNormMoments>(group), {x.id()}, path, where);
  if (across_ranks)
    moments = apply(
        std::make_shared<ops::AllGather>(settings_->group_ranks), {moments.id()}, path, where);
  const auto outputs = graph_.add_node(std::make_shared<ops::BatchNormNormalize>(group, o.eps),
                                       {x.id(),
                                        gamma.id(),
                                        beta.id(),
                                        moments.id(),
                                        graph_.parameter_value(mean),
                                        graph_.parameter_value(variance),
                                        sample_weight().id()},
                                       path,
                                       where);
  graph_.accumulate_into(outputs[2], mean);
  graph_.accumulate_into(outputs[3], variance);
  graph_.accumulate_into(outputs[4], graph_.parameters()[std::size_t(mean)].weight_parameter);
  return keep_layout(x, {&graph_, outputs[0]});
}

}  // namespace lockstep
