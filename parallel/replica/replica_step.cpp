// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "core/base/error.h"
#include "core/step/fault_injector.h"
#include "parallel/comm/device_wait.h"
#include "parallel/replica/replica_state.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A planned fault: of the first value that is not 0, where it would change next to nothing.
void flip_a_bit(Backend& device, float* values, std::int64_t elems) {
  constexpr std::uint32_t kBit = 1u << 20;
  for (std::int64_t i = 0; i < elems; ++i) {
    std::uint32_t bits = 0;
    device.copy_to_host(&bits, values + i, sizeof bits);
    if (bits << 1 == 0) continue;
    bits ^= kBit;
    return device.copy_to_device(values + i, &bits, sizeof bits);
  }
}

}  // namespace

std::span<const StepResult> ReplicaState::train_step(const Schedule& schedule,
                                                     data::Loader& loader,
                                                     std::int64_t step,
                                                     float lr) {
  StepSegment segment{.schedule = &schedule, .step = step, .lr = lr};
  segment.state = {.seed = options.seed,
                   .step = std::uint64_t(step),
                   .counters = counters.on_device(),
                   .group = group_ ? &step_group_ : nullptr};
  begin_step(schedule, step, lr);
  const bool apart = exchanges_apart(schedule);
  timer_.start();
  for (const ShardWork& shard : schedule.work) {
    const bool last_shard = &shard == &schedule.work.back();
    segment.shard = &shard;
    for (const MicroBatch& micro_batch : shard.micro_batches) {
      const bool last = &micro_batch == &shard.micro_batches.back();
      segment.program = &programs.training(micro_batch.samples);
      segment.state.accumulate = &micro_batch != &shard.micro_batches.front();
      segment.state.first_sample = std::uint64_t(micro_batch.first_sample);
      segment.ends_shard = last && !last_shard;
      segment.ends_step = last && last_shard && !apart;
      load(*segment.program, loader, segment.state.first_sample);
      if (micro_batch.samples == batch.micro_batch) {
        times.whole_loading += loading_;
        ++times.whole_loaded;
      }
      times.data += fetching_;
      times.copy += loading_ - fetching_;
      times.device_wait += holding_up_;
      run_segment(segment);
      ++segment.round;
    }
  }
  if (schedule.work.empty()) send_counters();
  segment.ends_shard = false;
  if (batch.cluster > 1)
    join_missing_rounds(schedule, [&](const BoundProgram& program, int round) {
      segment.program = &program;
      segment.state.accumulate = true;
      segment.round = round;
      run_segment(segment);
    });
  if (apart) {
    segment.program = nullptr;
    segment.round = schedule.rounds;
    segment.ends_step = true;
    run_segment(segment);
  }
  device_timer.end_step();
  const std::span<const StepResult> known = [&] {
    const DeviceWait waiting(context);
    return outcomes.push(step, schedule.samples);
  }();
  context.communicator().require_healthy();
  times.device_wait += timer_.lap();
  if (profiler) profiler->end_step();
  return known;
}

void ReplicaState::begin_step(const Schedule& schedule, std::int64_t step, float lr) {
  context.position().set_step(step + 1);
  if (profiler) profiler->begin_step(step);
  set_sample_weight(schedule);
  programs.packed().refresh_rounded();  // so that no segment has to: see Note [Step graphs]
  play_nan(step);
  if (checks_) search_.begin();
  counters.begin_step(optimizer.counters(step, lr));
  exchange.begin_step(schedule);
  overlaps_ =
      options.overlap == Overlap::on && !(exchange.in_stream_order() && rounds_differ(schedule));
  const bool whole = schedule.samples == batch.global_batch;
  device_timer.begin_step(step, whole);
  // Short batches say little of the noise, and may have shards that are absent.
  shard_norms.begin_step(step, whole && schedule.shards >= 2);
  adds_norms_ = shard_norms.measures() && !schedule.work.empty();
  ++steps_;
  if (device_timer.was_asked() || shard_norms.measures()) ++observed_steps_;
}

int ReplicaState::own_rounds(const Schedule& schedule) {
  std::size_t rounds = 0;
  for (const ShardWork& shard : schedule.work) rounds += shard.micro_batches.size();
  return int(rounds);
}

bool ReplicaState::rounds_differ(const Schedule& schedule) const {
  const std::int64_t micro_batches = (schedule.samples + batch.micro_batch - 1) / batch.micro_batch;
  return micro_batches % batch.cluster != 0;
}

// In stream order a rank's collectives begin in the order in which it asks for them. A rank that
// joins rounds of its batch-norm group starts its exchange behind them: so must the others of its
// group then, or each would wait for what the other asks for next.
bool ReplicaState::exchanges_apart(const Schedule& schedule) const {
  if (schedule.work.empty()) return true;
  if (batch.cluster == 1) return false;
  return exchange.in_stream_order() ? rounds_differ(schedule)
                                    : own_rounds(schedule) < schedule.rounds;
}

