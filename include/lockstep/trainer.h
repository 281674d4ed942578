// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/builder.h"
#include "lockstep/data/dataset.h"
#include "lockstep/rank_context.h"
#include "lockstep/train_options.h"
#include "lockstep/train_records.h"
#include "lockstep/weights.h"

namespace lockstep {

/// Trains one model data-parallel over the ranks of a job:
///
///   lockstep::Trainer trainer(job, model, lockstep::softmax_cross_entropy,
///                             {.global_batch = 256, .epochs = 2});
///   const lockstep::TrainSummary summary = trainer.fit(lockstep::data::mnist("data/mnist"));
///   trainer.save("trained");
///
/// Collective: every rank constructs it with the same arguments and calls the same functions.
class Trainer {
 public:
  /// Throws ConfigError: batch numbers that contradict each other, a batch-norm group that cannot
  /// be formed (with what would form it), more ranks than shards.
  Trainer(RankContext& context,
          ModelFunction model,
          LossFunction loss,
          const TrainOptions& options);
  ~Trainer();

  /// Loss and accuracy on data.validation, without training: of options.init's weights, or the
  /// seed's. data.train may be null. Collective; the same on every rank.
  EvaluationRecord evaluate(const data::DataSplit& data);

  /// Called on rank 0 only; must outlive fit().
  void add_observer(TrainObserver& observer);

  /// Trains on data.train, evaluates on data.validation where there is one, and returns what came
  /// of it: complete on rank 0, equal in every result on all. To be called once. Throws ConfigError
  /// naming the keys and ranks that differ, where ranks have other models, options, data or kinds
  /// of device; NonFiniteError: the loss is not finite; DataError: samples cannot be read;
  /// DivergedError, CommError, OutOfMemory.
  TrainSummary fit(const data::DataSplit& data);

  /// Copies of parameters and running statistics, as stored, in declaration order. After fit().
  std::vector<io::NamedTensor> weights();
  /// Writes parameters and running statistics in PyTorch's names and layouts. After fit(), rank 0.
  void save_weights(const std::string& file);
  /// The same of their average. Any rank may call it; with TrainOptions::sharding every rank has
  /// to. Rank 0 writes. Throws ConfigError: TrainOptions::ema is off.
  void save_average(const std::string& file);
  /// Makes `folder` where it is missing and writes model.safetensors, as save_weights() does, and
  /// preprocessing.json, the record of how the training data's samples are made: what Predictor
  /// takes. After fit(). Any rank may call it, rank 0 writes. Throws EnvironmentError: it cannot be
  /// written.
  void save(const std::string& folder);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
