// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "parallel/comm/self_communicator.h"
#include "tests/parallel/small_runs.h"
#include "tests/support/mpi_world.h"

namespace lockstep::testing {

/// Of several blocks of a norm for each rank, in several buckets, with a short last batch.
inline SmallRun sharded_mlp() {
  SmallRun run{
      nn::make_model({.name = "mlp", .outputs = 10, .hidden = {300, 140}, .dropout = 0.1f}),
      data::glyphs(64, 16),
      {.global_batch = 30, .micro_batch = 4, .steps = 5}};
  run.options.bucket_mb = 0.3;
  run.options.log_every = 0;
  return run;
}

/// Of so many buckets that few of them are exchanged at once: Note [Gradient window].
inline SmallRun deep_mlp() {
  SmallRun run = sharded_mlp();
  run.options.bucket_mb = 0.05;
  run.model = nn::make_model({.name = "mlp",
                              .outputs = 10,
                              .hidden = std::vector<std::int64_t>(16, 256),
                              .dropout = 0.1f});
  return run;
}

inline SmallRun sharded_gpt() {
  SmallRun run = small_gpt();
  run.options.log_every = 0;
  return run;
}

/// A run that is trained with `sharding`.
struct ShardedCase {
  const char* name;
  SmallRun (*run)();
  Optimizer optimizer;
  float clip_norm = 0;
  float ema = 0;
  Precision precision = Precision::fp32;
  std::vector<std::string> freeze = {};
  float clip_value = 0, clip_agc = 0;
  int shards = 0;  ///< fewer than micro-batches: gradients accumulate
  Sharding sharding = Sharding::optimizer;
};

/// Without sharding.
inline SmallRun run_of(const ShardedCase& c) {
  SmallRun run = c.run();
  run.options.optimizer = c.optimizer;
  run.options.clip_norm = c.clip_norm;
  run.options.clip_value = c.clip_value;
  run.options.clip_agc = c.clip_agc;
  if (c.ema > 0) run.options.ema = {.decay = c.ema};
  run.options.precision = c.precision;
  run.options.freeze = c.freeze;
  run.options.shards = c.shards;
  return run;
}

/// What rank 0 alone, without sharding, ends with; on other ranks nothing.
inline TrainSummary of_one_rank(SmallRun run) {
  run.options.sharding = Sharding::none;
  run.options.checkpoint = {};
  SelfCommunicator self;
  return mpi_world().rank() == 0 ? train(run, self) : TrainSummary();
}
inline std::string digest_of_one_rank(const SmallRun& run) {
  return of_one_rank(run).weights_sha256;
}

/// A run of `steps` steps that continues from the folder's checkpoint where there is one.
inline std::string go_on(SmallRun run,
                         const std::string& folder,
                         std::int64_t steps,
                         Communicator& ranks) {
  run.options.steps = steps;
  run.options.checkpoint = {.folder = folder, .every_steps = steps, .resume = "auto"};
  return train(run, ranks).weights_sha256;
}

}  // namespace lockstep::testing
