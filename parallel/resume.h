// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/exec/communicator.h"
#include "core/io/checkpoint.h"
#include "parallel/fingerprint.h"
#include "parallel/train_options.h"
#include "parallel/train_records.h"

namespace lockstep {

/// The checkpoint that a run goes on from.
struct ResumePoint {
  ResumeRecord record;
  io::CheckpointState state;
};

/// Finds what `options.resume` asks for: rank 0 looks and verifies, the others verify that they see
/// the same. What saves that were cut off have left in `options.folder` is cleared away.
/// Nothing: from the start. Collective. Throws, on every rank alike, ConfigError: a named
/// checkpoint has newer ones beside it in `options.folder`, which the run would write over;
/// DataError: it is none, or damaged, or all of several are. Throws EnvironmentError on a rank that
/// sees other files than rank 0.
std::optional<ResumePoint> find_resume_point(Communicator& communicator,
                                             const CheckpointOptions& options);

/// The checkpoint of step `step` that lies beside the one of `point`, or is that one. Every rank
/// verifies it, and that it is the one that rank 0 sees. Collective. Throws, on every rank alike,
/// DataError: it is missing or damaged; and EnvironmentError as find_resume_point().
ResumePoint checkpoint_beside(Communicator& communicator,
                              const ResumePoint& point,
                              std::int64_t step);
/// The same for the one in the run's own folder.
ResumePoint checkpoint_in(Communicator& communicator,
                          const CheckpointOptions& options,
                          std::int64_t step);

/// Compares the settings of a checkpoint with those of now; how a run is executed (fusion,
/// recompute, buckets, logging) may differ. Adds what differs to `point.record.overridden`.
/// Throws ConfigError listing it, unless `allowed`. Another class of device is always allowed.
void check_settings(ResumePoint& point, const Fingerprint& now, bool allowed);

/// Renames the damaged checkpoints that were passed over, so that no later scan meets them. On rank
/// 0, once the run is accepted.
void set_damaged_aside(const CheckpointOptions& options, const ResumeRecord& record);

}  // namespace lockstep
