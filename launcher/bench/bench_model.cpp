// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/base/median.h"
#include "core/exec/gather_records.h"
#include "launcher/bench/bench.h"
#include "launcher/plan/plan_request.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/flag_values.h"
#include "launcher/settings/flags.h"
#include "launcher/settings/placeholder_data.h"
#include "lockstep/data/loader.h"
#include "lockstep/replica.h"
#include "lockstep/training_feed.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/memory/memory_plan.h"
#include "parallel/replica/replica_state.h"
#include "parallel/replica/step_times.h"
#include "parallel/training/run_loaders.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

struct ModelFlags {
  std::int64_t steps = 20, warmup = 5;
  bool json = false;
  TrainFlags train;
};

bool parse(const std::vector<std::string>& arguments, ModelFlags& flags) {
  CLI::App app(
      "Times training steps of a model, and writes no files. Without --data, samples are noise of "
      "the shape that the model is made for.",
      "lockstep bench model");
  app.add_option("--steps", flags.steps, "to be timed")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number("--steps", 1, 1'000'000));
  app.add_option("--warmup", flags.warmup, "steps before those")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number("--warmup", 1, 1'000'000));
  app.add_flag("--json", flags.json, "one JSON object instead of text");
  app.allow_extras();
  app.footer("All other flags are those of lockstep train (lockstep train --help).");
  if (parse_bench(app, arguments)) return false;
  std::vector<std::string> words = app.remaining();
  words.insert(words.end(), {"--steps", std::to_string(flags.steps)});
  const PlaceholderData placeholder;
  flags.train = parse_train_flags(words, &placeholder);
  LOCKSTEP_CHECK(!flags.train.measures_micro_batch,
                 ConfigError,
                 "bench model: --micro-batch auto: give the number that is to be measured");
  LOCKSTEP_CHECK(
      !flags.train.chooses_sharding,
      ConfigError,
      "bench model: --shard auto: give none, optimizer or gradients, whichever is to be measured");
  validate(flags.train.options);
  return true;
}

struct MeasuredModel {
  BatchPlan batch;
  std::vector<double> step_s;
  StepTimes times;  ///< of the timed steps alone
  double flops = 0;
  double peak_flops = 0;  ///< of all ranks, measured on all at once
};

StepTimes operator-(const StepTimes& a, const StepTimes& b) {
  StepTimes difference;
  difference.forward = a.forward - b.forward;
  difference.backward = a.backward - b.backward;
  difference.exposed_communication = a.exposed_communication - b.exposed_communication;
  difference.optimizer = a.optimizer - b.optimizer;
  return difference;
}