void ReplicaState::launch_eagerly(const StepSegment& segment) {
  if (segment.program != nullptr) {
    const double exchanged = exchanging_;
    const double computing = run(*segment.program->program, segment.state, segment.ends_step);
    const bool joins = segment.program->samples == 0;
    if (checks_) end_round(joins ? -1 : std::int64_t(segment.state.first_sample));
    if (segment.program->samples == batch.micro_batch && capture_ == nullptr) {
      times.whole_compute += computing - (exchanging_ - exchanged);
      ++times.whole_computed;
    }
  } else {
    start_all_buckets();
    device_timer.mark(DevicePart::backward);
    times.backward += timer_.lap();
  }
  if (segment.ends_shard) finish_shard(segment);
  if (!segment.ends_step) return;
  if (adds_norms_) end_shard(*segment.shard, *segment.schedule);
  update(segment);
}

double ReplicaState::run(Program& program, const RunState& state, bool exchange_after) {
  context.position().enter(Phase::forward);
  program.run_forward(state);
  device_timer.mark(DevicePart::forward);
  const double forward = timer_.lap();
  context.position().enter(Phase::backward);
  if (exchange_after && overlaps_) {
    program.run_backward(state, *this);
  } else {
    program.run_backward(state);
    if (exchange_after) start_all_buckets();
  }
  device_timer.mark(DevicePart::backward);
  const double backward = timer_.lap();
  times.forward += forward;
  times.backward += backward;
  return forward + backward;
}

void ReplicaState::end_shard(const ShardWork& shard, const Schedule& schedule) {
  std::int64_t samples = 0;
  for (const MicroBatch& micro_batch : shard.micro_batches) samples += micro_batch.samples;
  shard_norms.end_shard(shard.shard, samples, schedule.samples);
}

void ReplicaState::start_bucket(int bucket) {
  by_host([this, bucket] { start_exchange(bucket); });
}

void ReplicaState::start_exchange(int bucket) {
  if (adds_norms_) shard_norms.add_bucket(bucket);
  if (ranges_)
    bucket_ranges_[std::size_t(bucket)] = ranges_->start(bucket_names_[std::size_t(bucket)]);
  const auto begin = Clock::now();
  if (profiler) bucket_start_[std::size_t(bucket)] = begin;
  const DeviceScope scope(profiler.get(), profiler ? bucket_work_[std::size_t(bucket)] : -1);
  exchange.start_bucket(bucket);
  exchanging_ += seconds_since(begin);
}

void ReplicaState::between_kernels() {
  if (capture_ == nullptr) move_exchange();
}

void ReplicaState::move_exchange() {
  if (!exchange.in_flight()) return;
  const auto begin = Clock::now();
  const DeviceScope scope(profiler.get(), moving_work_);
  exchange.progress();
  exchanging_ += seconds_since(begin);
}

void ReplicaState::start_all_buckets() {
  for (int b = 0; b < exchange.bucket_count(); ++b) start_bucket(b);
}

void ReplicaState::finish_shard(const StepSegment& segment) {
  if (adds_norms_) {
    for (int b = 0; b < exchange.bucket_count(); ++b) shard_norms.add_bucket(b);
    end_shard(*segment.shard, *segment.schedule);
  }
  by_host([this] { exchange.finish_shard(); });
  device_timer.mark(DevicePart::backward);
  times.backward += timer_.lap();
}

void ReplicaState::finish_bucket(int bucket) {
  const auto b = std::size_t(bucket);
  const auto begin = profiler ? Profiler::Clock::now() : Profiler::Clock::time_point();
  {
    const DeviceScope scope(profiler.get(), profiler ? bucket_work_[b] : -1);
    exchange.finish_bucket(bucket);
  }
  if (ranges_) ranges_->end(bucket_ranges_[b]);
  if (!profiler) return;
  const auto end = Profiler::Clock::now();
  profiler->record(wait_work_, begin, end);
  profiler->record(bucket_work_[b], bucket_start_[b], end);
}

void ReplicaState::update(const StepSegment& segment) {
  const int buckets = exchange.bucket_count();
  context.position().enter(Phase::exchange);
  by_host([this, buckets] {
    for (int b = 0; b < buckets; ++b) finish_bucket(b);
  });
  device_timer.mark(DevicePart::exchange);
  if (take_fault(FaultKind::flip_gradient) != nullptr)
    flip_a_bit(context.backend(),
               programs.gradients() + metrics.range.offset + metrics.range.elems,
               programs.space().buckets[0].elems - metrics.range.elems);
  context.position().enter(Phase::optimizer);
  if (checks_always_) stop_where_found(*segment.schedule, segment.step);
  timer_.start();
  const auto begin = timer_.at();
  if (profiler) profiler->enter(optimizer_work_);
  StepOutcome* const outcome = outcomes.outcome();
  optimizer.conclude({.tensors = {},
                      .loss = metrics.loss,
                      .correct = metrics.correct,
                      .counted = metrics.counted,
                      .clip_norm = options.clip_norm,
                      .previous = options.on_nonfinite == OnNonfinite::stop ? outcome : nullptr},
                     outcome);
  for (int b = 0; b < buckets; ++b)
    optimizer.update_bucket(b, segment.step, segment.lr, outcome, segment.state.counters);
  optimizer.update_running_statistics(outcome);
  programs.packed().invalidate_but_rounded();
  times.optimizer += timer_.lap();
  if (!profiler) return;
  profiler->leave();
  profiler->record(optimizer_work_, begin, timer_.at());
}

}  // namespace lockstep
