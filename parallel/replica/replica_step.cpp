// SPDX-License-Identifier: Apache-2.0
// A training step: segments, each a plan of parts that run eagerly, are captured or are replayed,
// as Note [Step graphs] in core/step/step_graphs.h says.
#include <algorithm>
#include <fmt/format.h>

#include "core/base/check.h"
#include "core/exec/agreement.h"
#include "core/step/fault_injector.h"
#include "lockstep/error.h"
#include "parallel/comm/device_wait.h"
#include "parallel/replica/replica_state.h"

namespace lockstep {
namespace {

Phase phase_of(StepWork work) {
  switch (work) {
    case StepWork::forward:
      return Phase::forward;
    case StepWork::backward:
    case StepWork::start_bucket:
    case StepWork::reuse_gradients:
    case StepWork::sum_shard:
      return Phase::backward;
    case StepWork::finish_buckets:
      return Phase::exchange;
    case StepWork::update:
      return Phase::optimizer;
  }
  throw InternalError("unknown part of a step");
}

/// Parts of a phase that follow each other are timed together, but for sums of shards.
bool timed_together(StepWork a, StepWork b) {
  return a == b || (phase_of(a) == phase_of(b) && b != StepWork::sum_shard);
}

}  // namespace

void ReplicaState::expect_trainable(const Schedule& schedule) const {
  const std::int64_t micro_batches = (schedule.samples - 1) / batch.micro_batch + 1;
  if (!programs.compiled().gradients().divided() || micro_batches <= schedule.shards) return;
  throw ConfigError(
      fmt::format("replica: a batch of {} samples has {} micro-batches in {} shards, and `shard` "
                  "gradients has divided those of a shard for one micro-batch in each",
                  schedule.samples,
                  micro_batches,
                  schedule.shards),
      fmt::format("train with at most the `global_batch` of {} samples in a step",
                  batch.global_batch));
}

std::span<const StepResult> ReplicaState::train_step(const Schedule& schedule,
                                                     data::Loader& loader,
                                                     std::int64_t step,
                                                     float lr) {
  expect_trainable(schedule);
  FaultInjector* const injector = fault_injector();
  if (injector != nullptr && injector->take(FaultKind::flip_weight, step + 1) != nullptr)
    flip_bit(0, 0, 20);
  Segment segment(*this);
  segment.schedule = &schedule;
  segment.step = step;
  segment.lr = lr;
  segment.state = {.seed = options.seed,
                   .step = std::uint64_t(step),
                   .counters = parts.counters.on_device(),
                   .group = group_.get()};
  begin_step(segment);
  const bool apart = exchanges_apart(schedule);
  timer_.start();
  int turn = 0;
  for (const ShardWork& shard : schedule.work) {
    const bool ends_turn = schedule.turns > 1 || &shard == &schedule.work.back();
    const bool last_turn = turn + 1 == schedule.turns;
    segment.shard = &shard;
    for (const MicroBatch& micro_batch : shard.micro_batches) {
      const bool last = &micro_batch == &shard.micro_batches.back();
      segment.program = &programs.training(micro_batch.samples);
      segment.state.accumulate = &micro_batch != &shard.micro_batches.front();
      segment.state.first_sample = std::uint64_t(micro_batch.first_sample);
      segment.ends_shard = last && !ends_turn;
      segment.exchanges = last && ends_turn && !(last_turn && apart);
      segment.ends_step = segment.exchanges && last_turn;
      load(*segment.program, loader, segment.state.first_sample);
      if (micro_batch.samples == batch.micro_batch) {
        times_.whole_loading += upload_.loading;
        ++times_.whole_loaded;
      }
      times_.data += upload_.fetching;
      times_.copy += upload_.loading - upload_.fetching;
      times_.device_wait += upload_.device_wait;
      times_.forward += upload_.teaching;
      run_segment(segment);
      ++segment.round;
    }
    if (segment.exchanges && !last_turn) {
      parts.exchange.next_turn();
      ++turn;
    }
  }
  if (schedule.work.empty()) send_counters();
  segment.ends_shard = segment.exchanges = false;
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
    segment.exchanges = segment.ends_step = true;
    segment.adds_norms &= own_turns(schedule) == schedule.turns;
    run_segment(segment);
  }
  device_timer.end_step();
  const std::span<const StepResult> known = [&] {
    const DeviceWait waiting(context);
    return parts.outcomes.push(step, schedule.samples);
  }();
  context.communicator().require_healthy();
  times_.device_wait += timer_.lap();
  if (profiler) profiler->end_step();
  return known;
}

