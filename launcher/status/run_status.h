// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// How a run stands, as its folder says: what `lockstep status` prints.
struct RunStatus {
  /// incomplete: stopped or cut off, and no process works on it.
  enum class State { running, restarting, complete, incomplete };
  State state = State::incomplete;
  std::string holder;      ///< "process 12 on node7, since 2026-01-31 12:00:00"; empty: no process
  std::int64_t ranks = 0;  ///< of the newest start; 0: unknown
  std::int64_t starts = 0;
  std::int64_t step = 0, steps = 0;  ///< newest logged step; of the whole run, 0: unknown
  /// Seconds since metrics.jsonl last changed; nothing: there is none.
  std::optional<double> quiet_s;
  double samples_per_s = 0, step_ms = 0, loss = 0;  ///< of the newest logged steps; NaN: unknown
  double val_loss = 0, val_accuracy = 0;        ///< of the newest validation; NaN: there is none
  std::int64_t checkpoint = -1, snapshot = -1;  ///< steps of the newest; -1: none
  std::int64_t faults = 0;                      ///< after which the run was started again
  std::string last_fault;
};

/// Reads the folder of a run, of which processes may be writing it. Throws DataError as
/// report::read_run(): it holds no run, or what it holds is damaged.
RunStatus read_status(const std::string& folder);

/// Lines for people; `folder` as it was typed.
std::string to_text(const RunStatus& status, const std::string& folder);
/// One JSON object on a line. Rates and losses that are unknown are null.
std::string to_json(const RunStatus& status);

}  // namespace lockstep
