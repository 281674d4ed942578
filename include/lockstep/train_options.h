// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/builder.h"
#include "lockstep/data/augment.h"
#include "lockstep/ema.h"
#include "lockstep/lr_scaling.h"
#include "lockstep/lr_schedule.h"
#include "lockstep/optimizer.h"
#include "lockstep/parameter_group.h"
#include "lockstep/precision.h"

namespace lockstep {

struct StepRecord;
struct TrainSummary;

/// How gradients of several ranks are summed: in one order for every number of ranks, so that runs
/// on 1 and on 8 ranks have the same bits; or as the library that moves them likes it, which is
/// faster.
enum class Reduction : std::uint8_t { reproducible, fast };
/// What each rank holds a part of (Rajbhandari et al. 2020, ZeRO): nothing; state of the optimizer
/// and average of the weights (ZeRO-1); or also gradients, their sums over shards and, where shards
/// are of one micro-batch, those of one (as in ZeRO-2), for which ranks exchange gradients after
/// each shard instead of once a step. No bit depends on it.
enum class Sharding : std::uint8_t { none, optimizer, gradients };
/// "optimizer"
std::string_view name_of(Sharding sharding);

inline constexpr int kAutoShards = -1;  ///< TrainOptions::shards

/// How a GPU's libraries choose among their deterministic algorithms for GEMMs and convolutions.
enum class Algorithms : std::uint8_t {
  heuristic,  ///< the library's favourite: any run repeats the bits of any other
  timed       ///< rank 0 times the first few, and all ranks run the fastest
};

/// When gradients are exchanged: during the last backward of a step, or all after it.
enum class Overlap : std::uint8_t { on, off };

/// What follows where loss or gradients of a step are not finite; its update never happens.
enum class OnNonfinite : std::uint8_t {
  stop,  ///< NonFiniteError, naming the rank and the first operator, found by a replay
  skip   ///< the step is skipped and counted; too many in a row stop the run
};
/// What validations are judged by: TrainOptions::early_stop, and the best checkpoint.
enum class BestBy : std::uint8_t {
  loss,     ///< a lower validation loss is better
  accuracy  ///< a higher validation accuracy; the loss must have one
};

/// What evaluations look at of each image.
enum class TestTimeAugmentation : std::uint8_t {
  none,  ///< the image
  flip   ///< the image and its mirror image: the prediction is the mean of the model's raw outputs
};

/// Learning from a trained model in addition to the labels: with the loss L of the labels, which
/// may be smoothed, weighted and mixed, and a temperature T,
///   (1 - alpha) L + alpha T^2 KL(softmax(teacher / T) || softmax(student / T))
/// (Hinton et al. 2015, section 2), or `hard`, (1 - alpha) L + alpha CE(student, the teacher's
/// likeliest class) (Touvron et al. 2021, "Training data-efficient image transformers", equation
/// 3), per sample. The teacher sees each micro-batch as it is augmented, in evaluation mode.
/// Needs softmax_cross_entropy over [N, K] and a teacher of as many classes.
struct Distillation {
  ModelFunction model = {};  ///< the teacher's
  std::string weights = {};  ///< its file or folder, as TrainOptions::init; empty: no teacher
  float alpha = 0.5f;        ///< (0, 1]
  float temperature = 3;     ///< above 0; not looked at where `hard`
  bool hard = false;

