// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <variant>
#include <vector>

#include "parallel/watchdog/heartbeat_node.h"

namespace lockstep::testing {

/// Watchdogs of many ranks by a clock of its own: their HeartbeatNodes, with messages that take a
/// moment to arrive, and connections that close.
class SimulatedWatch {
 public:
  static constexpr double kTick = kBeatSeconds / 5;
  /// Of some beats: a thread may have to wait for its core.
  static constexpr double kSlowBeat = kBeatSeconds + kTick;

  struct Rank {
    PositionNote note;
    bool works = true;  // makes progress
    bool is_dead = false;
    bool is_frozen = false;  // or cut off from its parent, and what is below with it
    bool is_traced = false;
    bool reads = true;  // what has arrived, before it beats
    int accused = -1;   // by the record that it has
    double ended_at = -1;
    std::unique_ptr<watch::HeartbeatNode> node;
    int next_beat = 0;  // tick
  };

  SimulatedWatch(std::span<const int> hosts, int fan_out, const WatchLimits& limits)
      : tree_(hosts, fan_out), ranks_(hosts.size()) {
    for (int r = 0; r < tree_.ranks(); ++r) {
      at(r).node = std::make_unique<watch::HeartbeatNode>(tree_, r, limits, 0);
      at(r).note.stage = RunStage::training;
      at(r).note.step = 5;
      at(r).next_beat = 1 + r * 7 % 5;
    }
  }

  const watch::HeartbeatTree& tree() const { return tree_; }
  Rank& operator[](int rank) { return at(rank); }
  double time() const { return time_; }
  /// Of rank 0, or of the first child of a faulting rank 0.
  const std::optional<Verdict>& verdict() const { return verdict_; }
  /// Messages that have come to rank 0, and their bytes.
  std::uint64_t messages_to_root() const { return messages_; }
  std::uint64_t bytes_to_root() const { return bytes_; }

  /// Until all ranks that can have ended, or for `seconds`.
  void pass(double seconds) {
    for (const double end = time_ + seconds; time_ < end && !is_over();) tick();
  }

  void kill(int rank) {
    at(rank).is_dead = true;
    for (const int child : tree_.children(rank)) send(child, {rank, Closed{}});
    if (rank > 0) send(tree_.parent(rank), {rank, Closed{}});
  }
  void say_goodbye(int rank, bool after_error) {
    for (const int child : tree_.children(rank)) send(child, {rank, watch::Goodbye{after_error}});
    if (rank > 0) send(tree_.parent(rank), {rank, watch::Goodbye{after_error}});
    kill(rank);
  }

  /// Every rank that is neither dead nor frozen has a record.
  bool is_over() const {
    return std::ranges::all_of(ranks_, [](const Rank& rank) {
      return rank.is_dead || rank.is_frozen || rank.ended_at >= 0;
    });
  }

 private:
  struct Closed {};
  struct Record {
    int rank = -1;
  };
  struct News {
    std::vector<watch::RankSummary> summaries;
    std::vector<watch::RankBeat> details;
  };
  struct Message {
    int from = -1;
    std::variant<watch::Beat, News, watch::Goodbye, watch::RankEnded, Closed, Record> content;
  };
  struct Sent {
    int to = -1;
    Message message;
  };

  Rank& at(int rank) { return ranks_[std::size_t(rank)]; }
  bool acts(int rank) { return !at(rank).is_dead && !at(rank).is_frozen && at(rank).ended_at < 0; }
  void send(int to, Message message) { sent_.push_back({to, std::move(message)}); }

  void tick() {
    time_ += kTick;
    ++ticks_;
    std::deque<Sent> arriving;
    arriving.swap(sent_);
    for (int r = 0; r < tree_.ranks(); ++r)
      if (acts(r)) at(r).node->detector().wake(time_);
    for (const Sent& one : arriving) {
      // A frozen rank reads later.
      const bool reads = at(one.to).reads && !at(one.to).is_frozen;
      if (!reads && !at(one.to).is_dead) sent_.push_back(one);
      if (reads && acts(one.to)) receive(one.to, one.message);
    }
    for (int r = 0; r < tree_.ranks(); ++r)
      if (acts(r)) turn(r);
  }

  void receive(int to, const Message& message) {
    watch::HeartbeatNode& node = *at(to).node;
    const int from = message.from;
    std::optional<watch::RankEnded> ended;
    if (to == 0) count(message);
    if (const auto* beat = std::get_if<watch::Beat>(&message.content))
      node.on_beat(from, *beat, time_);
    if (const auto* news = std::get_if<News>(&message.content)) {
      for (const auto& one : news->summaries) node.on_summary(one, time_);
      for (const auto& one : news->details) node.on_details(one);
    }
    if (const auto* goodbye = std::get_if<watch::Goodbye>(&message.content))
      ended = node.on_goodbye(from, goodbye->after_error != 0, time_);
    if (std::holds_alternative<Closed>(message.content)) ended = node.on_closed(from, time_);
    if (const auto* below = std::get_if<watch::RankEnded>(&message.content))
      ended = node.on_ended(*below, time_);
    if (ended) send(tree_.parent(to), {to, *ended});
    if (const auto* record = std::get_if<Record>(&message.content)) end(to, record->rank, from);
  }

  void count(const Message& message) {
    if (const auto* news = std::get_if<News>(&message.content))
      bytes_ += news->summaries.size() * sizeof(watch::RankSummary) +
                news->details.size() * sizeof(watch::RankBeat);
    if (!std::holds_alternative<watch::Beat>(message.content)) return;
    ++messages_;  // the news come with it
    bytes_ += sizeof(watch::Beat);
  }

  void turn(int r) {
    Rank& rank = at(r);
    if (rank.works) ++rank.note.ticks;
    const bool beats = ticks_ >= rank.next_beat;
    if (beats) beat(r);
    if (!beats && !rank.node->judges_soon()) return;
    const auto verdict = rank.node->detector().judge(time_);
    if (!verdict) return;
    if (r == 0 || (verdict->rank == 0 && !verdict_)) verdict_ = verdict;
    end(r, verdict->rank, -1);
  }

  void beat(int r) {
    at(r).next_beat = ticks_ + 5 + int(random_() % 2);
    const watch::Beat own = watch::pack(at(r).note, at(r).is_traced);
    at(r).node->on_own_beat(own, time_);
    for (const int child : tree_.children(r)) send(child, {r, own});
    if (r == 0) return;
    const watch::HeartbeatRelay::News news = at(r).node->news(time_);
    send(tree_.parent(r),
         {r,
          News{{news.summaries.begin(), news.summaries.end()},
               {news.details.begin(), news.details.end()}}});
    at(r).node->mark_told();
    send(tree_.parent(r), {r, own});
  }

  void end(int r, int accused, int but) {
    at(r).accused = accused;
    at(r).ended_at = time_;
    for (const int child : tree_.children(r))
      if (child != but) send(child, {r, Record{accused}});
    if (r > 0 && tree_.parent(r) != but) send(tree_.parent(r), {r, Record{accused}});
  }

  watch::HeartbeatTree tree_;
  std::vector<Rank> ranks_;
  std::deque<Sent> sent_;
  double time_ = 0;
  int ticks_ = 0;
  std::minstd_rand random_;
  std::optional<Verdict> verdict_;
  std::uint64_t messages_ = 0, bytes_ = 0;
};

}  // namespace lockstep::testing
