// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/data/augment.h"
#include "core/nn/builder.h"
#include "core/optim/lr_schedule.h"
#include "core/optim/optimizer.h"
#include "core/plan/recompute.h"
#include "parallel/gradient_exchange.h"

namespace lockstep {

/// When buckets are exchanged: during the last backward, or all after it.
enum class Overlap : std::uint8_t { on, off };

/// Everything that decides what a run computes. 0 means "derive it" where a default says so.
struct TrainOptions {
  // batch
  std::int64_t global_batch = 256;
  std::int64_t micro_batch = 0;  ///< samples a rank computes at once; 0: default_micro_batch()
  std::int64_t accumulation =
      0;           ///< micro-batches per rank and step; checked, or derives micro_batch
  int shards = 0;  ///< leaves of the reduction tree; 0: default_shards()
  // length: exactly one is given
  double epochs = 0;
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  // optimizer
  Optimizer optimizer = Sgd{};
  LrSchedule lr_schedule = {};
  float clip_norm = 0;                     ///< 0: no clipping
  std::vector<std::string> no_decay = {};  ///< regular expressions searched in parameter names, in
                                           ///< addition to biases and norms
  bool decay_all = false;                  ///< biases and norms decay as well
  // model
  BatchNormPolicy batch_norm = {};
  /// A safetensors file whose weights the run starts from instead of the seed's; empty: none.
  /// See io::load_weights.
  std::string init = {};
  std::vector<std::string> init_skip = {};  ///< of these the seed's are taken all the same
  /// Regular expressions searched in parameter names: these keep their values (no gradient, no
  /// update, no weight decay). Batch norm's running statistics follow the data all the same.
  std::vector<std::string> freeze = {};
  // engine
  Precision precision = Precision::fp32;
  bool fuse = true;  ///< apply the passes of core/plan/fuse.h
  Recompute recompute = Recompute::none;
  std::uint64_t memory_limit = 0;  ///< bytes of a rank's training_bytes(); 0: none
  std::uint64_t seed = 1;
  Reduction reduction = Reduction::reproducible;
  Overlap overlap = Overlap::on;
  double bucket_mb = 4;  ///< MiB
  // data
  data::Augmentation augmentation = {};
  int workers = -1;               ///< -1: auto
  bool skip_bad_samples = false;  ///< see data::LoaderOptions
  // observation, in steps; 0: never. eval_every -1: at the end of each epoch and of the run
  std::int64_t log_every = 50;
  std::int64_t eval_every = -1;
  bool profile = false;  ///< time every operator and tell observers at the end
};

/// Throws ConfigError naming the setting that no run can have: a length that is missing, given
/// twice or out of range, numbers that are not finite, and what optimizer and schedule refuse.
/// Batch numbers are plan_batch()'s.
void validate(const TrainOptions& options);

}  // namespace lockstep
