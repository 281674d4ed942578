// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep {

/// Where a run has got to on the disk.
struct RunProgress {
  std::int64_t step = -1;  ///< of the newest checkpoint; -1: none
  double trained_s = 0;    ///< time of training that counts
};

/// By the name of the newest checkpoint in OUT/checkpoints, and summary.json of a run that is
/// complete. `before` where the folder cannot be read; never throws for what is on the disk.
RunProgress glance_at(const std::filesystem::path& out, const RunProgress& before);

/// The same for the newest checkpoint that verifies: reads all of it.
RunProgress verify_in(const std::filesystem::path& out, const RunProgress& before);

/// Steps done at the last whole line of OUT/metrics.jsonl; -1: there is none.
std::int64_t last_logged_step(const std::filesystem::path& out);

/// Steps done where the newest start of the run in OUT began, by the last line of its
/// history.jsonl; -1: there is none.
std::int64_t last_resumed_step(const std::filesystem::path& out);

/// When history.jsonl of the run in OUT was written: rank 0 does that once in a start, when the run
/// is accepted. Without such a file: always the same.
std::filesystem::file_time_type history_time(const std::filesystem::path& out);

/// The newest snapshot that verifies in `folder`, where it has more steps than `saved`, and
/// otherwise that. An empty `folder` has none.
RunProgress with_snapshots(const RunProgress& saved, const std::string& folder);

}  // namespace lockstep
