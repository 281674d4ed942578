// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/exec/position.h"

namespace lockstep {

/// The cause where only the launcher can know why.
inline constexpr std::string_view kDiedWithoutAWord = "the process died without a word";

/// What is said once of a fault that ends a run: who, where, when, why, and what to do.
struct FaultRecord {
  int rank = -1;             ///< the faulting rank's
  std::string host;          ///< the faulting rank's
  std::int64_t process = 0;  ///< the faulting rank's number on its host; 0: unknown
  std::string stage;         ///< name_of(RunStage)
  std::string phase;         ///< name_of(Phase); may be empty
  std::int64_t step = 0;     ///< that was being computed, from 1; 0: none
  std::string collective;    ///< "all-gather of 4096 bytes", "exchange of bucket 3"; may be empty
  std::string cause;         ///< one line: what was expected, what came
  std::string hint;          ///< what to do; may be empty
  std::string details;       ///< whole lines, for who reads them where they happened; may be empty
  bool has_died = false;     ///< the process is gone: other ranks can continue without it
  int exit_code = 1;
  int seen_by = -1;  ///< rank that noticed, where that is not the faulting rank itself
};

/// Fills stage, phase, step and collective.
void set_position(FaultRecord& record, const PositionNote& note);

/// What people read; every line ends with a newline:
///   [rank 3 node7] error: CAUSE
///     process 4711, step 1234, backward, in exchange of bucket 3; seen by rank 0
///   DETAILS
///   hint: HINT
/// The second line has what is known.
std::string to_block(const FaultRecord& record);

/// One line of JSON, {"time":...,"fault":{"rank":...}}, for logs/rank_N.log.
std::string to_json_line(const FaultRecord& record);

}  // namespace lockstep
