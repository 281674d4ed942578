// SPDX-License-Identifier: Apache-2.0
// Programs so small that their kernels are joined: the bits of kernels that run one by one, on any
// number of ranks, in a few launches a step.
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <sstream>
#include <string>

#include "core/plan/flat_space.h"
#include "lockstep/replica.h"
#include "lockstep/training_feed.h"
#include "lockstep/zoo.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/replica/replica_state.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/cuda_emulator/streams.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

/// Features and classes of as many samples as the irises are.
class Flowers final : public data::Dataset {
 public:
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return 150; }
  void load(std::uint64_t, std::int64_t index, std::byte* input, std::byte* target) const override {
    const auto label = std::int32_t(index % 3);
    float features[4];
    for (int i = 0; i < 4; ++i)
      features[i] = float(std::sin(double(7 * index + i))) + 0.5f * float(label == i);
    std::memcpy(input, features, sizeof features);
    std::memcpy(target, &label, sizeof label);
  }
  std::string describe() const override { return "flowers"; }
  std::uint64_t fingerprint() const override { return 1; }

 private:
  data::SampleSpec spec_{.input = {{4}, DType::f32},
                         .target = {{}, DType::i32},
                         .classes = 3,
                         .scale = {},
                         .shift = {}};
};

/// Every kind of small kernel, dropout, which is none, and a product with bias and GELU.
Value small_model(Builder& nn, Value x) {
  x = nn.dropout(nn.relu(nn.linear(x, {.out_features = 12})), 0.25f);
  x = nn.relu(nn.dropout(nn.linear(x, {.out_features = 12}), 0.25f));
  x = nn.gelu(nn.linear(x, {.out_features = 10}), ops::GeluKind::tanh);
  x = nn.gelu(nn.linear(x, {.out_features = 9}), ops::GeluKind::erf);
  return nn.linear(x, {.out_features = 3, .bias = false});
}

/// Of two metrics alone, which are complete in forward, and of these with a weight. Either way
/// there are several, complete within joined kernels.
constexpr double kMetricsBucketMb = 0.0004, kMixedBucketMb = 0.0005;

/// Steps of micro-batches of 40, 40, 40 and 30 samples.
testing::SmallRun small_run(double bucket_mb) {
  const auto data = std::make_shared<Flowers>();
  testing::SmallRun run{small_model, {data, data}, {.global_batch = 150, .micro_batch = 40}};
  run.options.steps = 5;
  run.options.optimizer = AdamW{.lr = 1e-2f};
  run.options.clip_norm = 0.5f;
  run.options.shards = 2;
  run.options.bucket_mb = bucket_mb;
  run.options.log_every = 0;
  run.options.noise_scale_every = 0;
  run.options.workers = 1;
  return run;
}

void expect_equal(const TrainSummary& joined, const TrainSummary& apart) {
  EXPECT_EQ(joined.weights_sha256, apart.weights_sha256);
  EXPECT_EQ(joined.train_loss, apart.train_loss);
  EXPECT_EQ(joined.val_loss, apart.val_loss);
}

/// Sizes of the buckets, in elements.
std::vector<std::int64_t> buckets_of(const testing::SmallRun& run) {
  SelfCommunicator alone;
  testing::DeviceContext context(alone);
  const Replica replica(
      context, run.model, softmax_cross_entropy, run.data.train->spec(), run.options, {});
  std::vector<std::int64_t> buckets;
  std::istringstream lines(ReplicaState::of(replica).program_text());
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("bucket "))
      buckets.push_back(std::stoll(line.substr(line.find("elems=") + 6)));
  return buckets;
}

struct Counted {
  TrainSummary summary;
  std::size_t launches;
};
Counted train_counted(const testing::SmallRun& run) {
  SelfCommunicator alone;
  emulator::reset_calls();
  TrainSummary summary = testing::train(run, alone);
  return {std::move(summary), emulator::calls().kernel_launches};
}

TEST(SmallProgram, EqualBitsWhereKernelsAreTimedOneByOne) {
  for (const double bucket_mb : {kMetricsBucketMb, kMixedBucketMb}) {
    SCOPED_TRACE(bucket_mb);
    testing::SmallRun run = small_run(bucket_mb);
    const std::vector<std::int64_t> buckets = buckets_of(run);
    ASSERT_GT(buckets.size(), 2u);
    EXPECT_EQ(buckets[0] == 2 * kSegmentAlignment, bucket_mb == kMetricsBucketMb) << buckets[0];
    run.options.profile = true;
    const Counted apart = train_counted(run);
    run.options.profile = false;
    for (const bool graphs : {false, true}) {
      run.options.use_graphs = graphs;
      const Counted joined = train_counted(run);
      if (!graphs) {
        EXPECT_LT(joined.launches, apart.launches) << "nothing was joined";
      }
      expect_equal(joined.summary, apart.summary);
      expect_equal(testing::train(run, testing::mpi_world()), apart.summary);
    }
  }
}

