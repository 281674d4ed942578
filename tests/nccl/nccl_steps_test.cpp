// SPDX-License-Identifier: Apache-2.0
// Single steps over a played NCCL: what a captured one asks of the device, and that it sees weights
// that change between steps.
#include <gtest/gtest.h>
#include <optional>
#include <vector>

#include "core/step/saved/snapshot.h"
#include "lockstep/replica.h"
#include "lockstep/training_feed.h"
#include "parallel/replica/replica_state.h"
#include "tests/nccl/nccl_small_run.h"
#include "tests/support/cuda_emulator/streams.h"

namespace lockstep {
namespace {

using namespace testing;

/// Steps of one micro-batch a rank, without a training around them.
class Steps {
 public:
  Steps(RankContext& context, SmallRun run)
      : run_(whole_batches(std::move(run))),
        data_(data::glyphs(32 * mpi_world().size(), 5).train),
        replica_(context, run_.model, softmax_cross_entropy, data_->spec(), run_.options, {}),
        schedule_(replica_.schedule(run_.options.global_batch)),
        requests_({data_->size(), run_.options.global_batch, 20, 1, schedule_, schedule_}),
        loading_{.workers = 0, .micro_batch = run_.options.micro_batch} {
    replica_.lend_memory(loading_);
    loader_.emplace(data_, loading_, [this](data::LoadRequest& r) { return requests_.next(r); });
  }

  void train(int steps) {
    for (int i = 0; i < steps; ++i) replica_.train_step(schedule_, *loader_, step_++, 0.01f);
  }
  Replica& replica() { return replica_; }
  std::vector<float> weights() {
    const SavedArrays saved = ReplicaState::of(replica_).saved_arrays();
    std::vector<float> values(std::size_t(saved.space.elems));
    saved.backend.copy_to_host(
        values.data(), saved.arrays[0].values, values.size() * sizeof(float));
    return values;
  }

 private:
  static SmallRun whole_batches(SmallRun run) {
    run.options.global_batch = 4 * mpi_world().size();
    return run;
  }

  SmallRun run_;
  std::shared_ptr<const data::Dataset> data_;
  Replica replica_;
  Schedule schedule_;
  TrainingRequests requests_;
  data::LoaderOptions loading_;
  std::optional<data::Loader> loader_;
  std::int64_t step_ = 0;
};

// One launch a step of one micro-batch, exchange and update in it; the host waits for the outcome
// of the step before, and for the copies of the one before that.
TEST(NcclSteps, OneLaunchAStep) {
  NcclContext context;
  Steps steps(context, small_run());
  steps.train(4);
  emulator::reset_calls();
  steps.train(5);
  const emulator::Calls calls = emulator::calls();
  EXPECT_EQ(calls.kernel_launches, 0);
  EXPECT_EQ(calls.host_functions, 0) << "collectives are in the graph";
  EXPECT_EQ(calls.graph_launches, 5);
  EXPECT_EQ(calls.host_waits, 2 * 5);
}

// As a rollback changes them: after updates, which leave the copies of weights fresh.
TEST(NcclSteps, GraphsSeeWeightsThatChangeBetweenSteps) {
  SmallRun run = small_run();
  run.options.precision = Precision::bf16;
  for (const char* const policy : {"local", "group:8"}) {
    run.options.batch_norm = BatchNormPolicy::parse(policy);
    const auto weights = [&](bool graphs) {
      run.options.use_graphs = graphs;
      NcclContext context;
      Steps steps(context, run);
      steps.train(6);
      for (int i = 0; i < 20; ++i)
        ReplicaState::of(steps.replica()).flip_bit(0, 97 * i, 22);  // in every layer
      steps.train(4);
      return steps.weights();
    };
    EXPECT_EQ(weights(true), weights(false)) << policy;
  }
}

}  // namespace
}  // namespace lockstep
