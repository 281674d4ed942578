// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/exec/communicator.h"
#include "core/io/checkpoint/checkpoint.h"
#include "lockstep/data/dataset.h"
#include "lockstep/error.h"
#include "lockstep/train_options.h"
#include "lockstep/train_records.h"
#include "parallel/batch/fingerprint.h"

namespace lockstep {

/// The checkpoint that a run resumes from.
struct ResumePoint {
  ResumeRecord record;
  io::CheckpointState state;
};

/// Finds what `options.resume` asks for: rank 0 looks and verifies, the others verify that they see
/// the same. What saves that were cut off have left in `options.folder` is cleared away.
/// Nothing: from the start. Collective. Throws, on every rank alike, ConfigError: a named
/// checkpoint has newer ones next to it in `options.folder`, which the run would write over;
/// DataError: it is none, or damaged, or all of several are. Throws EnvironmentError on a rank that
/// sees other files than rank 0.
std::optional<ResumePoint> find_resume_point(Communicator& communicator,
                                             const CheckpointOptions& options);

/// The checkpoint of step `step` that lies next to the one of `point`, or is that one. Every rank
/// verifies it, and that it is the one that rank 0 sees. Collective. Throws, on every rank alike,
/// DataError: it is missing or damaged; and EnvironmentError as find_resume_point().
ResumePoint checkpoint_next_to(Communicator& communicator,
                               const ResumePoint& point,
                               std::int64_t step);
/// The same for the one in the run's own folder.
ResumePoint checkpoint_in(Communicator& communicator,
                          const CheckpointOptions& options,
                          std::int64_t step);

/// A setting of a run that is not what it was: a key of its Fingerprint and both values.
struct SettingDifference {
  std::string key, then, now;
};

/// Whether the values of `key` are hashes, which tell nothing but that they differ.
bool is_hash(const std::string& key);

/// The settings of a checkpoint are not those of the run that was to resume from it.
class OtherSettings final : public ConfigError {
 public:
  OtherSettings(std::string checkpoint,
                std::vector<SettingDifference> differences,
                bool can_override);
  const std::string& checkpoint() const { return checkpoint_; }
  const std::vector<SettingDifference>& differences() const { return differences_; }
  /// False: the optimizer of now has another state than the checkpoint holds.
  bool can_override() const { return can_override_; }

 private:
  std::string checkpoint_;
  std::vector<SettingDifference> differences_;
  bool can_override_;
};

/// Compares the settings of a checkpoint with those of now; how a run is executed (fusion,
/// recompute, buckets, logging), how long it is and the class of device may differ. Where the decay
/// of the learning rate is as long as the run, it spans the new length, and so do images that grow.
/// `train` is what the run is trained on. Adds what differs to `point.record.overridden`. Throws
/// OtherSettings, unless `options` has the resume_override and the optimizer keeps the kind of its
/// state; ConfigError: the run is to end before the checkpoint's step.
void check_settings(ResumePoint& point,
                    const Fingerprint& now,
                    const TrainOptions& options,
                    const data::Dataset& train);

/// Renames the damaged checkpoints that were skipped, so that no later scan meets them. On rank
/// 0, once the run is accepted.
void set_damaged_aside(const CheckpointOptions& options, const ResumeRecord& record);

}  // namespace lockstep
