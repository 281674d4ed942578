// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/exec/communicator.h"
#include "parallel/watchdog/heartbeat_applicants.h"
#include "parallel/watchdog/heartbeat_protocol.h"
#include "parallel/watchdog/heartbeat_relay.h"
#include "parallel/watchdog/heartbeat_tree.h"

namespace lockstep::watch {

/// Told what the watchdogs say that this one is connected to; `from` is their rank.
class PeerListener {
 public:
  virtual ~PeerListener() = default;
  virtual void on_beat(int from, const Beat& beat) = 0;
  virtual void on_summary(const RankSummary& summary) = 0;
  virtual void on_details(const RankBeat& details) = 0;
  virtual void on_goodbye(int from, const Goodbye& goodbye) = 0;
  virtual void on_ended(const RankEnded& ended) = 0;
  virtual void on_record(int from, const PackedRecord& record) = 0;
  virtual void on_strangers(const Strangers& strangers) = 0;
  virtual void on_closed(int from) = 0;
};

/// The other ends of a watchdog's connections: a rank's children in the tree and its parent.
/// After the constructor and connect(), one thread uses it; wake() may be called by any.
class Peers {
 public:
  /// Who a rank is.
  struct Card {
    char host[64] = {};
    char machine[64] = {};        ///< machine_id()
    char network[32] = {};        ///< network_id()
    char process_space[32] = {};  ///< process_space_id()
    std::int64_t process = 0;
    std::uint8_t wanted = 1;

    bool on_machine_of(const Card& other) const {
      return std::string_view(machine) == other.machine;
    }
    /// Whether the one knows the process of the other by the same number.
    bool shares_processes_of(const Card& other) const {
      return on_machine_of(other) && *process_space != 0 &&
             std::string_view(process_space) == other.process_space;
    }
    /// Whether loopback of the one is loopback of the other.
    bool shares_network_of(const Card& other) const {
      return on_machine_of(other) && *network != 0 && std::string_view(network) == other.network;
    }
  };

  /// Collective: exchanges cards, and the invitations of ranks with children. These listen from
  /// here on; where one cannot, its problem() says why. `wanted`, of which rank 0's word counts:
  /// without it no rank listens.
  Peers(Communicator& host, bool wanted, int fan_out);
  bool wanted() const { return cards_[0].wanted != 0; }
  const std::string& problem() const { return problem_; }
  /// Ranks above 0: connects to the parent, whose thread must be at work; that of this rank may be
  /// until begin(). Throws EnvironmentError.
  void connect(double limit_s);
  /// All have connected: no other process may. From here on `listener` gets what they say, and
  /// learns who has closed since.
  void begin(PeerListener& listener);
  /// Closes all connections.
  void part();

  /// Waits at most so long for something to happen and tells `listener` of it.
  void turn(int milliseconds, PeerListener& listener);
  /// Ends a turn that waits.
  void wake();

  /// Except to `but`.
  template <typename Message>
  void send_to_all(Kind kind, const Message& message, int but = -1) {
    for (std::size_t i = 0; i < peers_.size(); ++i)
      if (neighbours_[i] != but) peers_[i].send(kind, message);
  }
  template <typename Message>
  void send_to_parent(Kind kind, const Message& message) {
    if (Connection* const above = to_parent()) above->send(kind, message);
  }
  /// A beat, and before it, for the parent, the news of the ranks below. To whom older messages are
  /// still on their way it is skipped: the next one says more.
  void send_beat(const Beat& beat, const HeartbeatRelay::News& news);
  /// Whether the parent gets the next beat, and may be sent what it can do without.
  bool parent_is_idle() const {
    const Connection* const above = to_parent();
    return above != nullptr && is_idle(*above);
  }
  void flush();
  /// Waits at most so long until everything is sent.
  void resolve(int milliseconds);

  // Ranks that end, each after its record: when the second of a job has, mpirun kills all others
  // at once, so that none should before every rank has written what it knows. Where a rank and all
  // below it have, it lets its parent know by sending no more, and waits until that closes the
  // connection: rank 0, which waits for no other, ends first.

  /// From here on the connections to ranks that end stay open on this end.
  void keep_open() { keeps_open_ = true; }
  /// Waits at most so long until all children have finished sending.
  void await_children(int milliseconds) { await_ends(milliseconds, false); }
  /// Lets the parent know that this rank and all below it are about to end.
  void finish_sending();
  /// Waits at most so long until the parent has closed the connection.
  void await_parent(int milliseconds) { await_ends(milliseconds, true); }

  int rank() const { return rank_; }
  int size() const { return int(cards_.size()); }
  const Card& card(int rank) const { return cards_[std::size_t(rank)]; }
  const HeartbeatTree& tree() const { return tree_; }
  bool has_children() const { return tree_.has_children(rank_); }

 private:
  static bool is_idle(const Connection& peer) { return peer.is_open() && !peer.has_unsent(); }
  std::size_t index_of(int rank) const;
  void listen();
  void exchange_invitations(Communicator& host);
  void watch(int descriptor, std::uint64_t tag);
  void close_listener();
  void accept_all();
  void read_applicant(int descriptor);
  void read_peer(std::size_t index, PeerListener& listener);
  bool is_parent(std::size_t index) const { return rank_ > 0 && index + 1 == peers_.size(); }
  /// Null: rank 0 has none, nor has any other rank where no rank is watched.
  Connection* to_parent() { return rank_ > 0 && !peers_.empty() ? &peers_.back() : nullptr; }
  const Connection* to_parent() const {
    return rank_ > 0 && !peers_.empty() ? &peers_.back() : nullptr;
  }
  void await_ends(int milliseconds, bool of_parent);

  int rank_;
  std::string problem_;
  std::vector<Card> cards_;  // [ranks]
  HeartbeatTree tree_;
  Invitation own_, parents_;
  Descriptor wake_, events_, listener_;
  std::vector<int> neighbours_;    // the children, then the parent
  std::vector<Connection> peers_;  // to them
  std::vector<bool> ended_;        // finished sending, but are kept open
  bool keeps_open_ = false;
  Applicants applicants_;
};

/// Seconds of the monotonic clock.
double now();

}  // namespace lockstep::watch
