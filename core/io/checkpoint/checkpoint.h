// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/load_request.h"
#include "lockstep/parameter.h"

/// A checkpoint is a folder step_00001000/ with
///   model.safetensors      parameters and running statistics, PyTorch's names and layouts
///   optimizer.safetensors  the optimizer's arrays, "<parameter>.momentum_buffer", in those layouts
///   ema.safetensors        the average of the weights, where the run has one
///   state.json             CheckpointState
///   further small files    config.toml, preprocessing.json: as the run's folder has them
///   manifest.json          bytes of each file; SHA-256 of each tensor, and of each other file
/// It is written under a temporary name, every file and folder synced, the manifest last, and then
/// renamed: a folder of that name is whole. It knows no rank count.
namespace lockstep::io {

/// Of the format; a higher one than this is refused, naming both. Since 2 the manifest has a
/// SHA-256 of each tensor alone, so that several ranks can write one file; 1 is read.
inline constexpr int kCheckpointVersion = 2;

/// What a run has to know, in addition to the tensors, to continue as if nothing had happened.
/// Random numbers are keyed by seed, step and sample, so that no generator has a state to save.
struct CheckpointState {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  std::int64_t step = 0;     ///< steps done
  std::int64_t samples = 0;  ///< training samples in them
  double wall_s = 0;         ///< of training so far
  double train_loss = kUnknown;
  /// Whether the validation that is due after `step` has been done, and what it said.
  bool evaluated = false;
  double val_loss = kUnknown, val_accuracy = kUnknown;
  /// The lowest validation loss so far and the steps done then; -1 where there was none.
  double best_val_loss = kUnknown;
  std::int64_t best_step = -1;
  /// With TrainOptions::early_stop, and otherwise not in the file: the lowest validation loss that
  /// all ranks know of, the steps done then (-1: none), and the validations since.
  double lowest_val_loss = kUnknown;
  std::int64_t lowest_val_step = -1, validations_since_lowest = 0;
  /// Key and value of everything that decides the bits of the run.
  std::vector<std::pair<std::string, std::string>> settings;

  /// Of the steps since the last logged one: how many labels count, and their mean loss and
  /// accuracy. 0, and not in the file, where there are none.
  double open_labels = 0, open_loss = 0, open_accuracy = 0;

