// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica_state.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/io/load_weights.h"
#include "core/nn/initialise.h"
#include "parallel/fault_player.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
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

int own_rounds(const Schedule& schedule) {
  std::size_t rounds = 0;
  for (const ShardWork& shard : schedule.work) rounds += shard.micro_batches.size();
  return int(rounds);
}

}  // namespace

Replica::State::State(RankContext& rank_context,
                      const ModelFunction& model,
                      const LossFunction& loss,
                      const data::SampleSpec& samples,
                      const TrainOptions& train_options,
                      std::vector<std::int64_t> tail_sizes)
    : ReplicaPrograms(rank_context, model, loss, samples, train_options, std::move(tail_sizes)),
      ReplicaParts(context.backend(),
                   context.communicator(),
                   programs.graph(),
                   programs.space(),
                   programs.parameters(),
                   programs.gradients(),
                   options,
                   batch),
      device_timer(context.backend(), training_schedule(batch, batch.global_batch, context.rank())),
      samples_(samples),
      on_host_(context.backend().is_host_memory(programs.parameters())),
      ranges_(context.backend().ranges()) {
  for (auto& event : copied_) {
    event = context.backend().make_event();
    context.backend().record(*event);
  }
  if (batch.cluster > 1)
    group_ = context.communicator().split(context.rank() / batch.cluster,
                                          context.rank() % batch.cluster);
  context.position().mark(ranges_);
  programs.set_position(&context.position());
  exchange.set_position(&context.position());
  evaluation_exchange.set_position(&context.position());
  initialise_parameters();
  if (ranges_) declare_ranges();
  if (options.profile) declare_profile();
  checks_always_ = checks_ = env().nan_check == "1";
  if (checks_) programs.check_finite(search_.report());
  if (env().dump && context.rank() == 0) programs.dump(*env().dump);
}

