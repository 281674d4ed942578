// SPDX-License-Identifier: Apache-2.0
// Where a step's time goes by the device's own clock: of the right step, complete, and read without
// waiting. LateBackend's clock counts what it was asked for, so that numbers are exact.
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <set>

#include "lockstep/data/sources.h"
#include "lockstep/replica.h"
#include "lockstep/trainer.h"
#include "lockstep/training_feed.h"
#include "lockstep/zoo.h"
#include "parallel/replica/replica_state.h"
#include "tests/parallel/late_context.h"
#include "tests/parallel/shared_folder.h"
#include "tests/support/device_context.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMicroBatch = 4;

ModelFunction model() { return nn::make_model({.name = "mlp", .outputs = 10, .hidden = {12}}); }

TrainOptions options_for(std::int64_t micro_batches) {
  TrainOptions options{.global_batch = micro_batches * kMicroBatch, .micro_batch = kMicroBatch};
  options.optimizer = Sgd{.lr = 0.01f};
  options.bucket_mb = 0.001;  // several
  options.noise_scale_every = 0;
  options.workers = 0;
  return options;
}

/// A replica with what feeds it.
struct Steps {
  Steps(RankContext& context, const TrainOptions& options)
      : replica(context, model(), softmax_cross_entropy, data->spec(), options, {}),
        schedule(replica.schedule(options.global_batch)),
        requests({data->size(), options.global_batch, 20, options.seed, schedule, schedule}),
        loader(data, loading(options), [this](data::LoadRequest& r) { return requests.next(r); }) {}
  data::LoaderOptions loading(const TrainOptions& options) const {
    data::LoaderOptions loading{.workers = 0, .micro_batch = options.micro_batch};
    replica.lend_memory(loading);
    return loading;
  }
  void train(std::int64_t step) { replica.train_step(schedule, loader, step, 0.01f); }
  void train_measured(std::int64_t step) {
    replica.time_next_step();
    train(step);
  }

  std::shared_ptr<const data::Dataset> data = data::glyphs(96, 16).train;  // whole batches
  Replica replica;
  Schedule schedule;
  TrainingRequests requests;
  data::Loader loader;
};

std::optional<DeviceTimes> second_step(std::int64_t micro_batches) {
  testing::LateContext context;
  Steps steps(context, options_for(micro_batches));
  steps.train(0);
  steps.train_measured(1);
  return steps.replica.device_times(1);
}

TEST(DeviceTimes, AddUpToTheWholeStep) {
  testing::LateContext context;
  Steps steps(context, options_for(12));
  const auto before = context.late.make_timed_event(), after = context.late.make_timed_event();
  steps.train(0);
  context.late.record(*before);
  steps.train_measured(1);
  context.late.record(*after);
  const auto times = steps.replica.device_times(1);
  ASSERT_TRUE(times);
  for (const DevicePart part : {DevicePart::forward, DevicePart::backward, DevicePart::optimizer})
    EXPECT_GT((*times)[part], 0) << name_of(part);
  context.late.synchronize();
  const double whole = after->seconds_since(*before);
  EXPECT_GT(whole, 20);
  // After either step's end: its outcome's copy, and an event or two.
  EXPECT_NEAR(times->total(), whole, 4);
}

TEST(DeviceTimes, OfSeveralMicroBatchesAreTheirSum) {
  const std::int64_t ranks = testing::mpi_world().size();
  const auto one = second_step(ranks), three = second_step(3 * ranks);
  ASSERT_TRUE(one && three);
  EXPECT_EQ((*three)[DevicePart::forward], 3 * (*one)[DevicePart::forward]);
  EXPECT_EQ((*three)[DevicePart::idle], (*one)[DevicePart::idle] + 2) << "two more marks";
  EXPECT_EQ((*three)[DevicePart::optimizer], (*one)[DevicePart::optimizer]);
  // What arrives of an exchange during backward depends on the other rank.
  const auto rest = [](const DeviceTimes& times) {
    return times[DevicePart::backward] + times[DevicePart::exchange];
  };
  EXPECT_GT(rest(*three), rest(*one));
}

