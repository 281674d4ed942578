// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/exec/position.h"
#include "lockstep/watch_limits.h"
#include "parallel/watchdog/heartbeat_tree.h"

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
  double seconds = 0;       ///< without a sign of life, or without progress
  double limit = 0;         ///< that this exceeds; 0 where there is none
  bool has_left = false;    ///< stuck: the others wait for a rank that said goodbye
  int below = 0;            ///< frozen: ranks that rank 0 hears of through it, silent as well
  bool is_cut_off = false;  ///< frozen: rank 0, by itself, as it hears of no other host
  bool killed = false;      ///< died: by this rank, since it was frozen for `seconds`
};

/// The decisions of a watchdog, free of sockets and clocks: whoever calls says what was seen and
/// when, in seconds of one monotonic clock. See Watchdog for the rules.
///
/// In a tree rank 0 hears of most ranks through others. Such a rank is frozen where its parent has
/// been heard of for so long since: the silence of a rank explains that of all below it, also where
/// it ends with a beat that has no news of them yet. Those below a rank that has left are not
/// watched any more. Where rank 0 hears of none of several other hosts any more, it is its own that
/// is cut off, and the others say the same of it.
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
  /// Every rank is connected to rank 0.
  FailureDetector(int ranks, Watches watches, double now);
  /// Of `rank` in `tree`, which outlives it: rank 0 watches every rank, any other its parent.
  FailureDetector(const watch::HeartbeatTree& tree, int rank, double now);

  void set_limits(const WatchLimits& limits) { limits_ = limits; }
  /// No rank has been silent before `now`.
  void restart(double now);

  /// At the beginning of every turn of the watchdog's loop, before anything that it saw.
  void wake(double now);
  /// `traced`: under a debugger, which may stop it for as long as it likes.
  void beat(int rank, const PositionNote& note, bool traced, double now);
  /// A beat that a rank between has heard and shortened.
  struct Summary {
    RunStage stage{};
    bool moved = false;  ///< made progress since the one before
    bool traced = false;
    bool waits = false;  ///< in a collective
  };
  void beat(int rank, const Summary& summary, double now);
  /// Where `rank` is, though it has not been heard of again.
  void learn(int rank, const PositionNote& note);
  /// A debugger was found to hold `rank`: that no rank made progress until `now` is not held
  /// against anyone, nor is the silence of those below it.
  void hold(int rank, double now);
  void goodbye(int rank, bool after_error, double now);
  void closed(int rank, double now);
  /// What became of `rank` has been judged, and the others continue.
  void settle(int rank, double now);

  std::optional<Verdict> judge(double now) const;
  /// The last that was heard of a watched rank; its collective's name belongs to the judge.
  const PositionNote& note(int rank) const { return at(rank).note; }
  /// A watched rank that has not ended.
  bool is_present(int rank) const { return watches(rank) && at(rank).state == State::present; }

 private:
  /// unseen: below one that has left.
  enum class State : std::uint8_t { present, left, failed, closed, unseen };
  struct Rank {
    State state = State::present;
    bool traced = false;
    bool waits = false;  // in a collective
    double heard = 0, progressed = 0;
    double ended = 0;  ///< when the state became another than present
    PositionNote note;
    std::array<char, 32> collective{};
  };

  FailureDetector(int first, int count, double now);
  bool watches(int rank) const { return rank >= first_ && rank < first_ + int(ranks_.size()); }
  Rank& at(int rank) { return ranks_[std::size_t(rank - first_)]; }
  const Rank& at(int rank) const { return ranks_[std::size_t(rank - first_)]; }
  void end(int rank, State state, double now);
  void lose_sight(int rank, double now);
  void hear(int rank, double now);
  void excuse_below(int rank, double pause_s, double now);
  void note_progress(Rank& rank, double now);
  void set_stage(Rank& rank, RunStage stage);
  double silence(int rank, double now) const;
  bool all_train() const { return outside_training_ == 0; }
  double stage_limit(RunStage stage) const;
  std::optional<Verdict> find_ended(double now) const;
  std::optional<Verdict> find_frozen(double now) const;
  std::optional<Verdict> find_stuck(double now) const;
  bool is_cut_off(int silent, double now) const;
  int faulting_rank_of_stall() const;

  const watch::HeartbeatTree* tree_ = nullptr;  // null: a star
  bool everyone_ = true;
  int first_ = 0;  // of the watched ranks
  std::vector<Rank> ranks_;
  int outside_training_;  // present ranks in another stage
  WatchLimits limits_;
  double woken_ = 0;
  double progressed_ = 0;     // any rank, last
  double longest_pause_ = 0;  // without progress on any rank, in training
};

}  // namespace lockstep
