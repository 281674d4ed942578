// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// What `lockstep run` tells the ranks that it starts after a fault (LOCKSTEP_RESTARTED; "moved"
/// where there was none). Times are seconds since 1970 by its clock.
struct RestartFacts {
  std::string fault;       ///< who failed, and how, in words
  int exit_code = 0;       ///< of the ranks' launcher
  int restart = 0;         ///< 1 for the first
  std::int64_t step = -1;  ///< that was being done, from 1 on; -1: unknown
  double reported = 0;     ///< when a rank first told of it, or the launcher
  double ended = 0;        ///< when all ranks were gone
  double started = 0;      ///< when these ones were started
  /// Of ranks that outlived the death of another one: how many they are, and `ended` is when they
  /// had agreed on that; 0: all were started anew.
  int survivors = 0;
};

std::string to_text(const RestartFacts& facts);
/// Nothing where the text is not one of these.
std::optional<RestartFacts> parse_restart_facts(const std::string& text);

/// One fault that the run went through, told when the first step after it is done. Seconds from one
/// moment to the next: first report, all ranks gone, ranks started again, ready for the first step,
/// that done.
struct RestartRecord {
  std::int64_t step = 0;  ///< steps done where the run continued from
  RestartFacts facts;
  /// Done before the fault, and again after it, at least: those that were logged, that the rank had
  /// told of, or that a snapshot in memory holds; -1: unknown.
  std::int64_t lost_steps = -1;
  double end_s = 0, pause_s = 0, start_s = 0, first_step_s = 0;
  double total_s() const { return end_s + pause_s + start_s + first_step_s; }
};

/// "restart 2 after rank 3 on node7 was ended by signal 9: 1.6 s to the first step (ranks ended
/// 0.4, pause 0.0, start 1.1, step 0.05), at least 93 steps again"; of survivors "restart 2 in 3
/// processes that are left after ...: 0.2 s to the first step (agreed 0.1, start 0.1, step 0.02)".
std::string to_words(const RestartRecord& record);

/// Seconds since 1970.
double unix_seconds();

}  // namespace lockstep
