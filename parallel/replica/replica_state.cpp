// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/replica_state.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/base/check.h"
#include "core/base/env.h"
#include "core/base/parameter_names.h"
#include "core/exec/agreement.h"
#include "core/host/monotonic_clock.h"
#include "core/step/fault_injector.h"
#include "parallel/comm/device_wait.h"
#include "parallel/replica/communicator_warmup.h"
#include "parallel/replica/device_sharing.h"

namespace lockstep {
namespace {

using Clock = MonotonicClock;

// Graphs take memory on the device, and keys that are places need one for each. Other keys are few.
constexpr int kMaxGraphsByPlace = 64;

DeviceTimer make_device_timer(RankContext& context, const BatchPlan& batch) {
  const Schedule whole = training_schedule(batch, batch.global_batch, context.rank());
  // Each turn may start its exchange after backward, and ends it.
  const std::size_t in_turns = whole.turns > 1 ? 2 * std::size_t(whole.turns) : 0;
  return {context.backend(), std::size_t(whole.rounds), whole.work.size() + in_turns};
}

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// A Loader of the caller's own may have other options than the run.
void expect_fitting(const BoundProgram& program, const data::LoadedBatch& loaded) {
  const auto fits = [](std::size_t wanted, std::size_t bytes) {
    return wanted == 0 || wanted == bytes;  // 0: the program does not read it
  };
  if (loaded.samples == program.samples && fits(program.x_bytes, loaded.input_bytes) &&
      fits(program.target_bytes, loaded.target_bytes))
    return;
  throw ConfigError(
      fmt::format("replica: expected a micro-batch of {} samples, {} bytes of inputs and {} of "
                  "targets, got {} samples, {} bytes and {}{}{}",
                  program.samples,
                  program.x_bytes,
                  program.target_bytes,
                  loaded.samples,
                  loaded.input_bytes,
                  loaded.target_bytes,
                  loaded.mixed ? ", mixed" : "",
                  loaded.mirrored ? ", with mirror images" : ""),
      "give the loader the samples of the schedule in its order, LoaderOptions::augmentation of "
      "TrainOptions in training, and LoaderOptions::mirror in evaluations with "
      "TrainOptions::tta alone");
}

}  // namespace

ReplicaState::ReplicaState(RankContext& rank_context,
                           const ModelFunction& model,
                           const LossFunction& loss,
                           const RunSamples& samples,
                           const TrainOptions& train_options,
                           const BatchPlan& batch_plan,
                           std::vector<std::int64_t> tail_sizes)
    : context(rank_context),
      options(train_options),
      batch(batch_plan),
      programs(context, model, loss, samples, options, batch, tail_sizes),
      parts(context.backend(),
            context.communicator(),
            programs.graph(),
            programs.space(),
            programs.parameters(),
            programs.gradients(),
            programs.compiled().gradients(),
            programs.packed().rounded(),
            options,
            batch,
            programs.upload()),
      device_timer(make_device_timer(context, batch)),
      model_(model),
      loss_(loss),
      samples_(samples),
      on_host_(context.backend().is_host_memory(programs.parameters())),
      graphs_(context.backend()) {
  probes_.ranges = context.backend().ranges();
  for (auto& event : upload_.copied) {
    event = context.backend().make_event();
    context.backend().record(*event);
  }
  if (batch.cluster > 1)
    group_ = context.communicator().split(context.rank() / batch.cluster,
                                          context.rank() % batch.cluster);
  context.position().mark(probes_.ranges);
  programs.set_position(&context.position());
  parts.exchange.set_position(&context.position());
  parts.evaluation_exchange.set_position(&context.position());
  if (programs.orthogonalization() != nullptr)
    parts.optimizer.set_orthogonalization(*programs.orthogonalization(), parts.matrices.get());
  if (probes_.ranges) declare_ranges();
  if (options.profile) declare_profile();
  // While weights are zeros: what it gathers would hide that ranks start from other weights.
  warm_up_collectives(context, parts, programs.parameters(), batch, group_.get());
  initialise_parameters();
  if (!on_host_)
    context_bytes =
        context_part(context.host_communicator(), context.backend(), memory().on_device());
  captures_collectives_ =
      parts.exchange.in_stream_order() &&
      (context.size() == 1 || all_ranks(context.host_communicator(), env().graph == "nccl"));
  why_no_graphs_ = reason_against_graphs();
  if (!all_ranks(context.host_communicator(), why_no_graphs_.empty()) && why_no_graphs_.empty())
    why_no_graphs_ = "another rank cannot capture steps";
  checks_.always = checks_.now = env().nan_check == "1";
  if (checks_.now) programs.check_finite(checks_.locator.report());
  if (env().dump && context.rank() == 0) programs.dump(*env().dump);
}

void ReplicaState::lend_memory(data::LoaderOptions& loading) const {
  if (on_host_) return;
  loading.held = ReplicaParts::kHeldMicroBatches;
  loading.allocate = [&backend = context.backend()](std::size_t bytes) {
    const std::shared_ptr<DeviceBuffer> memory = backend.allocate_host(bytes, "micro-batch");
    return std::shared_ptr<std::byte[]>(memory, memory->data());
  };
}

// It changes for a short batch or an evaluation alone: rarely enough to wait for the copies.
void ReplicaState::set_sample_weight(const Schedule& schedule) {
  const auto weight = float(1.0 / double(schedule.samples));
  float& place = *parts.sample_weight->as<float>();
  if (place == weight) return;
  const auto begin = Clock::now();
  const DeviceWait waiting(context);
  context.backend().synchronize();
  times_.device_wait += seconds_between(begin, Clock::now());
  place = weight;
}

void ReplicaState::copy_sample_weight(const BoundProgram& program) {
  context.backend().copy_to_device(
      program.sample_weight, parts.sample_weight->data(), sizeof(float));
}

// The loader refills the slot of the micro-batch before last: see lend_memory().
void ReplicaState::load(const BoundProgram& program,
                        data::Loader& loader,
                        std::uint64_t first_sample) {
  const std::size_t slot = next_slot();
  DeviceEvent& copied = *upload_.copied[slot];
  if (!on_host_) {
    const DeviceWait waiting(context);
    copied.wait();  // the device computes meanwhile: not loading time
    upload_.device_wait = timer_.lap();
  }
  context.position().enter(Phase::loading);
  const auto begin = timer_.at();
  const data::LoadedBatch loaded = loader.next();
  upload_.fetching = timer_.lap();
  if (profiler) profiler->record(probes_.data, begin, timer_.at());
  Backend& device = context.backend();
  expect_fitting(program, loaded);
  check_labels(loaded);
  device_timer.mark(DevicePart::idle);
  if (checks_.now) checks_.locator.look_at(loaded, samples_.last());
  {
    const DeviceScope scope(profiler.get(), probes_.copy);
    if (parts.counters.holds(program.sample_weight)) {
      const StepParamsUpload::Input inputs[] = {
          {program.x, loaded.input, program.x_bytes},
          {program.target, loaded.target, program.target_bytes},
          {program.sample_weight, parts.sample_weight->data(), sizeof(float)}};
      parts.counters.send(slot, first_sample, inputs);
    } else {
      parts.h2d_staging.copy(slot,
                             {{{program.x, loaded.input, program.x_bytes},
                               {program.target, loaded.target, program.target_bytes}}});
      copy_sample_weight(program);
      parts.counters.send(slot, first_sample);
    }
    if (const PlannedFault* fault = take_fault(FaultKind::scale_batch)) {
      const float weight = *parts.sample_weight->as<float>() * float(fault->number);
      device.copy_to_device(program.sample_weight, &weight, sizeof weight);
    }
    device.record(copied);
  }
  upload_.loading = upload_.fetching + timer_.lap();
  ask_teacher(program);
}

void ReplicaState::ask_teacher(const BoundProgram& program) {
  upload_.teaching = 0;
  if (program.teacher == nullptr) return;
  context.position().enter(Phase::forward);
  programs.teacher()->run(program.samples, program.x, program.x_bytes, program.teacher);
  upload_.teaching = timer_.lap();
}

std::size_t ReplicaState::next_slot() {
  upload_.newest = (upload_.newest + 1) % upload_.copied.size();
  return upload_.newest;
}

// For a rank without a micro-batch.
void ReplicaState::send_counters() {
  const std::size_t slot = next_slot();
  {
    const DeviceWait waiting(context);
    upload_.copied[slot]->wait();
  }
  parts.counters.send(slot, 0);
  context.backend().record(*upload_.copied[slot]);
}

// A label or token out of range would make a kernel read or write beyond its table.
void ReplicaState::check_labels(const data::LoadedBatch& loaded) const {
  const data::SampleSpec& samples = samples_.last();
  if (samples.classes == 0) return;
  const auto refuse = [&](const char* what, auto value) {
    throw DataError(fmt::format("data: {} {} is not one of the {} classes, 0 to {}",
                                what,
                                value,
                                samples.classes,
                                samples.classes - 1));
  };
  const auto check = [&](const std::byte* bytes, std::int64_t count, bool may_ignore) {
    const auto* values = reinterpret_cast<const std::int32_t*>(bytes);
    for (std::int64_t i = 0; i < count; ++i)
      if (!((values[i] >= 0 && values[i] < samples.classes) ||
            (may_ignore && values[i] == samples.ignore_index)))
        refuse(may_ignore ? "label" : "token", values[i]);
  };
  if (loaded.mixed) {
    const auto* values = reinterpret_cast<const float*>(loaded.target);
    for (std::int64_t i = 0; i < 4 * loaded.samples; i += 2)
      if (!(values[i] >= 0 && values[i] < float(samples.classes))) refuse("label", values[i]);
  } else {
    check(loaded.target, loaded.samples * samples.target.elems(), true);
  }
  if (samples.input.dtype == DType::i32)
    check(loaded.input, loaded.samples * samples.input.elems(), false);
}

void ReplicaState::declare_profile() {
  constexpr std::int64_t kWarmUpSteps = 2, kTracedSteps = 8;
  profiler = std::make_unique<Profiler>(kWarmUpSteps, kTracedSteps);
  const auto declare = [&](const char* name, ProfilePart part = ProfilePart::other) {
    return profiler->declare({.name = name, .path = "", .part = part, .cost = {}});
  };
  const auto declare_exchange = [&](std::string path) {
    return profiler->declare({.name = "exchange",
                              .path = std::move(path),
                              .stream = ProfileStream::communication,
                              .cost = {}});
  };
  probes_.data = declare("wait_for_data", ProfilePart::loading);
  probes_.copy = declare("copy_input", ProfilePart::copying);
  probes_.sums = profiler->declare(
      {.name = "sum_shards",
       .path = "",
       .part = ProfilePart::sums,
       .cost = {.bytes = 3.0 * sizeof(float) * double(programs.compiled().space().elems)}});
  probes_.wait = declare("wait_for_exchange");
  probes_.moving = declare_exchange("");  // of several buckets at once
  probes_.optimizer = declare("optimizer");
  const int buckets = parts.exchange.bucket_count();
  probes_.started.resize(std::size_t(buckets));
  for (int b = 0; b < buckets; ++b)
    probes_.bucket_work.push_back(declare_exchange(fmt::format("bucket {}", b)));
  programs.profile(profiler.get());
}

void ReplicaState::declare_ranges() {
  const int buckets = parts.exchange.bucket_count();
  probes_.open_ranges.resize(std::size_t(buckets));
  for (int b = 0; b < buckets; ++b)
    probes_.bucket_names.push_back(probes_.ranges->declare(fmt::format("exchange bucket {}", b)));
}

std::string ReplicaState::reason_against_graphs() const {
  if (!context.backend().captures_graphs()) return "the device does not capture graphs";
  if (env().graph == "0") return "LOCKSTEP_GRAPH=0";
  if (!options.use_graphs) return name_parameters("`use_graphs` is off");
  if (env().sync == "1") return "LOCKSTEP_SYNC=1 waits after every kernel";
  if (env().nan_check == "1") return "LOCKSTEP_NAN_CHECK=1 checks every kernel's output";
  if (env().plan == "poison") return "LOCKSTEP_PLAN=poison fills memory from the host";
  if (fault_injector() != nullptr) return "LOCKSTEP_FAULT injects faults";
  if (options.profile) return name_parameters("`profile` times every operator");
  if (probes_.ranges != nullptr) return "an attached tool traces every operator";
  if ((batch.cluster > 1 || batch.dealt) && captures_collectives_) {
    // Of whole batches and of an epoch's last, for each size of images.
    const Schedule whole = training_schedule(batch, batch.global_batch, context.rank());
    const bool groups = batch.cluster > 1;
    const int places = groups ? whole.most_rounds : whole.turns;
    const auto sizes = int(samples_.training.size());
    if (2 * (places + 1) * sizes > kMaxGraphsByPlace)
      return name_parameters(
          fmt::format("{}, and {} {} a step on a rank{} are too many for a graph each",
                      groups ? "batch norm's groups span several ranks"
                             : "`shard` gradients exchanges after each shard",
                      places,
                      groups ? "micro-batches" : "shards",
                      sizes > 1 ? fmt::format(", for {} sizes of images,", sizes) : ""));
  }
  return {};
}

std::optional<GraphUse> ReplicaState::graph_use() const {
  if (!context.backend().captures_graphs()) return std::nullopt;
  GraphUse use = graphs_.use();
  if (!why_no_graphs_.empty()) use.why_not = why_no_graphs_;
  if (use.graphs == 0 && use.why_not.empty())
    use.why_not = observed_steps_ == steps_
                      ? name_parameters(
                            "every step was measured: use a larger `log_every`, or "
                            "`noise_scale_every` 0")
                      : "too few steps: the second of a kind is captured";
  return use;
}

std::span<const StepResult> ReplicaState::take_results() {
  const auto begin = Clock::now();
  const std::span<const StepResult> results = [this] {
    const DeviceWait waiting(context);
    return parts.outcomes.take_all();
  }();
  times_.device_wait += seconds_between(begin, Clock::now());
  return results;
}

void ReplicaState::resume_updates() {
  const DeviceWait waiting(context);
  parts.outcomes.clear_error();
}

StepTimes ReplicaState::times() const {
  StepTimes times = times_;
  times.exposed_communication += parts.exchange.exposed_seconds();
  return times;
}

MemoryTable ReplicaState::memory() const {
  MemoryTable table = tabulate(programs.compiled(), programs.buffers(), programs.packed(), parts);
  table.arena_bytes += programs.late_arena_bytes();
  *table[MemoryCategory::activations] += programs.late_arena_bytes();
  table[MemoryCategory::context] = context_bytes;
  return table;
}

}  // namespace lockstep
