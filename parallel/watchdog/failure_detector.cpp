// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/failure_detector.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace lockstep {
namespace {

bool same_place(const PositionNote& a, const PositionNote& b) {
  return a.ticks == b.ticks && a.collectives == b.collectives && a.step == b.step &&
         a.stage == b.stage && a.phase == b.phase;
}

/// The first step, which is slow, counts as start.
bool trains(const PositionNote& note) { return note.stage == RunStage::training; }

}  // namespace

FailureDetector::FailureDetector(int ranks, Watches watches, double now)
    : watches_(watches), ranks_(std::size_t(ranks)) {
  restart(now);
}

void FailureDetector::restart(double now) {
  woken_ = progressed_ = now;
  for (Rank& rank : ranks_) rank.heard = rank.progressed = now;
}

void FailureDetector::wake(double now) {
  const double pause = now - woken_;
  woken_ = now;
  if (pause <= kPauseSeconds) return;
  // No rank was listening: for whatever was measured, that time did not pass.
  progressed_ += pause;
  for (Rank& rank : ranks_) {
    rank.heard += pause;
    rank.progressed += pause;
    rank.ended += pause;
  }
}

void FailureDetector::beat(int number, const PositionNote& note, bool traced, double now) {
  Rank& rank = ranks_[std::size_t(number)];
  rank.heard = now;
  rank.traced = traced;
  if (!same_place(rank.note, note)) {
    if (all_train()) longest_pause_ = std::max(longest_pause_, now - progressed_);
    rank.progressed = progressed_ = now;
  }
  rank.note = note;
  rank.note.collective.name = nullptr;
  if (note.collective.name == nullptr) return;
  std::strncpy(rank.collective.data(), note.collective.name, rank.collective.size() - 1);
  rank.note.collective.name = rank.collective.data();
}

void FailureDetector::hold(int number, double now) {
  ranks_[std::size_t(number)].heard = now;
  progressed_ = now;
  for (Rank& rank : ranks_) rank.progressed = now;
}

void FailureDetector::goodbye(int number, bool after_error, double now) {
  Rank& rank = ranks_[std::size_t(number)];
  if (rank.state != State::present) return;
  rank.state = after_error ? State::failed : State::left;
  rank.ended = now;
}

void FailureDetector::closed(int number, double now) {
  Rank& rank = ranks_[std::size_t(number)];
  if (rank.state != State::present) return;
  rank.state = State::closed;
  rank.ended = now;
}

std::optional<Verdict> FailureDetector::judge(double now) const {
  if (const auto ended = find_ended(now)) return ended;
  // What is closed is about to be judged, and explains why others wait.
  for (int r = 0; r < watched(); ++r)
    if (ranks_[std::size_t(r)].state == State::closed) return std::nullopt;
  if (const auto frozen = find_frozen(now)) return frozen;
  if (watches_ == Watches::everyone) return find_stuck(now);
  return std::nullopt;
}

/// The first that ended in a way it should not have: those after it may be its consequence.
std::optional<Verdict> FailureDetector::find_ended(double now) const {
  std::optional<Verdict> found;
  double first = 0;
  for (int r = 0; r < watched(); ++r) {
    const Rank& rank = ranks_[std::size_t(r)];
    const bool closed = rank.state == State::closed;
    if (!closed && rank.state != State::failed) continue;
    if (now - rank.ended < (closed ? kFailureReportSeconds : kErrorSeconds)) continue;
    if (found && rank.ended >= first) continue;
    first = rank.ended;
    found = {.kind = closed ? Verdict::Kind::died : Verdict::Kind::failed,
             .rank = r,
             .seconds = now - rank.ended};
  }
  return found;
}

std::optional<Verdict> FailureDetector::find_frozen(double now) const {
  const double limit = limits_.training_s;
  if (limit <= 0) return std::nullopt;
  std::optional<Verdict> found;
  for (int r = 0; r < watched(); ++r) {
    const Rank& rank = ranks_[std::size_t(r)];
    const double silence = now - rank.heard;
    if (rank.state != State::present || rank.traced || silence <= limit) continue;
    if (found && silence <= found->seconds) continue;
    found = {.kind = Verdict::Kind::frozen, .rank = r, .seconds = silence, .limit = limit};
  }
  return found;
}

std::optional<Verdict> FailureDetector::find_stuck(double now) const {
  int present = 0;
  bool waits = false;
  for (const Rank& rank : ranks_) {
    if (rank.traced && rank.state == State::present) return std::nullopt;
    if (rank.state != State::present) continue;
    ++present;
    waits |= rank.note.collective.name != nullptr;
    const double limit = stage_limit(rank.note.stage);
    if (limit <= 0 || now - rank.progressed <= limit) return std::nullopt;
  }
  // A rank that is alone and waits for no other does no harm, however slow.
  if (present == 0 || (present == 1 && !waits)) return std::nullopt;
  const int faulting_rank = faulting_rank_of_stall();
  const Rank& rank = ranks_[std::size_t(faulting_rank)];
  return Verdict{.kind = Verdict::Kind::stuck,
                 .rank = faulting_rank,
                 .seconds = now - progressed_,
                 .limit = stage_limit(rank.note.stage),
                 .has_left = rank.state != State::present};
}

/// The rank that is in no collective, else the one that entered the fewest. Where all wait in
/// one and a rank has left, they wait for that.
int FailureDetector::faulting_rank_of_stall() const {
  const auto blame = [&](int r) {
    const Rank& rank = ranks_[std::size_t(r)];
    const bool present = rank.state == State::present;
    const bool waits = rank.note.collective.name != nullptr;
    return std::tuple(present ? (waits ? 2 : 0) : 1, rank.note.collectives, rank.progressed, r);
  };
  int faulting_rank = 0;
  for (int r = 1; r < int(ranks_.size()); ++r)
    if (blame(r) < blame(faulting_rank)) faulting_rank = r;
  return faulting_rank;
}

bool FailureDetector::all_train() const {
  return std::ranges::all_of(
      ranks_, [](const Rank& rank) { return rank.state != State::present || trains(rank.note); });
}

double FailureDetector::stage_limit(RunStage stage) const {
  switch (stage) {
    case RunStage::start:
      return limits_.start_s;
    case RunStage::training:
      return limits_.training_s <= 0 ? 0 : std::max(limits_.training_s, kSlack * longest_pause_);
    case RunStage::evaluation:
      // A batch of it takes no longer than one of training.
      return limits_.evaluation_s <= 0
                 ? 0
                 : std::max(limits_.evaluation_s, stage_limit(RunStage::training));
    case RunStage::saving:
    case RunStage::end:
      return limits_.saving_s;
  }
  return 0;
}

}  // namespace lockstep
