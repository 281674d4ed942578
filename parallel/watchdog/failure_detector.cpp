// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/failure_detector.h"

#include <algorithm>
#include <cstring>
#include <limits>
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

FailureDetector::FailureDetector(int first, int count, double now)
    : first_(first), ranks_(std::size_t(count)), outside_training_(count) {
  restart(now);
}

FailureDetector::FailureDetector(int ranks, Watches watches, double now)
    : FailureDetector(0, watches == Watches::everyone ? ranks : 1, now) {
  everyone_ = watches == Watches::everyone;
}

FailureDetector::FailureDetector(const watch::HeartbeatTree& tree, int rank, double now)
    : FailureDetector(rank == 0 ? 0 : tree.parent(rank), rank == 0 ? tree.ranks() : 1, now) {
  everyone_ = rank == 0;
  if (everyone_) tree_ = &tree;
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
  Rank& rank = at(number);
  hear(number, now);
  rank.traced = traced;
  if (!same_place(rank.note, note)) note_progress(rank, now);
  learn(number, note);
}

void FailureDetector::beat(int number, const Summary& summary, double now) {
  Rank& rank = at(number);
  hear(number, now);
  rank.traced = summary.traced;
  if (summary.moved) note_progress(rank, now);
  set_stage(rank, summary.stage);
  // The name of an earlier one, or of none, until it is learned.
  if (summary.moved || summary.waits != rank.waits) {
    rank.note.collective = {};
    if (summary.waits) rank.note.collective.name = "collective";
  }
  rank.waits = summary.waits;
}

void FailureDetector::hear(int number, double now) {
  Rank& rank = at(number);
  if (now - rank.heard > kPauseSeconds) excuse_below(number, now - rank.heard, now);
  rank.heard = now;
}

/// So long `number` told nothing of those below it: as after a pause of this process. What it heard
/// of them meanwhile may come later than its first beat.
void FailureDetector::excuse_below(int number, double pause_s, double now) {
  if (tree_ == nullptr || number == 0) return;  // of those below rank 0 this process hears itself
  for (const int child : tree_->children(number)) {
    Rank& rank = at(child);
    rank.heard = std::min(rank.heard + pause_s, now);
    rank.progressed = std::min(rank.progressed + pause_s, now);
    excuse_below(child, pause_s, now);
  }
}

void FailureDetector::learn(int number, const PositionNote& note) {
  Rank& rank = at(number);
  set_stage(rank, note.stage);
  rank.note = note;
  rank.note.collective.name = nullptr;
  rank.waits = note.collective.name != nullptr;
  if (!rank.waits) return;
  std::strncpy(rank.collective.data(), note.collective.name, rank.collective.size() - 1);
  rank.note.collective.name = rank.collective.data();
}

void FailureDetector::note_progress(Rank& rank, double now) {
  if (all_train()) longest_pause_ = std::max(longest_pause_, now - progressed_);
  rank.progressed = progressed_ = now;
}

void FailureDetector::set_stage(Rank& rank, RunStage stage) {
  if (rank.state == State::present)
    outside_training_ += int(trains(rank.note)) - int(stage == RunStage::training);
  rank.note.stage = stage;
}

void FailureDetector::hold(int number, double now) {
  if (!watches(number)) return;
  excuse_below(number, now - at(number).heard, now);
  at(number).heard = now;
  progressed_ = now;
  for (Rank& rank : ranks_) rank.progressed = now;
}

void FailureDetector::goodbye(int number, bool after_error, double now) {
  end(number, after_error ? State::failed : State::left, now);
  if (tree_ == nullptr) return;
  for (const int child : tree_->children(number)) lose_sight(child, now);
}

void FailureDetector::closed(int number, double now) { end(number, State::closed, now); }

void FailureDetector::settle(int number, double now) {
  if (!watches(number)) return;
  end(number, State::left, now);
  at(number).state = State::left;
}

