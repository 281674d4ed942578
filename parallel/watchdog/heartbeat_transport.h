// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/exec/communicator.h"
#include "parallel/watchdog/heartbeat_applicants.h"
#include "parallel/watchdog/heartbeat_protocol.h"

namespace lockstep::watch {

/// Told what the other ranks' watchdogs say.
class PeerListener {
 public:
  virtual ~PeerListener() = default;
  virtual void on_beat(int rank, const Beat& beat) = 0;
  virtual void on_goodbye(int rank, const Goodbye& goodbye) = 0;
  virtual void on_record(int rank, const PackedRecord& record) = 0;
  virtual void on_strangers(int rank, const Strangers& strangers) = 0;
  virtual void on_closed(int rank) = 0;
};

/// The other ends of a watchdog's connections: every rank for rank 0, rank 0 for every other one.
/// After the constructor and connect(), one thread uses it; wake() may be called by any.
class Peers {
 public:
  /// Who a rank is.
  struct Card {
    char host[64] = {};
    char machine[64] = {};  ///< machine_id()
    char network[32] = {};  ///< network_id()
    std::int64_t process = 0;
    std::uint8_t wanted = 1;

    bool on_machine_of(const Card& other) const {
      return std::string_view(machine) == other.machine;
    }
    /// Whether loopback of the one is loopback of the other.
    bool shares_network_of(const Card& other) const {
      return on_machine_of(other) && *network != 0 && std::string_view(network) == other.network;
    }
  };

  /// Collective: exchanges cards, and rank 0's invitation. Rank 0 listens from here on; where it
  /// cannot, problem() says why. `wanted`, of which rank 0's word counts: without it no rank
  /// listens.
  Peers(Communicator& host, bool wanted);
  bool wanted() const { return cards_[0].wanted != 0; }
  const std::string& problem() const { return problem_; }
  /// Ranks above 0: connects to rank 0, whose thread must be at work. Throws EnvironmentError.
  void connect(double limit_s);
  /// All have connected: no other process may. Tells `listener` of who has closed since.
  void begin(PeerListener& listener);
  /// Closes all connections.
  void part();

  /// Waits at most so long for something to happen and tells `listener` of it.
  void turn(int milliseconds, PeerListener& listener);
  /// Ends a turn that waits.
  void wake();

  template <typename Message>
  void send_to_all(Kind kind, const Message& message) {
    for (Connection& peer : peers_) peer.send(kind, message);
  }
  void flush();
  /// Waits until everything is sent, or, where `gone`, until all have closed their end.
  void resolve(int milliseconds, bool gone);

  int rank() const { return rank_; }
  int size() const { return int(cards_.size()); }
  const Card& card(int rank) const { return cards_[std::size_t(rank)]; }

 private:
  int index_of(int rank) const { return rank_ == 0 ? rank : 0; }
  void watch(int descriptor, std::uint64_t tag);
  void close_listener();
  void accept_all();
  void read_applicant(int descriptor);
  void read_peer(int rank, PeerListener& listener);

  int rank_;
  bool began_ = false;  // from here on a connection that closes is a rank that ends
  std::string problem_;
  std::vector<Card> cards_;  // [ranks]
  Invitation invitation_;
  Descriptor wake_, events_, listener_;
  std::vector<Connection> peers_;  // rank 0: [ranks], its own never open; else: rank 0
  Applicants applicants_;
};

/// Seconds of the monotonic clock.
double now();

}  // namespace lockstep::watch