TEST(DeviceTimes, BelongToTheirStepHoweverLateTheyAreAskedFor) {
  testing::LateContext context;
  Steps steps(context, options_for(6));
  steps.train_measured(0);
  EXPECT_FALSE(steps.replica.device_times(0)) << "no step ended before it";
  for (std::int64_t step = 1; step < 3; ++step) steps.train(step);
  steps.train_measured(3);
  for (std::int64_t step = 4; step < 7; ++step) steps.train(step);
  for (const std::int64_t step : {0, 2, 4, 6}) EXPECT_FALSE(steps.replica.device_times(step));
  const auto third = steps.replica.device_times(3);
  ASSERT_TRUE(third);
  steps.train_measured(7);
  EXPECT_FALSE(steps.replica.device_times(3));
  const auto seventh = steps.replica.device_times(7);
  ASSERT_TRUE(seventh);
  EXPECT_EQ(third->total(), seventh->total()) << "equal steps";
}

TEST(DeviceTimes, LeaveOutEvaluations) {
  testing::LateContext context;
  Steps steps(context, options_for(6));
  steps.train(0);
  steps.train_measured(1);
  const auto before = steps.replica.device_times(1);
  const Schedule schedule = steps.replica.evaluation_schedule(6 * kMicroBatch);
  TrainingRequests requests({96, 6 * kMicroBatch, 1, 1, schedule, schedule});
  data::Loader loader(steps.data, steps.loading(options_for(6)), [&](data::LoadRequest& r) {
    return requests.next(r);
  });
  steps.replica.evaluate(schedule, loader);
  steps.train_measured(2);
  const auto behind = steps.replica.device_times(2);
  ASSERT_TRUE(before && behind);
  // The copy of the outcome before it, and its event, were over as well.
  EXPECT_EQ(behind->total() + 2, before->total());
}

TEST(DeviceTimes, LeaveOutWhatTheyAreToldToAndNothingElse) {
  testing::LateContext context;
  Steps steps(context, options_for(6));
  const auto event = context.late.make_event();
  const auto something_else = [&] {
    for (int i = 0; i < 5; ++i) context.late.record(*event);
  };
  steps.train(0);
  steps.train_measured(1);
  const auto usual = steps.replica.device_times(1);
  something_else();
  steps.train_measured(2);
  const auto counted = steps.replica.device_times(2);
  something_else();
  ReplicaState::of(steps.replica).device_timer.skip_work();
  steps.train_measured(3);
  const auto skipped_batches = steps.replica.device_times(3);
  something_else();
  ReplicaState::of(steps.replica).device_timer.skip_work();
  something_else();
  steps.train_measured(4);
  const auto half = steps.replica.device_times(4);
  ASSERT_TRUE(usual && counted && skipped_batches && half);
  EXPECT_EQ((*counted)[DevicePart::idle], (*usual)[DevicePart::idle] + 5);
  // The copy of the outcome before it, and its event, were over as well.
  EXPECT_EQ((*skipped_batches)[DevicePart::idle], (*usual)[DevicePart::idle] - 2);
  EXPECT_EQ((*half)[DevicePart::idle], (*skipped_batches)[DevicePart::idle] + 5);
  for (const DevicePart part : {DevicePart::forward, DevicePart::optimizer})
    EXPECT_EQ((*skipped_batches)[part], (*usual)[part]) << name_of(part);
}

/// On rank 0.
struct Records final : TrainObserver {
  void on_step(const StepRecord& record) override { steps.push_back(record); }
  std::vector<StepRecord> steps;
};

TrainSummary fit(RankContext& context, Records& records, std::int64_t log_every) {
  TrainOptions options = options_for(6);  // batches of 24, 24 and 16 samples
  options.steps = 9;
  options.log_every = log_every;
  options.eval_every = 0;
  Trainer trainer(context, model(), softmax_cross_entropy, options);
  trainer.add_observer(records);
  return trainer.fit({data::glyphs(64, 16).train, nullptr});
}