void ReplicaState::begin_step(Segment& segment) {
  const Schedule& schedule = *segment.schedule;
  const std::int64_t step = segment.step;
  context.position().set_step(step + 1);
  if (profiler) profiler->begin_step(step);
  set_sample_weight(schedule);
  programs.packed().refresh_rounded();  // so that segments need not: see Note [Step graphs]
  inject_nan(step);
  if (checks_.now) checks_.locator.begin();
  StepCounters counters = parts.optimizer.counters(step, segment.lr);
  counters.average_rate = parts.average.rate(step);
  parts.counters.begin_step(counters);
  parts.exchange.begin_step(schedule);
  segment.overlaps = options.overlap == Overlap::on &&
                     !(parts.exchange.in_stream_order() && rounds_differ(schedule));
  const bool whole = schedule.samples == batch.global_batch;
  device_timer.begin_step(step, whole);
  // A short batch tells little about the noise, and may lack shards.
  parts.shard_norms.begin_step(step, whole && schedule.shards >= 2);
  segment.adds_norms = parts.shard_norms.measures() && !schedule.work.empty();
  ++steps_;
  if (device_timer.was_asked() || parts.shard_norms.measures()) ++observed_steps_;
}

int ReplicaState::own_rounds(const Schedule& schedule) {
  std::size_t rounds = 0;
  for (const ShardWork& shard : schedule.work) rounds += shard.micro_batches.size();
  return int(rounds);
}

/// In which this rank has shards.
int ReplicaState::own_turns(const Schedule& schedule) {
  return std::min(schedule.turns, int(schedule.work.size()));
}

bool ReplicaState::rounds_differ(const Schedule& schedule) const {
  const std::int64_t micro_batches = (schedule.samples + batch.micro_batch - 1) / batch.micro_batch;
  return micro_batches % batch.cluster != 0;
}

// Stream-ordered collectives of a rank begin in the order in which it enqueues them. A rank that
// joins rounds of its batch-norm group starts its exchange after them. So must the other ranks of
// its group, or two ranks would wait for each other in different collectives.
bool ReplicaState::exchanges_apart(const Schedule& schedule) const {
  if (own_turns(schedule) < schedule.turns) return true;
  if (batch.cluster == 1) return false;
  return parts.exchange.in_stream_order() ? rounds_differ(schedule)
                                          : own_rounds(schedule) < schedule.rounds;
}

const StepPlan& ReplicaState::plan(const Segment& segment) {
  const bool by_host = !captures_collectives_;
  const bool overlaps = segment.program != nullptr && segment.exchanges && segment.overlaps;
  // Other segments would not wait for a bucket before kernels write where it lies.
  LOCKSTEP_ASSERT(segment.program == nullptr || !programs.compiled().gradients().divided() ||
                  (overlaps && !segment.state.accumulate));
  const PlanInputs inputs{
      .program = segment.program == nullptr ? nullptr : segment.program->program,
      .watched = segment.program != nullptr && segment.program->program->is_watched(),
      .overlaps = overlaps,
      .exchanges = segment.exchanges,
      .ends_shard = segment.ends_shard,
      .ends_step = segment.ends_step,
      .by_host = by_host};
  if (planned_ == inputs) return plan_;  // of a step that is one segment
  planned_.reset();
  plan_.clear();
  if (segment.program != nullptr)
    segment.program->program->append_parts(overlaps, by_host && group_ != nullptr, plan_);
  if (segment.exchanges && !overlaps)
    for (int b = 0; b < parts.exchange.bucket_count(); ++b)
      plan_.push_back({.work = StepWork::start_bucket, .first = b});
  if (segment.ends_shard) plan_.push_back({.work = StepWork::sum_shard});
  if (segment.exchanges) plan_.push_back({.work = StepWork::finish_buckets});
  if (segment.ends_step) plan_.push_back({.work = StepWork::update});
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    StepPart& part = plan_[i];
    part.ends_phase = i + 1 == plan_.size() || !timed_together(part.work, plan_[i + 1].work);
    if (part.work == StepWork::start_bucket || part.work == StepWork::reuse_gradients ||
        part.work == StepWork::sum_shard || part.work == StepWork::finish_buckets ||
        (part.work == StepWork::update && parts.update_exchanges()))
      part.on_host = by_host;
  }
  planned_ = inputs;
  return plan_;
}

