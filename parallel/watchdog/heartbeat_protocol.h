// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/exec/position.h"
#include "core/host/ip_address.h"
#include "parallel/watchdog/fault_record.h"

/// What watchdogs say to each other, and the TCP connections it travels over. All ranks run the
/// same program, so that messages are structures as they lie in memory.
namespace lockstep::watch {

using Secret = std::array<std::uint8_t, 16>;

enum class Kind : std::uint32_t { hello = 1, beat, goodbye, record, strangers };

/// Before every message: a Kind, and the size of what follows.
struct MessageHeader {
  std::uint32_t kind = 0, bytes = 0;
};

struct Hello {
  Secret secret{};
  std::int32_t rank = -1;
};

struct Beat {
  std::int64_t step = 0, bytes = 0, bucket = -1;
  std::uint64_t ticks = 0, collectives = 0;
  std::uint8_t stage = 0, phase = 0, traced = 0, in_collective = 0;
  char collective[32] = {};
};

struct Goodbye {
  std::uint8_t after_error = 0;
};

/// A FaultRecord, texts cut to what fits.
struct PackedRecord {
  std::int64_t process = 0, step = 0;
  std::int32_t rank = -1, exit_code = 1, seen_by = -1;
  std::uint8_t said = 0;  ///< the screen has it
  char host[64] = {}, stage[16] = {}, phase[16] = {}, collective[64] = {};
  char cause[1024] = {}, hint[512] = {};
};

/// What look_for_strangers() has found on the sender's host; empty: none any more.
struct Strangers {
  char lines[1024] = {};
};

Beat pack(const PositionNote& note, bool traced);
/// The name of its collective is `beat`'s.
PositionNote unpack(const Beat& beat);
PackedRecord pack(const FaultRecord& record, bool said);
FaultRecord unpack(const PackedRecord& record);

/// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }
  void reset() { *this = Descriptor(); }

 private:
  int number_;
};

/// One end of a connection. Never blocks, never raises SIGPIPE, allocates in the constructor only.
class Connection {
 public:
  /// Takes over a connected socket.
  explicit Connection(Descriptor socket);

  bool is_open() const { return socket_.valid(); }
  int descriptor() const { return socket_.get(); }
  void close() { socket_.reset(); }

  /// Sends what fits, the rest at flush(). A beat is skipped while older messages are on their
  /// way: the next one says more.
  template <typename Message>
  void send(Kind kind, const Message& message) {
    send_bytes(kind, &message, sizeof message);
  }
  void flush();
  bool has_unsent() const { return unsent_ > 0; }

  using Handler = std::function<void(Kind, std::span<const std::byte>)>;
  /// Calls `handle` for each whole message that has come. False once the other end has closed, or
  /// has sent what is not a message.
  bool receive(const Handler& handle);

 private:
  static constexpr std::size_t kCapacity = 4096;
  void send_bytes(Kind kind, const void* message, std::size_t bytes);
  bool take_messages(const Handler& handle);

  Descriptor socket_;
  std::vector<std::byte> in_, out_;
  std::size_t received_ = 0, unsent_ = 0;
};

/// Copies a message out of what receive() gave; false where its size is another's.
template <typename Message>
bool read(std::span<const std::byte> bytes, Message& message) {
  if (bytes.size() != sizeof message) return false;
  std::memcpy(&message, bytes.data(), sizeof message);
  return true;
}

/// Where rank 0 listens. Sent to all ranks as it is.
struct Invitation {
  static constexpr int kMaxAddresses = 16;
  Secret secret{};
  std::uint16_t port = 0;  ///< 0: it does not
  std::uint16_t addresses = 0;
  IpAddress address[kMaxAddresses];
};

/// Who may reach a listener.
enum class Reach : std::uint8_t { this_host, every_host };

/// Listens, on loopback or on all interfaces, and fills `invitation`. Throws EnvironmentError.
Descriptor listen_for(int ranks, Reach reach, Invitation& invitation);
/// The next connection that waits, or an invalid one, with errno.
Descriptor accept_from(const Descriptor& listener);
/// Without a difference in time that would tell how much of it is right.
bool same_secret(const Secret& a, const Secret& b);
/// Connects, says `hello`, and waits for rank 0's answer, again and again for `limit_s`, or for 10
/// s where no address answers at all. Loopback is tried first on `same_host`. Throws
/// EnvironmentError naming what was tried.
Connection connect_to(const Invitation& invitation, int own_rank, bool same_host, double limit_s);

}  // namespace lockstep::watch