void expect_of_whole_batches_but_the_first(const TrainSummary& summary, const Records& records) {
  DeviceTimes sum;
  std::int64_t measured = 0;
  for (const StepRecord& record : records.steps) {
    EXPECT_EQ(record.device_ms.has_value(), record.step > 1 && record.step % 3 != 0) << record.step;
    if (!record.device_ms) continue;
    for (const DevicePart part : {DevicePart::forward, DevicePart::backward, DevicePart::optimizer})
      EXPECT_GT((*record.device_ms)[part], 0) << name_of(part);
    for (const double part : record.device_ms->parts) EXPECT_GE(part, 0);
    sum += *record.device_ms * 1e-3;
    ++measured;
  }
  EXPECT_EQ(summary.device_steps, measured);
  EXPECT_GT(measured, 0);
  // A product and a few sums that round.
  EXPECT_NEAR(summary.device_times.total(), sum.total(), 1e-12 * sum.total());
}

TEST(DeviceTimes, AreInTheRecordsOfLoggedSteps) {
  for (const std::int64_t log_every : {1, 2}) {
    testing::LateContext context;
    Records records;
    const TrainSummary summary = fit(context, records, log_every);
    if (testing::mpi_world().rank() != 0) continue;
    ASSERT_EQ(records.steps.size(), std::size_t((9 + log_every - 1) / log_every));
    expect_of_whole_batches_but_the_first(summary, records);
  }
}

/// Idle time of each step but the first, of a run of six whole batches; empty but on rank 0.
std::map<std::int64_t, double> idle_times(const TrainOptions& how) {
  testing::LateContext context;
  Records records;
  TrainOptions options = how;
  options.steps = 6;
  options.log_every = 1;
  options.eval_every = 0;
  Trainer trainer(context, model(), softmax_cross_entropy, options);
  trainer.add_observer(records);
  trainer.fit({data::glyphs(72, 16).train, nullptr});
  std::map<std::int64_t, double> idle;
  for (const StepRecord& record : records.steps)
    if (record.device_ms) idle[record.step] = (*record.device_ms)[DevicePart::idle];
  return idle;
}

void expect_less_idle_behind(std::set<std::int64_t> steps, const TrainOptions& options) {
  const std::map<std::int64_t, double> idle = idle_times(options);
  if (testing::mpi_world().rank() != 0) return;
  ASSERT_EQ(idle.size(), 5u);
  const double usual = idle.at(2);
  for (const auto& [step, time] : idle)
    if (steps.contains(step - 1))
      EXPECT_LT(time, usual) << step;
    else
      EXPECT_EQ(time, usual) << step;
}

TEST(DeviceTimes, LeaveOutHashesAndSnapshotsOfARun) {
  TrainOptions options = options_for(6);
  options.check_replicas_every = 0;
  expect_less_idle_behind({}, options);
  TrainOptions hashing = options;
  hashing.check_replicas_every = 2;
  const bool hashes = testing::mpi_world().size() > 1;  // one rank has no other to compare with
  expect_less_idle_behind(hashes ? std::set<std::int64_t>{2, 4} : std::set<std::int64_t>{},
                          hashing);
  const testing::SharedFolder folder;
  TrainOptions saving = options;
  saving.checkpoint.folder = folder / "checkpoints";
  saving.checkpoint.every_steps = 3;
  expect_less_idle_behind({3}, saving);
}

TEST(DeviceTimes, ComeFromTheDevicesClockWhereItHasOne) {
  testing::DeviceContext context(testing::mpi_world());
  Records records;
  const TrainSummary summary = fit(context, records, 1);
  if (testing::mpi_world().rank() != 0) return;
  if (context.backend().make_timed_event() != nullptr) {
    expect_of_whole_batches_but_the_first(summary, records);
    // Steps do not overlap. Each of its few dozen intervals is a float of milliseconds.
    EXPECT_LE(summary.device_times.total(), summary.wall_s * (1 + 1e-6));
    return;
  }
  EXPECT_EQ(summary.device_steps, 0);
  for (const StepRecord& record : records.steps) EXPECT_FALSE(record.device_ms);
}

}  // namespace
}  // namespace lockstep