void ReplicaState::run_segment(Segment& segment) {
  segment.moving = times_.moving_exchanges;
  segment.exposed = parts.exchange.exposed_seconds();
  if (!captures_now()) return run_eagerly(segment);
  segment.place = parts.exchange.place();
  segment.sent = parts.exchange.sent();
  segment.update_sent = parts.update_sent();
  context.position().enter(segment.program != nullptr ? Phase::forward : Phase::exchange);
  switch (graphs_.run(graph_key(segment), segment)) {
    case StepWay::eager:
      break;
    case StepWay::captured:
      times_.backward += timer_.lap();
      if (segment.exchanges)
        bytes_sent_[{segment.schedule->samples, segment.round}] =
            parts.exchange.sent() - segment.sent +
            (parts.update_sent().both() - segment.update_sent.both());
      break;
    case StepWay::replayed:
      account_replay(segment);
      times_.backward += timer_.lap() - (parts.exchange.exposed_seconds() - segment.exposed);
      break;
  }
  // Where collectives are captured, all ranks have agreed that it failed.
  if (graphs_.has_failed() && segment.exchanges) why_no_graphs_ = graphs_.use().why_not;
}

void ReplicaState::run(Segment& segment, const StepPart& part, bool eagerly) {
  enter_phase(segment, part.work);
  switch (part.work) {
    case StepWork::forward:
      segment.program->program->run(part, segment.state);
      break;
    case StepWork::backward:
      if (eagerly && segment.exchanges && segment.overlaps)
        segment.program->program->run(part, segment.state, between_kernels_);
      else
        segment.program->program->run(part, segment.state);
      break;
    case StepWork::start_bucket:
      start_bucket(segment, part.first);
      break;
    case StepWork::reuse_gradients:
      reuse_gradients(part.first);
      break;
    case StepWork::sum_shard: {
      const ProfileScope scope(profiler.get(), probes_.sums);
      sum_shard(segment);
      break;
    }
    case StepWork::finish_buckets:
      if (segment.adds_norms) end_shard(*segment.shard, *segment.schedule);
      finish_buckets();
      break;
    case StepWork::update:
      update(segment);
      break;
  }
  if (eagerly && part.ends_phase) end_phase(segment, part.work);
  if (!eagerly && part.on_host) move_exchange();  // graphs have no polls between their kernels
}

void ReplicaState::enter_phase(const Segment& segment, StepWork work) {
  if (segment.program == nullptr && work == StepWork::start_bucket) return;
  if (context.position().phase() != phase_of(work)) context.position().enter(phase_of(work));
}

// For parts that ran eagerly. update() measures its own time.
void ReplicaState::end_phase(Segment& segment, StepWork work) {
  if (work == StepWork::update) return;
  if (work == StepWork::finish_buckets) {
    timer_.start();
    return device_timer.mark(DevicePart::exchange);
  }
  const bool is_forward = work == StepWork::forward;
  device_timer.mark(is_forward ? DevicePart::forward : DevicePart::backward);
  // Waits within backward are not backward's.
  const double exposed = parts.exchange.exposed_seconds() - segment.exposed;
  segment.exposed += exposed;
  const double seconds = timer_.lap() - exposed;
  (is_forward ? times_.forward : times_.backward) += seconds;
  if (is_forward) segment.forward = seconds;
  if (is_forward || work == StepWork::sum_shard || segment.program == nullptr) return;
  const std::int64_t samples = segment.program->samples;
  if (checks_.now) end_round(samples == 0 ? -1 : std::int64_t(segment.state.first_sample));
  if (samples != batch.micro_batch) return;
  times_.whole_compute +=
      upload_.teaching + segment.forward + seconds - (times_.moving_exchanges - segment.moving);
  ++times_.whole_computed;
}