void FailureDetector::lose_sight(int number, double now) {
  if (!is_present(number)) return;
  end(number, State::unseen, now);
  for (const int child : tree_->children(number)) lose_sight(child, now);
}

void FailureDetector::end(int number, State state, double now) {
  if (!is_present(number)) return;
  Rank& rank = at(number);
  if (!trains(rank.note)) --outside_training_;
  rank.state = state;
  rank.ended = now;
}

std::optional<Verdict> FailureDetector::judge(double now) const {
  if (const auto ended = find_ended(now)) return ended;
  // What is closed is about to be judged, and explains why others wait.
  for (const Rank& rank : ranks_)
    if (rank.state == State::closed) return std::nullopt;
  if (const auto frozen = find_frozen(now)) return frozen;
  if (everyone_) return find_stuck(now);
  return std::nullopt;
}

/// The first that ended in a way it should not have: those after it may be its consequence.
std::optional<Verdict> FailureDetector::find_ended(double now) const {
  std::optional<Verdict> found;
  double first = 0;
  for (int r = first_; watches(r); ++r) {
    const Rank& rank = at(r);
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
  for (int r = first_; watches(r); ++r) {
    const Rank& rank = at(r);
    const double seconds = silence(r, now);
    if (rank.state != State::present || rank.traced || seconds <= limit) continue;
    if (found && seconds <= found->seconds) continue;
    found = {.kind = Verdict::Kind::frozen, .rank = r, .seconds = seconds, .limit = limit};
    if (tree_ != nullptr) found->below = tree_->subtree_size(r) - 1;
  }
  if (found && is_cut_off(found->rank, now)) {
    found->rank = found->below = 0;
    found->is_cut_off = true;
  }
  return found;
}

/// Where `silent`, on another host, is: several hosts that fail at once are rarer than one. The
/// last that was heard of all others, a farewell too, came within some beats, as of one cable.
bool FailureDetector::is_cut_off(int silent, double now) const {
  if (tree_ == nullptr || tree_->host(silent) == tree_->host(0)) return false;
  constexpr double kAtOnce = 4 * kBeatSeconds;
  double first = std::numeric_limits<double>::infinity(), last = -first;
  bool several = false;
  for (const int child : tree_->children(0)) {
    const Rank& rank = at(child);
    if (tree_->host(child) == tree_->host(0)) continue;
    if (rank.state == State::present) {
      if (rank.traced || silence(child, now) <= limits_.training_s / 2) return false;
      first = std::min(first, rank.heard);
      several |= tree_->host(child) != tree_->host(silent);
    }
    last = std::max(last, rank.state == State::present ? rank.heard : rank.ended);
  }
  return several && last - first <= kAtOnce;
}

/// As the judge's own: until now. Of a rank that another one hears: until that one's last word,
/// which may be as old.
double FailureDetector::silence(int number, double now) const {
  const int parent = tree_ == nullptr ? 0 : tree_->parent(number);
  if (parent <= 0) return now - at(number).heard;
  const Rank& witness = at(parent);
  return witness.state == State::present ? witness.heard - at(number).heard : 0;
}

std::optional<Verdict> FailureDetector::find_stuck(double now) const {
  int present = 0;
  bool waits = false;
  for (const Rank& rank : ranks_) {
    if (rank.traced && rank.state == State::present) return std::nullopt;
    if (rank.state != State::present) continue;
    ++present;
    waits |= rank.waits;
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
    const Rank& rank = at(r);
    int order = rank.waits ? 2 : 0;
    if (rank.state != State::present) order = rank.state == State::unseen ? 3 : 1;
    return std::tuple(order, rank.note.collectives, rank.progressed, r);
  };
  int faulting_rank = 0;
  for (int r = 1; r < int(ranks_.size()); ++r)
    if (blame(r) < blame(faulting_rank)) faulting_rank = r;
  return faulting_rank;
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