MeasuredModel measure(Job& job, const ModelFlags& flags, const PlanRequest& request) {
  const TrainOptions& options = request.options;
  MeasuredModel measured;
  measured.batch = plan_batch(options, job.size());
  const std::int64_t batch = options.global_batch;
  expect_whole_batch(batch, request.data.train->size());
  const std::int64_t size = request.data.train->size() / batch * batch;  // no short batches
  Replica replica(job,
                  request.model,
                  request.loss,
                  request.data.train->spec(),
                  options,
                  tail_sizes(measured.batch, size, 0));
  replica.initialise_from(*request.data.train);
  const Schedule schedule = replica.schedule(batch);
  const std::int64_t steps = flags.warmup + flags.steps;
  TrainingRequests requests({size, batch, steps, options.seed, schedule, schedule});
  data::LoaderOptions loading = training_loader(options, measured.batch);
  replica.lend_memory(loading);
  data::Loader loader(
      request.data.train, loading, [&](data::LoadRequest& r) { return requests.next(r); });
  StepTimes before;
  for (std::int64_t step = 0; step < steps; ++step) {
    if (step == flags.warmup) before = ReplicaState::of(replica).times();
    const auto begin = Clock::now();
    // Waits for the step before, where a device works concurrently with the host.
    replica.train_step(schedule, loader, step, 1e-3f);
    if (step >= flags.warmup)
      measured.step_s.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  replica.finish_steps();
  measured.times = ReplicaState::of(replica).times() - before;
  return measured;
}

/// All ranks at once, since they share the machine when they train.
double peak_flops(Job& job, Precision precision) {
  job.host_communicator().barrier();
  const DevicePeaks peaks = job.backend().measure_peaks();
  const bool bf16 = precision == Precision::bf16 && peaks.bf16_flops > 0;
  double sum = 0;
  for (const double own :
       gather_records(job.host_communicator(), bf16 ? peaks.bf16_flops : peaks.fp32_flops))
    sum += own;
  return sum;
}

void print(const MeasuredModel& m, const ModelFlags& flags, Job& job) {
  using Json = nlohmann::ordered_json;
  const double step = median_of(m.step_s), steps = double(flags.steps);
  const auto [least, most] = std::ranges::minmax(m.step_s);
  const double rate = double(m.batch.global_batch) / step, flops = m.flops / step;
  if (flags.json) {
    const Json json{{"model", flags.train.model.name},
                    {"device", job.backend().device_class()},
                    {"precision", name_of(flags.train.options.precision)},
                    {"ranks", job.size()},
                    {"global_batch", m.batch.global_batch},
                    {"micro_batch", m.batch.micro_batch},
                    {"steps", flags.steps},
                    {"step_ms", step * 1e3},
                    {"step_ms_min", least * 1e3},
                    {"step_ms_max", most * 1e3},
                    {"samples_per_s", rate},
                    {"flops_per_step", m.flops},
                    {"flops_per_s", flops},
                    {"peak_flops_per_s", m.peak_flops},
                    {"peak_share", flops / m.peak_flops},
                    {"forward_ms", m.times.forward / steps * 1e3},
                    {"backward_ms", m.times.backward / steps * 1e3},
                    {"comm_exposed_ms", m.times.exposed_communication / steps * 1e3},
                    {"optimizer_ms", m.times.optimizer / steps * 1e3}};
    std::cout << json.dump(2) << std::endl;
    return;
  }
  std::cout << fmt::format(
                   "model      {}, {}\n"
                   "batch      {}\n"
                   "step       {:.3f} ms, the median of {} ({:.3f} to {:.3f})\n"
                   "           forward {:.3f}, backward {:.3f}, exposed communication {:.3f}, "
                   "optimizer {:.3f} (means of rank 0)\n"
                   "rate       {:.1f} samples/s\n"
                   "compute    {:.1f} GFLOP/s, {:.1f}% of the {:.1f} measured on all ranks at once",
                   flags.train.model.name,
                   job.backend().device_class(),
                   m.batch.to_string(),
                   step * 1e3,
                   flags.steps,
                   least * 1e3,
                   most * 1e3,
                   m.times.forward / steps * 1e3,
                   m.times.backward / steps * 1e3,
                   m.times.exposed_communication / steps * 1e3,
                   m.times.optimizer / steps * 1e3,
                   rate,
                   flops * 1e-9,
                   100 * flops / m.peak_flops,
                   m.peak_flops * 1e-9)
            << std::endl;
}

}  // namespace

int bench_model(const std::vector<std::string>& arguments) {
  ModelFlags flags;
  if (!parse({arguments.begin() + 1, arguments.end()}, flags)) return 0;
  if (print_help(flags.train.help)) return 0;
  LOCKSTEP_CHECK(flags.train.teacher.empty(),
                 ConfigError,
                 "--teacher cannot be combined with lockstep bench model: it measures one model");
  return run_bench(flags.train, arguments, flags.json, [&](Job& job) {
    const PlanRequest request =
        request_for(flags.train, open_placeholder(flags.train), job.size(), !job.gpu());
    MeasuredModel measured = measure(job, flags, request);
    measured.peak_flops = peak_flops(job, request.options.precision);
    if (job.rank() > 0) return;
    measured.flops = plan_memory(job.backend(), request).flops_per_step;
    print(measured, flags, job);
  });
}

}  // namespace lockstep
