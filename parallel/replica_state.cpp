// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica_state.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/io/load_weights.h"
#include "core/nn/initialise.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// Flat offset of the metric `name`, -1 where the model has none.
std::int64_t metric_offset(const Graph& graph, const FlatSpace& space, const char* name) {
  for (std::size_t i = 0; i < graph.parameters().size(); ++i)
    if (graph.parameters()[i].kind == ParameterKind::metric && graph.parameters()[i].name == name)
      return space.of(int(i)).offset;
  return -1;
}

int own_rounds(const Schedule& schedule) {
  std::size_t rounds = 0;
  for (const ShardWork& shard : schedule.work) rounds += shard.micro_batches.size();
  return int(rounds);
}

}  // namespace

MetricPlaces::MetricPlaces(const Graph& graph, const FlatSpace& space)
    : loss(metric_offset(graph, space, "loss")), correct(metric_offset(graph, space, "correct")) {
  LOCKSTEP_ASSERT(loss >= 0);  // trace() refuses a model without
  const std::int64_t first = correct < 0 ? loss : std::min(loss, correct);
  range = {first, std::max(loss, correct) - first + kSegmentAlignment};
}

Replica::State::State(RankContext& rank_context,
                      const ModelFunction& model,
                      const LossFunction& loss,
                      const data::SampleSpec& samples,
                      const TrainOptions& train_options,
                      std::vector<std::int64_t> tail_sizes)
    : context(rank_context),
      options(train_options),
      batch(plan_batch(train_options, rank_context.size())),
      programs(context.backend(), model, loss, samples, options, batch, std::move(tail_sizes)),
      metrics(programs.graph(), programs.space()),
      optimizer(context.backend(),
                programs.graph(),
                programs.space(),
                options,
                programs.parameters(),
                programs.gradients()),
      exchange(context.backend(),
               context.communicator(),
               options.reduction,
               programs.space().buckets,
               programs.gradients(),
               batch.shards),
      evaluation_exchange(context.backend(),
                          context.communicator(),
                          options.reduction,
                          {metrics.range},
                          programs.gradients(),
                          evaluation_shards(batch)),
      input_bytes_(samples.input.bytes()),
      target_bytes_(samples.target.bytes()),
      classes_(samples.classes) {
  if (batch.cluster > 1)
    group_ = context.communicator().split(context.rank() / batch.cluster,
                                          context.rank() % batch.cluster);
  initialise_parameters();
  if (env().dump && context.rank() == 0) programs.dump(*env().dump);
}

StepResult Replica::State::train_step(const Schedule& schedule,
                                      data::Loader& loader,
                                      std::int64_t step,
                                      float lr,
                                      bool want_grad_norm) {
  RunState state{.seed = options.seed, .step = std::uint64_t(step), .group = group_.get()};
  sample_weight_ = float(1.0 / double(schedule.samples));
  exchange.begin_step(schedule);
  const bool joins_later = own_rounds(schedule) < schedule.rounds && batch.cluster > 1;
  for (std::size_t s = 0; s < schedule.work.size(); ++s) {
    const ShardWork& shard = schedule.work[s];
    const bool last_shard = s + 1 == schedule.work.size();
    for (std::size_t m = 0; m < shard.micro_batches.size(); ++m) {
      state.accumulate = m > 0;
      state.first_sample = std::uint64_t(shard.micro_batches[m].first_sample);
      const BoundProgram& program = programs.training(shard.micro_batches[m].samples);
      load(program, loader);
      const bool last = last_shard && m + 1 == shard.micro_batches.size();
      run(*program.program, state, last && !joins_later);
    }
    if (!last_shard) exchange.finish_shard();
  }
  if (joins_later) join_missing_rounds(schedule, state);
  if (joins_later || schedule.work.empty()) start_all_buckets();
  return update(schedule, step, lr, want_grad_norm);
}

StepResult Replica::State::evaluate(const Schedule& schedule, data::Loader& loader) {
  RunState state{.seed = options.seed};
  sample_weight_ = float(1.0 / double(schedule.samples));
  evaluation_exchange.begin_step(schedule);
  for (std::size_t s = 0; s < schedule.work.size(); ++s) {
    state.accumulate = false;
    for (const MicroBatch& micro_batch : schedule.work[s].micro_batches) {
      const BoundProgram& program = programs.evaluation(micro_batch.samples);
      load(program, loader);
      program.program->run_forward(state);
      state.accumulate = true;
    }
    if (s + 1 < schedule.work.size()) evaluation_exchange.finish_shard();
  }
  evaluation_exchange.start_bucket(0);
  evaluation_exchange.finish_bucket(0);
  StepResult result;
  read_metrics(result);
  return result;
}