bool ReplicaState::captures_by_place(const Segment& segment) const {
  return (batch.cluster > 1 || (batch.dealt && segment.exchanges)) && captures_collectives_;
}

bool ReplicaState::captures_now() const {
  return why_no_graphs_.empty() && !checks_.now && !device_timer.was_asked() &&
         !parts.shard_norms.measures();
}

GraphKey ReplicaState::graph_key(const Segment& segment) const {
  if (captures_by_place(segment))
    return {.step_samples = segment.schedule->samples,
            .round = segment.round,
            .size = int(programs.used_size())};
  GraphKey key{.accumulate = segment.state.accumulate, .size = int(programs.used_size())};
  if (segment.program != nullptr) {
    key.samples = segment.program->samples;
    key.stale_copies = segment.program->program->stale_copies();
  }
  if (!captures_collectives_) {
    if (segment.ends_shard || (segment.exchanges && !segment.ends_step)) key.merges = 0;
  } else if (segment.ends_shard || segment.exchanges) {
    const ShardPlace place = parts.exchange.place();
    key.shards_pending = place.pending;
    key.merges = place.merges;
  }
  // The host's parts stand elsewhere in the plan where the exchange does not overlap, which a
  // step's samples decide.
  if (segment.ends_step || segment.exchanges) key.step_samples = segment.schedule->samples;
  return key;
}

bool ReplicaState::agree(const Segment& segment, bool captured) {
  if (context.size() == 1 || !captures_collectives_) return captured;
  if (segment.exchanges) return all_ranks(context.host_communicator(), captured);
  return group_ ? all_ranks(*group_, captured) : captured;
}

// Applies what the parts of a replayed segment would have changed on the host.
void ReplicaState::account_replay(const Segment& segment) {
  if (segment.program != nullptr) segment.program->program->mark_copies_fresh();
  if (captures_collectives_) {
    if (segment.ends_shard) parts.exchange.shard_was_replayed();
    if (segment.exchanges)
      parts.exchange.buckets_were_replayed(
          bytes_sent_.at({segment.schedule->samples, segment.round}));
  }
  if (segment.ends_step) weights_changed();
}

/// By an update. Owners write no rounded weights: they do not have those of others.
void ReplicaState::weights_changed() {
  if (!parts.owners) return programs.packed().invalidate_but_rounded();
  programs.packed().invalidate();
  weights_are_whole_ = !parts.owners->rounds_weights();
}

void ReplicaState::update(const Segment& segment) {
  if (take_fault(FaultKind::flip_gradient) != nullptr) flip_a_gradient();
  if (checks_.always) stop_where_found(*segment.schedule, segment.step);
  timer_.start();
  const auto begin = timer_.at();
  if (profiler) profiler->enter(probes_.optimizer);
  StepOutcome* const outcome = parts.outcomes.outcome();
  parts.optimizer.conclude(
      {.tensors = {},
       .loss = parts.metrics.loss,
       .correct = parts.metrics.correct,
       .counted = parts.metrics.counted,
       .clip_norm = options.clip_norm,
       .previous = options.on_nonfinite == OnNonfinite::stop ? outcome : nullptr},
      outcome);
  parts.optimizer.update(segment.step, segment.lr, outcome, segment.state.counters);
  parts.optimizer.update_running_statistics(outcome);
  parts.average.update(segment.step, outcome, segment.state.counters);
  times_.optimizer += timer_.lap();
  if (parts.owners) {
    parts.owners->share_weights(programs.parameters());
    times_.exposed_communication += timer_.lap();
  }
  weights_changed();
  if (!profiler) return;
  profiler->leave();
  profiler->record(probes_.optimizer, begin, timer_.at());
}

}  // namespace lockstep
