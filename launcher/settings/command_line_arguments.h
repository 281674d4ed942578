// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "core/data/image.h"
#include "launcher/settings/train_flags.h"

namespace lockstep {

/// Whose file --config is.
enum class ConfigSource : std::uint8_t {
  typed,        ///< the user named it
  resumed_run,  ///< of the run that --resume names
  saved_run,    ///< of a run whose weights are there: see parse_saved_flags()
};

/// The flags of `train` as typed, before they are checked against each other. The defaults are
/// those that --help prints.
struct CommandLineArguments {
  std::string config;
  std::string model = "convnet";
  std::string recipe;  ///< no flag: the model whose default_recipe() counts; empty: `model`
  std::vector<std::string> hidden{"128"};
  std::string stem = "imagenet";
  double dropout = 0;
  std::string batch_norm = "local";
  std::int64_t layers = 6;
  std::int64_t heads = 6;
  std::int64_t width = 384;
  std::string bias = "on";
  std::string tied_head = "on";
  std::string gelu = "tanh";
  std::string init;
  std::vector<std::string> init_skip;
  std::vector<std::string> freeze;

  std::string data = "glyphs";
  bool stands_in = false;                   ///< no flag: see PlaceholderData
  ConfigSource file = ConfigSource::typed;  ///< no flag
  double val_fraction = 0.2;
  std::int64_t image_size = 224;
  std::int64_t max_pixels = data::kDefaultMaxPixels;
  std::int64_t context = 256;
  std::int64_t vocabulary = 0;
  std::string ignore_index;
  std::string task = "auto";
  std::vector<std::string> label_columns;
  std::string separator = "auto";
  std::string missing = "error";
  std::vector<std::string> drop;
  std::vector<std::string> id_columns;
  std::vector<std::string> categorical;
  std::string augment = "none";
  bool skip_bad_samples = false;
  std::string workers = "auto";

  std::int64_t global_batch = 256;
  std::string micro_batch = "default";
  std::int64_t accumulation = 0;
  std::string shards = "auto";
  std::string ranks = "auto";
  bool data_from_file = false;                         ///< no flag: --config has it
  bool ranks_from_run = false, init_from_run = false;  ///< no flags: a run's own file has them
  double epochs = 1;
  std::int64_t steps = 0;
  std::int64_t samples = 0;

  /// "By model", until resolve_flags() takes those that were not given from default_recipe().
  std::string optimizer, lr_schedule, warmup_steps;
  double lr = 0, momentum = 0, weight_decay = 0, beta2 = 0, clip_norm = 0;
  double min_lr = 0;
  std::int64_t decay_steps = 0;
  std::int64_t step_every = 0;
  double step_factor = 0.1;
  bool nesterov = false;
  std::vector<std::string> no_decay;
  bool decay_all = false;
  double beta1 = 0.9;
  double eps = 1e-8;
  std::string loss = "auto";
  double huber_delta = 1;
  double label_smoothing = 0;
  std::string on_nonfinite = "stop";
  std::string on_spike = "ignore";

  double timeout = 10;
  double timeout_start = 600;
  double timeout_evaluation = 60;
  double timeout_save = 600;

  std::string device = "auto";
  std::string precision = "fp32";
  std::string fusion = "on";
  std::string recompute = "none";
  std::string memory_limit = "none";
  std::string reduction = "reproducible";
  std::string overlap = "on";
  std::string bucket_mb = "auto";
  std::string seed = "1";

  std::string out;
  std::int64_t log_every = 50;
  std::int64_t eval_every = -1;
  std::int64_t check_replicas_every = 100;
  std::string checkpoint_every = "10m";
  std::int64_t checkpoint_keep = 2;
  std::string resume;
  bool resume_override = false;
  std::string tensorboard = "on";
  std::int64_t noise_scale_every = 25;
  bool profile = false;
  bool force = false;
};

/// Adds every flag of `train` to `app`, stored in `raw`, each with a check of its own value.
void declare_flags(CLI::App& app, CommandLineArguments& raw);

/// Checks flags against each other and converts them. `app` tells which ones were given.
TrainFlags resolve_flags(const CLI::App& app, const CommandLineArguments& raw);

}  // namespace lockstep
