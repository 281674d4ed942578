// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/descriptor.h"
#include "core/host/ip_address.h"
#include "parallel/watchdog/heartbeat_messages.h"

/// The TCP connections that the messages of watchdogs travel over.
namespace lockstep::watch {

using lockstep::Descriptor;

/// One end of a connection. Never blocks, never raises SIGPIPE, allocates in the constructor only.
class Connection {
 public:
  /// Is closed.
  Connection() = default;
  static constexpr std::size_t kCapacity = 4096;
  /// Takes over a connected socket. Bytes that it has room for in each direction: the longest
  /// message in one, all that is on its way in the other.
  explicit Connection(Descriptor socket,
                      std::size_t in_bytes = kCapacity,
                      std::size_t out_bytes = kCapacity);

  bool is_open() const { return socket_.valid(); }
  int descriptor() const { return socket_.get(); }
  void close() { socket_.reset(); }
  /// Sends no more, and lets the other end know; still receives.
  void finish_sending();

  /// Sends what fits, the rest at flush().
  template <typename Message>
  void send(Kind kind, const Message& message) {
    if (append(kind, &message, sizeof message)) flush();
  }
  /// Has messages of one kind, if there are any, travel with what is sent next.
  template <typename Message>
  void send_with_next(Kind kind, std::span<const Message> messages) {
    if (!messages.empty()) append(kind, messages.data(), messages.size_bytes());
  }
  void flush();
  bool has_unsent() const { return unsent_ > 0; }

  using Handler = std::function<void(Kind, std::span<const std::byte>)>;
  /// Calls `handle` for each whole message that has come. False once the other end has closed, or
  /// has sent what is not a message.
  bool receive(const Handler& handle);

 private:
  bool append(Kind kind, const void* message, std::size_t bytes);
  bool take_messages(const Handler& handle);

  Descriptor socket_;
  std::vector<std::byte> in_, out_;
  std::size_t received_ = 0, unsent_ = 0;
};

/// Where a rank listens. Sent to others as it is.
struct Invitation {
  static constexpr int kMaxAddresses = 16;
  Secret secret{};
  std::uint16_t port = 0;  ///< 0: it does not
  std::uint16_t addresses = 0;
  IpAddress address[kMaxAddresses];
};

/// Who may reach a listener.
enum class Reach : std::uint8_t { this_host, every_host };

/// Listens for so many ranks, on loopback or on all interfaces, and fills `invitation`. Throws
/// EnvironmentError.
Descriptor listen_for(int ranks, Reach reach, Invitation& invitation);
/// The next connection that waits, or an invalid one, with errno.
Descriptor accept_from(const Descriptor& listener);
/// Without a difference in time that would tell how much of it is right.
bool same_secret(const Secret& a, const Secret& b);
/// Connects to `parent`, which has sent `invitation`, says `hello`, and waits for its answer, again
/// and again for `limit_s`, or for 10 s where no address answers at all. Loopback is tried first on
/// `same_host`. Throws EnvironmentError naming what was tried.
Connection connect_to(const Invitation& invitation,
                      int parent,
                      int own_rank,
                      bool same_host,
                      double limit_s,
                      std::size_t out_bytes = Connection::kCapacity);

}  // namespace lockstep::watch