std::span<const StepResult> Replica::State::train_step(const Schedule& schedule,
                                                       data::Loader& loader,
                                                       std::int64_t step,
                                                       float lr) {
  RunState state{.seed = options.seed, .step = std::uint64_t(step), .group = group_.get()};
  context.position().set_step(step + 1);
  if (profiler) profiler->begin_step(step);
  set_sample_weight(schedule);
  play_nan(step);
  if (checks_) search_.begin();
  exchange.begin_step(schedule);
  const bool whole = schedule.samples == batch.global_batch;
  device_timer.begin_step(step, whole);
  // Short batches say little of the noise, and may have shards that are absent.
  shard_norms.begin_step(step, whole && schedule.shards >= 2);
  adds_norms_ = shard_norms.measures() && !schedule.work.empty();
  const bool joins_later = own_rounds(schedule) < schedule.rounds && batch.cluster > 1;
  timer_.start();
  for (std::size_t s = 0; s < schedule.work.size(); ++s) {
    const ShardWork& shard = schedule.work[s];
    const bool last_shard = s + 1 == schedule.work.size();
    for (std::size_t m = 0; m < shard.micro_batches.size(); ++m) {
      state.accumulate = m > 0;
      state.first_sample = std::uint64_t(shard.micro_batches[m].first_sample);
      const BoundProgram& program = programs.training(shard.micro_batches[m].samples);
      const double exchanged = exchanging_;
      load(program, loader);
      times.data += fetching_;
      times.copy += loading_ - fetching_;
      times.device_wait += holding_up_;
      const bool last = last_shard && m + 1 == shard.micro_batches.size();
      const double computing = run(*program.program, state, last && !joins_later);
      if (checks_) end_round(shard.micro_batches[m].first_sample);
      if (shard.micro_batches[m].samples < batch.micro_batch) continue;
      times.whole_loading += loading_;
      times.whole_compute += computing - (exchanging_ - exchanged);
      ++times.whole_micro_batches;
    }
    if (last_shard) break;
    if (adds_norms_) {
      for (int b = 0; b < exchange.bucket_count(); ++b) shard_norms.add_bucket(b);
      end_shard(shard, schedule);
    }
    exchange.finish_shard();
    device_timer.mark(DevicePart::backward);
    times.backward += timer_.lap();
  }
  if (joins_later) join_missing_rounds(schedule, state);
  if (joins_later || schedule.work.empty()) {
    start_all_buckets();
    device_timer.mark(DevicePart::backward);
    times.backward += timer_.lap();
  }
  if (adds_norms_) end_shard(schedule.work.back(), schedule);
  return update(schedule, step, lr);
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

void Replica::State::lend_memory(data::LoaderOptions& loading) const {
  if (on_host_) return;
  loading.held = kHeldMicroBatches;
  loading.allocate = [&backend = context.backend()](std::size_t bytes) {
    const std::shared_ptr<DeviceBuffer> memory = backend.allocate_host(bytes, "micro-batch");
    return std::shared_ptr<std::byte[]>(memory, memory->data());
  };
}

// It changes where a short batch follows, or an evaluation: rarely enough to wait for the copies.
void Replica::State::set_sample_weight(const Schedule& schedule) {
  const auto weight = float(1.0 / double(schedule.samples));
  float& place = *sample_weight->as<float>();
  if (place == weight) return;
  const auto begin = Clock::now();
  context.backend().synchronize();
  times.device_wait += seconds_between(begin, Clock::now());
  place = weight;
}

void Replica::State::copy_sample_weight(const BoundProgram& program) {
  context.backend().copy_to_device(program.sample_weight, sample_weight->data(), sizeof(float));
}

// The loader fills the slot of the micro-batch before last anew: see lend_memory().
void Replica::State::load(const BoundProgram& program, data::Loader& loader) {
  DeviceEvent& copied = *copied_[next_copied_];
  next_copied_ = (next_copied_ + 1) % copied_.size();
  if (!on_host_) {
    copied.wait();  // for what the device computes, so no loading yet
    holding_up_ = timer_.lap();
  }
  context.position().enter(Phase::loading);
  const auto begin = timer_.at();
  const data::LoadedBatch loaded = loader.next();
  fetching_ = timer_.lap();
  if (profiler) profiler->record(data_work_, begin, timer_.at());
  Backend& device = context.backend();
  const auto n = std::size_t(loaded.samples);
  check_labels(loaded);
  device_timer.mark(DevicePart::idle);
  if (checks_) search_.look_at(loaded, samples_);
  const DeviceScope scope(profiler.get(), copy_work_);
  device.copy_to_device(program.x, loaded.input, n * samples_.input.bytes());
  device.copy_to_device(program.target, loaded.target, n * samples_.target.bytes());
  copy_sample_weight(program);
  if (const PlannedFault* fault = take_fault(FaultKind::scale_batch)) {
    const float weight = *sample_weight->as<float>() * float(fault->number);
    device.copy_to_device(program.sample_weight, &weight, sizeof weight);
  }
  device.record(copied);
  loading_ = fetching_ + timer_.lap();
}

// A label or token out of range would make a kernel read or write beyond its table.
void Replica::State::check_labels(const data::LoadedBatch& loaded) const {
  if (samples_.classes == 0) return;
  const auto check = [&](const std::byte* bytes, std::int64_t count, bool may_ignore) {
    const auto* values = reinterpret_cast<const std::int32_t*>(bytes);
    for (std::int64_t i = 0; i < count; ++i)
      LOCKSTEP_CHECK((values[i] >= 0 && values[i] < samples_.classes) ||
                         (may_ignore && values[i] == samples_.ignore_index),
                     DataError,
                     "data: {} {} is not one of the {} classes, 0 to {}",
                     may_ignore ? "label" : "token",
                     values[i],
                     samples_.classes,
                     samples_.classes - 1);
  };
  check(loaded.target, loaded.samples * samples_.target.elems(), true);
  if (samples_.input.dtype == DType::i32)
    check(loaded.input, loaded.samples * samples_.input.elems(), false);
}

double Replica::State::run(Program& program, const RunState& state, bool exchange_after) {
  context.position().enter(Phase::forward);
  program.run_forward(state);
  device_timer.mark(DevicePart::forward);
  const double forward = timer_.lap();
  context.position().enter(Phase::backward);
  if (exchange_after && options.overlap == Overlap::on) {
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

void Replica::State::end_shard(const ShardWork& shard, const Schedule& schedule) {
  std::int64_t samples = 0;
  for (const MicroBatch& micro_batch : shard.micro_batches) samples += micro_batch.samples;
  shard_norms.end_shard(shard.shard, samples, schedule.samples);
}

void Replica::State::start_bucket(int bucket) {
  if (adds_norms_) shard_norms.add_bucket(bucket);
  if (ranges_)
    bucket_ranges_[std::size_t(bucket)] = ranges_->start(bucket_names_[std::size_t(bucket)]);
  const auto begin = Clock::now();
  if (profiler) bucket_start_[std::size_t(bucket)] = begin;
  const DeviceScope scope(profiler.get(), profiler ? bucket_work_[std::size_t(bucket)] : -1);
  exchange.start_bucket(bucket);
  exchanging_ += seconds_between(begin, Clock::now());
}

void Replica::State::between_kernels() {
  if (!exchange.in_flight()) return;
  const auto begin = Clock::now();
  const DeviceScope scope(profiler.get(), moving_work_);
  exchange.progress();
  exchanging_ += seconds_between(begin, Clock::now());
}

void Replica::State::start_all_buckets() {
  for (int b = 0; b < exchange.bucket_count(); ++b) start_bucket(b);
}

void Replica::State::declare_profile() {
  constexpr std::int64_t kWarmUpSteps = 2, kTracedSteps = 8;
  profiler = std::make_unique<Profiler>(kWarmUpSteps, kTracedSteps);
  data_work_ = profiler->declare({.name = "wait_for_data", .path = "", .cost = {}});
  copy_work_ = profiler->declare({.name = "copy_input", .path = "", .cost = {}});
  wait_work_ = profiler->declare({.name = "wait_for_exchange", .path = "", .cost = {}});
  // Of several buckets at once.
  moving_work_ = profiler->declare(
      {.name = "exchange", .path = "", .stream = ProfileStream::communication, .cost = {}});
  optimizer_work_ = profiler->declare({.name = "optimizer", .path = "", .cost = {}});
  bucket_start_.resize(std::size_t(exchange.bucket_count()));
  for (int b = 0; b < exchange.bucket_count(); ++b)
    bucket_work_.push_back(profiler->declare({.name = "exchange",
                                              .path = fmt::format("bucket {}", b),
                                              .stream = ProfileStream::communication,
                                              .cost = {}}));
  programs.profile(profiler.get());
}

void Replica::State::declare_ranges() {
  bucket_ranges_.resize(std::size_t(exchange.bucket_count()));
  for (int b = 0; b < exchange.bucket_count(); ++b)
    bucket_names_.push_back(ranges_->declare(fmt::format("exchange bucket {}", b)));
}

// Ranks of a batch-norm group run the same number of micro-batches: one that has fewer takes part
// in the collectives with no samples and adds nothing. It starts its exchange afterwards, since
// those rounds still write (zero more) into the gradients that would be on their way.
void Replica::State::join_missing_rounds(const Schedule& schedule, RunState& state) {
  state.accumulate = true;
  const BoundProgram& program = programs.training(0);
  for (int round = own_rounds(schedule); round < schedule.rounds; ++round) {
    copy_sample_weight(program);
    run(*program.program, state, false);
    if (checks_) end_round(-1);
  }
}

void Replica::State::finish_bucket(int bucket) {
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

std::span<const StepResult> Replica::State::update(const Schedule& schedule,
                                                   std::int64_t step,
                                                   float lr) {
  const int buckets = exchange.bucket_count();
  context.position().enter(Phase::exchange);
  for (int b = 0; b < buckets; ++b) finish_bucket(b);
  device_timer.mark(DevicePart::exchange);
  if (take_fault(FaultKind::flip_gradient) != nullptr)
    flip_a_bit(context.backend(),
               programs.gradients() + metrics.range.offset + metrics.range.elems,
               programs.space().buckets[0].elems - metrics.range.elems);
  context.position().enter(Phase::optimizer);
  if (checks_always_) stop_where_found(schedule, step);
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
  for (int b = 0; b < buckets; ++b) optimizer.update_bucket(b, step, lr, outcome);
  optimizer.update_running_statistics(outcome);
  programs.packed().invalidate();
  device_timer.end_step();
  times.optimizer += timer_.lap();
  if (profiler) {
    profiler->leave();
    profiler->record(optimizer_work_, begin, timer_.at());
  }
  const std::span<const StepResult> known = outcomes.push(step, schedule.samples);
  times.device_wait += timer_.lap();
  if (profiler) profiler->end_step();
  return known;
}

}  // namespace lockstep
