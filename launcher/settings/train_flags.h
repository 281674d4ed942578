// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/sources.h"
#include "lockstep/model_spec.h"
#include "lockstep/train_options.h"
#include "lockstep/watch_limits.h"

namespace lockstep {

/// What `lockstep train` was asked to do: flags and configuration file, checked and resolved.
struct TrainFlags {
  nn::ModelSpec model;  ///< `outputs` is filled in once the data is known
  std::string data = "glyphs";
  bool data_from_file = false;         ///< it was not typed
  std::vector<std::string> more_data;  ///< further sources, mixed with `data`
  std::vector<double> data_weights;    ///< of `data` and each of more_data; empty: alike
  double val_fraction = 0;  ///< share of the samples kept, where the source has no such part
  int image_size = 224;     ///< images, packed and webdataset; of growing images the last
  int eval_image_size = 0;  ///< of evaluations; 0: image_size
  std::int64_t max_pixels = data::kDefaultMaxPixels;  ///< images, and files to predict
  std::int64_t context = 0;                           ///< text, tokens: tokens of a sample
  std::int64_t vocabulary = 0;                        ///< tokens; 0: their own, or GPT-2's
  std::string tokenizer;  ///< tokens: file or folder; empty: what lies next to them
  data::Documents documents = data::Documents::crossing;  ///< tokens
  std::optional<std::int32_t> ignore_index;
  data::TableOptions table;   ///< csv; numpy: its task
  std::string loss = "auto";  ///< auto, cross-entropy, mse, mae, huber or bce
  float huber_delta = 1;
  float label_smoothing = 0;
  /// balanced, a file or numbers; numbers alone after resolve_class_weights(); empty: none.
  std::string class_weights;
  std::string teacher;           ///< a run's folder; empty: none
  bool balance_classes = false;  ///< training draws its samples from classes alike
  TrainOptions options;
  /// --micro-batch auto: options.micro_batch is a placeholder for what resolve_micro_batch() finds.
  bool measures_micro_batch = false;
  /// --shard auto: options.sharding is a placeholder for what choose_sharding() finds.
  bool chooses_sharding = false;
  WatchLimits watch;
  int ranks = 0;                ///< 0: auto
  bool ranks_from_run = false;  ///< a run's own file says so: a launcher may have started others
  std::string device = "auto";
  std::string out;  ///< empty: runs/<time>
  bool force = false;
  bool tensorboard = true;    ///< write TensorBoard's files
  bool per_class = false;     ///< evaluate classes one by one at the end
  std::string settings_from;  ///< config.toml of the run to resume; empty: none, or typed
  std::string resume;         ///< auto, a run or a checkpoint; empty: from the start
  bool continues =
      false;  ///< --resume continues the run in `out`, instead of branching off into it
  std::string checkpoint_every = "10m";  ///< as typed
  std::string snapshot_every = "auto";   ///< as typed
  bool snapshots = true;                 ///< under `lockstep run`
  bool placeholder = false;              ///< `data` is what PlaceholderData chose
  /// Settings whose value a file says: "micro-batch" -> "--micro-batch 48 is from --config v.toml,
  /// line 3".
  std::map<std::string, std::string> from_files;
  /// Not empty: the user asked for this text instead of a run.
  std::string help;
};

/// What is known of the data where only the shape of a sample counts and --data is omitted: images
/// of the size that the model is made for, or of --image-size; tokens for gpt.
struct PlaceholderData {
  std::int64_t classes = 0;  ///< 0: as many as the model is made for; gpt: --vocabulary
};

}  // namespace lockstep