  // What faults have done to the run. Files of runs without any do not have these keys.
  /// Steps without an update, since loss or gradients were not finite: all, and the last in a row.
  std::int64_t skipped_steps = 0, skipped_in_row = 0;
  /// Batches that no step uses, [first, last) in ascending order: see TrainingFeed.
  std::vector<BatchRange> skipped_batches = {};
  std::int64_t rollbacks = 0;  ///< after spikes of the loss
  /// Running mean and variance of the losses, and of how many; see SpikeWatch.
  double loss_mean = 0, loss_variance = 0;
  std::int64_t loss_count = 0;
  /// The checkpoint, by its step, that a spike after this state goes back to; 0: none yet; -1: the
  /// run goes back to none.
  std::int64_t rollback_base = -1;
};

/// A tensor to save; `stored` is in the layout of the flat space.
struct CheckpointTensor {
  std::string name;                      ///< in the file
  const Parameter* parameter = nullptr;  ///< gives shape and layout
  std::span<const float> stored;         ///< empty: another rank writes it
};

/// The ranks that write a checkpoint together. One leads, rank 0 where nothing else is said: it
/// creates the files and the manifest, and gives the whole its name.
struct CheckpointWriters {
  int rank = 0;             ///< of this process
  std::vector<int> others;  ///< ranks that write tensors, but for the one that leads
  int leader = 0;
  bool leads() const { return rank == leader; }
  /// Of this save alone, in the name of its temporary folder, so that no rank writes into the
  /// folder of another save. Empty where rank 0 writes alone.
  std::string id;
  /// How long rank 0 waits for the others' parts when its own is written, unless that took a third
  /// as long or more: then three times as long.
  double patience_s = 300;
};

class SaveProgress;

struct CheckpointContent {
  CheckpointWriters writers;  ///< all ranks' contents list the same tensors
  CheckpointState state;      ///< of other ranks than 0 the step counts
  std::vector<CheckpointTensor> model, optimizer;
  std::vector<CheckpointTensor> average;     ///< of the weights, named as they are; empty: no file
  std::map<std::string, std::string> texts;  ///< name and content of further small files
};

/// How far a run had got: states compare by it. Going back takes steps back, so that more rollbacks
/// are later.
struct Reached {
  std::int64_t rollbacks = -1, step = -1;
  auto operator<=>(const Reached&) const = default;
};
inline Reached reached(const CheckpointState& state) { return {state.rollbacks, state.step}; }

/// "step_00001000"
std::string checkpoint_name(std::int64_t step);

/// Writes `content` as a new checkpoint in `folder` (RUN/checkpoints, created where missing) and
/// returns its path. A checkpoint of the same step is replaced in one atomic exchange. Throws
/// EnvironmentError naming file, what was done with it and the system's reason; then nothing that
/// was there before has changed, and the temporary folder is gone as far as that is possible. Where
/// other ranks write as well, it waits for them: Note [Writing together] in checkpoint_part.h.
/// `progress`: null where no thread asks for it.
std::filesystem::path write_checkpoint(const std::filesystem::path& folder,
                                       const CheckpointContent& content,
                                       SaveProgress* progress = nullptr);

/// On the other ranks: writes their tensors into the files that rank 0 creates, for which it waits.
/// Throws EnvironmentError as write_checkpoint(), and with the reason of
/// SaveProgress::end_waiting() where that ended it.
void write_checkpoint_part(const std::filesystem::path& folder,
                           const CheckpointContent& content,
                           SaveProgress& progress);

/// Reads every byte of a checkpoint and compares it with the manifest. Throws DataError naming the
/// file, and the tensor where one is damaged: missing, longer, shorter or changed files, a manifest
/// that is not as it was written, a folder that is not a checkpoint. Throws EnvironmentError for
/// what is not damage: a newer format version, files that may not be read.
CheckpointState verify_checkpoint(const std::filesystem::path& checkpoint);

/// Copies a whole checkpoint into `folder`, where it is whole or not there at any moment, and
/// returns its path there; a whole one of that step that is there stays, a damaged one is replaced.
/// Throws DataError as verify_checkpoint(), EnvironmentError as write_checkpoint().
std::filesystem::path copy_checkpoint(const std::filesystem::path& checkpoint,
                                      const std::filesystem::path& folder);

/// SHA-256 of the manifest of a checkpoint: equal where checkpoints are.
std::string checkpoint_digest(const std::filesystem::path& checkpoint);

struct FoundCheckpoint {
  std::filesystem::path path;
  CheckpointState state;
};

/// The newest checkpoint in `folder` that verifies; nothing where there is none (or no folder).
/// Each newer one that is damaged is named in `skipped_checkpoints` with the reason. Throws
/// EnvironmentError as verify_checkpoint(): going back before those would lose work.
std::optional<FoundCheckpoint> newest_checkpoint(const std::filesystem::path& folder,
                                                 std::vector<std::string>& skipped_checkpoints);

/// Removes what saves that were cut off have left in `folder`. Only for who holds the run's lock.
void remove_temporaries(const std::filesystem::path& folder);

/// Removes every checkpoint of `folder`, which may be missing. Throws EnvironmentError.
void remove_checkpoints(const std::filesystem::path& folder);

/// Keeps the `keep` newest checkpoints of `folder` and those of the steps `best_step` and
/// `rollback_base` (-1: none), and removes the older others, oldest first. `newest` has just been
/// written: nothing is removed where it is not there. A checkpoint that cannot be removed is named
/// in the result with the reason.
std::vector<std::string> remove_old_checkpoints(const std::filesystem::path& folder,
                                                std::int64_t newest,
                                                int keep,
                                                std::int64_t best_step,
                                                std::int64_t rollback_base = -1);

}  // namespace lockstep::io
