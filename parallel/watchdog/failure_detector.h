// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/exec/position.h"
#include "lockstep/watch_limits.h"

namespace lockstep {

/// Every so often a rank tells where it stands.
inline constexpr double kBeatSeconds = 0.25;

/// What is wrong, and with whom.
struct Verdict {
  enum class Kind : std::uint8_t {
    died,    ///< its connection closed without a goodbye
    failed,  ///< it said goodbye while an exception was in flight, and no other rank has ended
             ///< since
    frozen,  ///< no beat
    stuck    ///< beats, but no rank makes progress, and this rank is the one to blame
  };
  Kind kind{};
  int rank = -1;
  double seconds = 0;     ///< without a sign of life, or without progress
  double limit = 0;       ///< that this exceeds; 0 where there is none
  bool has_left = false;  ///< stuck: the others wait for a rank that said goodbye
};

/// The decisions of a watchdog, free of sockets and clocks: whoever calls says what was seen and
/// when, in seconds of one monotonic clock. See Watchdog for the rules.
class FailureDetector {
 public:
  /// So much later than a connection closes, a report of its rank may still arrive.
  static constexpr double kFailureReportSeconds = 0.3;
  /// A rank that left with an exception may still be meeting others over it.
  static constexpr double kErrorSeconds = 3;
  /// Longer pauses between two calls of wake() are pauses of this process.
  static constexpr double kPauseSeconds = 4 * kBeatSeconds;
  /// Of the longest time without progress that training has shown.
  static constexpr double kSlack = 3;

  enum class Watches : std::uint8_t {
    everyone,   ///< rank 0
    rank_zero,  ///< the others: whether it lives
  };
  FailureDetector(int ranks, Watches watches, double now);

  void set_limits(const WatchLimits& limits) { limits_ = limits; }
  /// No rank has been silent before `now`.
  void restart(double now);

  /// At the beginning of every turn of the watchdog's loop, before anything that it saw.
  void wake(double now);
  /// `traced`: under a debugger, which may stop it for as long as it likes.
  void beat(int rank, const PositionNote& note, bool traced, double now);
  /// A debugger was found to hold `rank`: that no rank made progress until `now` is not held
  /// against anyone.
  void hold(int rank, double now);
  void goodbye(int rank, bool after_error, double now);
  void closed(int rank, double now);

  std::optional<Verdict> judge(double now) const;
  /// The last that was heard; its collective's name belongs to the judge.
  const PositionNote& note(int rank) const { return ranks_[std::size_t(rank)].note; }
  bool is_present(int rank) const { return ranks_[std::size_t(rank)].state == State::present; }

 private:
  enum class State : std::uint8_t { present, left, failed, closed };
  struct Rank {
    State state = State::present;
    bool traced = false;
    double heard = 0, progressed = 0;
    double ended = 0;  ///< when the state became another than present
    PositionNote note;
    std::array<char, 32> collective{};
  };

  int watched() const { return watches_ == Watches::everyone ? int(ranks_.size()) : 1; }
  bool all_train() const;
  double stage_limit(RunStage stage) const;
  std::optional<Verdict> find_ended(double now) const;
  std::optional<Verdict> find_frozen(double now) const;
  std::optional<Verdict> find_stuck(double now) const;
  int faulting_rank_of_stall() const;

  Watches watches_;
  std::vector<Rank> ranks_;
  WatchLimits limits_;
  double woken_ = 0;
  double progressed_ = 0;     // any rank, last
  double longest_pause_ = 0;  // without progress on any rank, in training
};

}  // namespace lockstep