void Replica::State::initialise_parameters() {
  const Graph& graph = programs.graph();
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    const std::vector<float> values = initial_values(graph.parameters()[i], options.seed);
    context.backend().copy_to_device(programs.parameters() + programs.space().of(int(i)).offset,
                                     values.data(),
                                     values.size() * sizeof(float));
  }
  load_initial_weights();
  programs.packed().invalidate();
}

void Replica::State::load_initial_weights() {
  if (options.init.empty()) return;
  const std::vector<Parameter>& all = programs.graph().parameters();
  for (const io::NamedTensor& tensor :
       io::load_weights(options.init, all, NamePatterns("init-skip", options.init_skip))) {
    const auto at = std::ranges::find(all, tensor.parameter.name, &Parameter::name) - all.begin();
    context.backend().copy_to_device(programs.parameters() + programs.space().of(int(at)).offset,
                                     tensor.values.data(),
                                     tensor.values.size() * sizeof(float));
  }
}

void Replica::State::load(const BoundProgram& program, data::Loader& loader) {
  const data::LoadedBatch loaded = loader.next();
  Backend& device = context.backend();
  const auto n = std::size_t(loaded.samples);
  check_labels(loaded);
  device.copy_to_device(program.x, loaded.input, n * input_bytes_);
  device.copy_to_device(program.target, loaded.target, n * target_bytes_);
  device.copy_to_device(program.sample_weight, &sample_weight_, sizeof(float));
}

// A label out of range would make the loss write beyond its row.
void Replica::State::check_labels(const data::LoadedBatch& loaded) const {
  if (classes_ == 0) return;
  const auto* labels = reinterpret_cast<const std::int32_t*>(loaded.target);
  for (std::int64_t i = 0; i < loaded.samples; ++i)
    LOCKSTEP_CHECK(labels[i] >= 0 && labels[i] < classes_,
                   DataError,
                   "data: label {} is not one of the {} classes, 0 to {}",
                   labels[i],
                   classes_,
                   classes_ - 1);
}

void Replica::State::run(Program& program, const RunState& state, bool exchange_after) {
  const auto begin = Clock::now();
  program.run_forward(state);
  const auto middle = Clock::now();
  if (exchange_after && options.overlap == Overlap::on) {
    program.run_backward(state, *this);
  } else {
    program.run_backward(state);
    if (exchange_after) start_all_buckets();
  }
  times.forward += seconds_between(begin, middle);
  times.backward += seconds_between(middle, Clock::now());
}

void Replica::State::start_all_buckets() {
  for (int b = 0; b < exchange.bucket_count(); ++b) exchange.start_bucket(b);
}

// Ranks of a batch-norm group run the same number of micro-batches: one that has fewer takes part
// in the collectives with no samples and adds nothing. It starts its exchange afterwards, since
// those rounds still write (zero more) into the gradients that would be on their way.
void Replica::State::join_missing_rounds(const Schedule& schedule, RunState& state) {
  state.accumulate = true;
  const BoundProgram& program = programs.training(0);
  for (int round = own_rounds(schedule); round < schedule.rounds; ++round) {
    context.backend().copy_to_device(program.sample_weight, &sample_weight_, sizeof(float));
    run(*program.program, state, false);
  }
}

StepResult Replica::State::update(const Schedule& schedule,
                                  std::int64_t step,
                                  float lr,
                                  bool want_grad_norm) {
  StepResult result;
  const int buckets = exchange.bucket_count();
  for (int b = 0; b < buckets; ++b) exchange.finish_bucket(b);
  const auto begin = Clock::now();
  read_metrics(result);
  LOCKSTEP_CHECK(std::isfinite(result.loss),
                 NonFiniteError,
                 "training: the loss of step {} ({} samples) is {}",
                 step + 1,
                 schedule.samples,
                 result.loss);
  const bool clips = options.clip_norm > 0.0f;
  if (clips || want_grad_norm) {
    result.grad_norm = optimizer.gradient_norm();
    LOCKSTEP_CHECK(std::isfinite(result.grad_norm),
                   NonFiniteError,
                   "training: the gradient norm of step {} is {}",
                   step + 1,
                   result.grad_norm);
  }
  const float scale =
      clips ? OptimizerStep::clip_factor(result.grad_norm, options.clip_norm) : 1.0f;
  for (int b = 0; b < buckets; ++b) optimizer.update_bucket(b, step, lr, scale);
  optimizer.update_running_statistics();
  programs.packed().invalidate();
  times.optimizer += seconds_between(begin, Clock::now());
  return result;
}

void Replica::State::read_metrics(StepResult& result) {
  float loss = 0, correct = 0;
  context.backend().copy_to_host(&loss, programs.gradients() + metrics.loss, sizeof(float));
  result.loss = loss;
  if (metrics.correct < 0) return;
  context.backend().copy_to_host(&correct, programs.gradients() + metrics.correct, sizeof(float));
  result.accuracy = correct;
}

}  // namespace lockstep
