// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <variant>
#include <vector>

#include "parallel/watchdog/heartbeat_node.h"

namespace lockstep::simulation {

/// Watchdogs of many ranks by a clock of its own: their HeartbeatNodes, with messages that take a
/// moment to arrive, and connections that close. Whom they accuse and when is decided by the
/// library; here is what a socket and a thread do for a Watchdog.
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
    int side = 0;       // of a network in parts: messages between sides wait until it is whole
    int accused = -1;   // by the record that it has
    double ended_at = -1;
    std::unique_ptr<watch::HeartbeatNode> node;
    int next_beat = 0;  // tick
  };

  /// hosts[r]: as HeartbeatTree has them. `seed` of when beats are late.
  SimulatedWatch(std::span<const int> hosts,
                 int fan_out,
                 const WatchLimits& limits,
                 std::uint32_t seed = 1);

  const watch::HeartbeatTree& tree() const { return *tree_; }
  Rank& operator[](int rank) { return at(rank); }
  const Rank& operator[](int rank) const { return ranks_[std::size_t(rank)]; }
  double time() const { return time_; }
  /// Of rank 0, or of the first child of a faulting rank 0.
  const std::optional<Verdict>& verdict() const { return verdict_; }
  /// Messages that have come to rank 0, and their bytes.
  std::uint64_t messages_to_root() const { return messages_; }
  std::uint64_t bytes_to_root() const { return bytes_; }

  /// Until is_over(), or for `seconds`.
  void pass(double seconds);
  /// Its process ends, and its host closes its connections.
  void kill(int rank);
  void say_goodbye(int rank, bool after_error);
  /// Some rank has a record, and so has every other that is neither dead nor frozen. Where no rank
  /// is left that could have one, the watch continues: a frozen one may wake up.
  bool is_over() const;
  /// No rank is alive and awake, and none has a record.
  bool is_deserted() const;

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
  bool reaches(const Sent& one) {
    return one.message.from < 0 || at(one.message.from).side == at(one.to).side;
  }
  void send(int to, Message message) { sent_.push_back({to, std::move(message)}); }
  void tick();
  void receive(int to, const Message& message);
  void count(const Message& message);
  void turn(int rank);
  void beat(int rank);
  void end(int rank, int accused, int but);

  std::unique_ptr<watch::HeartbeatTree> tree_;  // nodes refer to it
  std::vector<Rank> ranks_;
  std::deque<Sent> sent_;
  double time_ = 0;
  int ticks_ = 0;
  std::minstd_rand random_;
  std::optional<Verdict> verdict_;
  std::uint64_t messages_ = 0, bytes_ = 0;
};

}  // namespace lockstep::simulation