  bool on() const { return !weights.empty(); }
};

/// What follows where the loss jumps far above its running spread.
enum class OnSpike : std::uint8_t {
  ignore,
  rollback  ///< back to the last checkpoint by every_steps, skipping batches up to the spike
};

/// When and where a run saves checkpoints, and which one it resumes from.
struct CheckpointOptions {
  std::string folder = {};       ///< of checkpoints, the same one on every node; empty: none
  std::int64_t every_steps = 0;  ///< 0: not by steps
  double every_seconds = 0;      ///< by rank 0's clock; 0: not by time
  int keep = 2;                  ///< newest that stay, in addition to the best by BestBy
  /// Folder of a memory file system for snapshots: checkpoints in between, which outlive the
  /// processes and not the host, of which the newest stays. Where it is not the same one for all
  /// ranks, those of each host put whole snapshots into theirs. Empty: none.
  std::string snapshot_folder = {};
  /// Between two snapshots, by rank 0's clock; 0: as often as takes 0.5% of the time by what the
  /// one before took, and at most once a second.
  double snapshot_seconds = 0;
  /// "auto": from the newest in `folder` that verifies, from the start where there is none; or the
  /// path of a checkpoint, or of a run whose newest it is to be; empty: from the start.
  std::string resume = {};
  /// Resumes although settings differ that the checkpoint was made with.
  bool resume_override = false;
  /// Small files that every checkpoint holds: name and content.
  std::map<std::string, std::string> texts = {};
};

/// Everything that decides what a run computes, with its defaults:
///
///   lockstep::TrainOptions options{.global_batch = 256, .epochs = 10,
///                                  .optimizer = lockstep::AdamW{.lr = 1e-3f}};
///
/// The global batch is what one update sees, of all ranks. Each rank computes its share of it in
/// micro-batches of `micro_batch` samples. The global batch decides what is learned; the number of
/// ranks does not, and with Reduction::reproducible not one bit of it. Two options are exceptions:
/// batch norm over all ranks (`sync`), whose groups grow with them, and `accumulation` without a
/// micro-batch, which then depends on them.
struct TrainOptions {
  // batch
  std::int64_t global_batch = 256;
  std::int64_t micro_batch =
      0;  ///< samples a rank computes at once; 0: 32, or fewer of a small batch
  std::int64_t accumulation =
      0;  ///< micro-batches per rank and step; checked, or derives micro_batch
  /// Parts that gradients are summed in, and the most ranks; 0: up to 64. kAutoShards: each
  /// micro-batch is one, so that every number of ranks is as balanced as its micro-batches allow.
  int shards = 0;
  // length: exactly one is given
  double epochs = 0;
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  // optimizer
  Optimizer optimizer = Sgd{};
  LrSchedule lr_schedule = {};
  LrScaling lr_scaling = {};  ///< of all rates, by the global batch
  // Clipping of gradients, before the update; 0: none, and one of the three at most.
  float clip_norm = 0;   ///< the global norm to this (Pascanu et al. 2013, algorithm 1)
  float clip_value = 0;  ///< each element to [-clip_value, clip_value]
  /// Adaptive gradient clipping: the gradient of each unit, a row of a matrix, a filter or a
  /// vector, to this factor of max(norm of its weights, 0.001). The last layer is not clipped
  /// (Brock et al. 2021, "High-Performance Large-Scale Image Recognition Without Normalization",
  /// equation 3).
  float clip_agc = 0;
  std::vector<std::string> no_decay = {};   ///< regular expressions searched in parameter names, in
                                            ///< addition to biases and norms
  bool decay_all = false;                   ///< biases and norms decay as well
  std::vector<ParameterGroup> groups = {};  ///< parameters with rate or decay of their own
  Ema ema = {};                             ///< a moving average of the weights
  /// Each layer learns at this factor of the rate of the layer after it, the last one at the
  /// optimizer's; 1: all alike.
  float layer_decay = 1;
  // model
  BatchNormPolicy batch_norm = {};
  Distillation distillation = {};
  /// A file or folder whose weights the run starts from instead of the seed's: safetensors or a
  /// PyTorch checkpoint with the model's parameter names; empty: none.
  std::string init = {};
  std::vector<std::string> init_skip = {};  ///< regular expressions: of these the seed's are taken
  /// Regular expressions searched in parameter names: these keep their values (no gradient, no
  /// update, no weight decay). Batch norm's running statistics follow the data all the same.
  std::vector<std::string> freeze = {};
  // engine
  Precision precision = Precision::fp32;
  bool fuse = true;  ///< run neighbouring layers as one kernel, where there is one
  Recompute recompute = Recompute::none;
  std::uint64_t memory_limit = 0;  ///< bytes of a rank on its device; 0: none
  std::uint64_t seed = 1;  ///< of initial weights, the order of samples, augmentation and dropout
  Reduction reduction = Reduction::reproducible;
  Sharding sharding = Sharding::none;  ///< needs Reduction::reproducible
  Overlap overlap = Overlap::on;
  double bucket_mb = 0;    ///< MiB of gradients in one message; 0: as the device likes it
  bool use_graphs = true;  ///< on a GPU: see GraphUse
  Algorithms algorithms = Algorithms::heuristic;  ///< on a GPU
  /// A run's algorithms.txt, whose choices this one takes; empty: none. A resumed run takes those
  /// of its checkpoint. Operators that it does not have are chosen as `algorithms` says.
  std::string algorithms_file = {};
  // data
  data::Augmentation augmentation = {};
  /// Repeated augmentation (Hoffer et al. 2020, "Augment Your Batch"; timm's RepeatAugSampler):
  /// each sample of a global batch comes so often in it, each time changed by other draws; divides
  /// global_batch. An epoch has as many samples as without, so only a part of the data.
  int repeated_augmentation = 1;
  /// Progressive resizing: above 0, images are squares of this side in the first epoch and grow
  /// linearly to the data's own in the last one, rounded to multiples of 32; see ImageGrowth.
  int first_image_size = 0;
  int workers = -1;  ///< threads of each rank that load samples; -1: as many as it takes
  bool skip_bad_samples =
      false;  ///< replace samples that cannot be read by the next; otherwise DataError
  // faults
  OnNonfinite on_nonfinite = OnNonfinite::stop;
  OnSpike on_spike = OnSpike::ignore;
  /// Steps between two comparisons of replicas, in addition to those at the start and at the end;
  /// 0: none at all. Ranks whose weights differ end the run with DivergedError.
  std::int64_t check_replicas_every = 100;
  /// Called on every rank once the run is accepted, before its first step; `resumed`: it continues
  /// from a checkpoint. May be empty.
  std::function<void(bool resumed)> accepted = {};
  // observation
  std::int64_t log_every = 50;   ///< steps between two StepRecords, and one at the end; 0: none
  std::int64_t eval_every = -1;  ///< steps between two validations, and one at the end; 0: none;
                                 ///< -1: after every epoch
  /// Ends the run after so many validations in a row without a better one by `best_by`, of the
  /// weights themselves where there is an average; 0: never. Its weights are then those of the last
  /// step; a run that saves checkpoints periodically keeps the best one.
  std::int64_t early_stop = 0;
  BestBy best_by = BestBy::loss;
  /// Of validations. Means of logits, as timm and airbench (arXiv 2404.00498) take them: of a
  /// classification they are a geometric mean of the probabilities, of a regression the mean of the
  /// numbers. Images alone, u8 [H, W, C].
  TestTimeAugmentation tta = TestTimeAugmentation::none;
  /// Steps between two that the noise scale is measured in (TrainSummary::noise_scale); 0: none.
  std::int64_t noise_scale_every = 25;
  bool profile = false;  ///< time every operator and tell observers at the end
  CheckpointOptions checkpoint = {};
  /// What the program adds to the records of observers; each may be empty. On rank 0 to a step's;
  std::function<void(StepRecord& record)> complete_step = {};
  /// and on every rank to the summary, where all of them come in order, after the last step of the
  /// run: it may be collective. Not where the run is stopped early, on any rank.
  std::function<void(TrainSummary& summary)> complete_summary = {};
  /// Asked by every rank between steps and between the micro-batches of an evaluation: true on any
  /// of them ends fit() early, after a checkpoint. Empty: the run is not stopped early.
  std::function<bool()> stop = {};
  /// Further settings, key and value, that decide what is trained and that ranks and checkpoints
  /// are to compare.
  std::vector<std::pair<std::string, std::string>> settings = {};
};

/// Throws ConfigError naming the setting that no run can have: a length that is missing, given
/// twice or out of range, numbers that are not finite, and what optimizer and schedule refuse.
/// Batch numbers are checked where the ranks are known, by Trainer.
void validate(const TrainOptions& options);

}  // namespace lockstep