// Matrices that shared memory does not hold together are given up and loaded anew; more layers than
// one program has steps for.
TEST(SmallProgram, EqualBitsOfMoreThanSharedMemoryHolds) {
  for (const auto& hidden : {std::vector<std::int64_t>(6, 28), std::vector<std::int64_t>(14, 9)}) {
    SCOPED_TRACE(hidden.size());
    testing::SmallRun run = small_run(/*bucket_mb=*/0);
    run.model = nn::make_model({.name = "mlp", .outputs = 3, .hidden = hidden});
    run.options.steps = 2;
    run.options.profile = true;
    const Counted apart = train_counted(run);
    run.options.profile = false;
    run.options.use_graphs = false;
    const Counted joined = train_counted(run);
    EXPECT_LT(joined.launches, apart.launches) << "nothing was joined";
    expect_equal(joined.summary, apart.summary);
  }
}

/// Trains `steps` steps, each one micro-batch, and calls before(replica, step) ahead of each.
template <typename Before>
void train_steps(const nn::ModelSpec& model,
                 const Optimizer& optimizer,
                 std::int64_t steps,
                 Before before) {
  TrainOptions options = small_run(/*bucket_mb=*/0).options;
  options.micro_batch = options.global_batch;
  options.shards = 0;
  options.optimizer = optimizer;
  options.use_graphs = false;
  SelfCommunicator alone;
  testing::DeviceContext context(alone);
  const auto data = std::make_shared<Flowers>();
  Replica replica(context, nn::make_model(model), softmax_cross_entropy, data->spec(), options, {});
  const Schedule schedule = replica.schedule(options.global_batch);
  TrainingRequests requests(
      {data->size(), options.global_batch, 4, options.seed, schedule, schedule});
  data::LoaderOptions loading{.workers = 0, .micro_batch = options.micro_batch};
  replica.lend_memory(loading);
  data::Loader loader(
      data, loading, [&](data::LoadRequest& request) { return requests.next(request); });
  for (std::int64_t step = 0; step < steps; ++step) {
    before(replica, step);
    replica.train_step(schedule, loader, step, 0.01f);
    replica.finish_steps();
  }
  before(replica, steps);
}

std::size_t launches_of_a_step(const nn::ModelSpec& model, const Optimizer& optimizer) {
  std::size_t launches = 0;
  train_steps(model, optimizer, 2, [&](Replica&, std::int64_t step) {
    if (step == 1) emulator::reset_calls();
    if (step == 2) launches = emulator::calls().kernel_launches;
  });
  return launches;
}

TEST(SmallProgram, AWatcherThatBeginsBetweenStepsHasEveryKernelRunOneByOne) {
  std::string digests[2];
  std::size_t launches[2];
  for (const bool watched : {false, true})
    train_steps({.name = "mlp", .outputs = 3, .hidden = {10, 10}},
                AdamW{},
                3,
                [&](Replica& replica, std::int64_t step) {
                  if (step == 2) emulator::reset_calls();
                  if (step == 2 && watched)
                    ReplicaState::of(replica).programs.training(150).program->name_faults();
                  if (step < 3) return;
                  launches[watched] = emulator::calls().kernel_launches;
                  digests[watched] = io::weights_sha256(replica.weights());
                });
  EXPECT_GT(launches[1], launches[0]);
  EXPECT_EQ(digests[1], digests[0]);
}

TEST(SmallProgram, AStepIsAFewLaunches) {
  // Forward and backward, the step's outcome, the update.
  EXPECT_EQ(launches_of_a_step({.name = "mlp", .outputs = 3, .hidden = {10, 10}}, Sgd{}), 3);
  EXPECT_EQ(launches_of_a_step({.name = "mlp", .outputs = 3, .hidden = {10, 10}}, AdamW{}), 3);
  // Dropout, forward and backward, lies between two runs each.
  EXPECT_EQ(
      launches_of_a_step({.name = "mlp", .outputs = 3, .hidden = {10}, .dropout = 0.1f}, Sgd{}), 7);
}

}  // namespace
}  // namespace lockstep
