// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ops/losses/distillation_loss.h"
#include "lockstep/builder.h"
#include "lockstep/data/dataset.h"
#include "lockstep/precision.h"

namespace lockstep {

/// What a Builder has to know of the program that a model is built for.
struct BuilderSettings {
  Mode mode = Mode::training;
  BatchNormPolicy batch_norm = {};
  int group_ranks = 1;  ///< ranks whose micro-batches form one batch-norm group
  std::int64_t micro_batch = 1;
  std::int64_t vocabulary = 0;  ///< tokens of the data, set by trace(); embeddings must hold them
  std::vector<data::EmbeddedColumn> embedded = {};  ///< of the data, set by trace()
  /// Whether a model is given the input normalised, by the graph's first node; set by trace().
  bool normalises_input = false;
  Precision precision = Precision::fp32;
  bool soft_targets = false;      ///< in training, targets are data::soft_target()
  bool mirrors = false;           ///< in evaluation, mirror images follow the images: see trace()
  bool fuse = true;               ///< apply the passes of core/plan/fuse.h
  bool recompute = false;         ///< activations may be computed again: see fuse()
  std::int64_t row_multiple = 1;  ///< of bf16 logits, if `fuse`: see pad_logits()
  /// Regular expressions: trained parameters whose names they are found in keep their values.
  std::vector<std::string> freeze = {};
  /// In training, softmax_cross_entropy() compares with a teacher's logits as well: a further input
  /// of the program.
  std::optional<ops::Distilled> distilled = {};
  bool operator==(const BuilderSettings&) const = default;
};

}  // namespace lockstep
