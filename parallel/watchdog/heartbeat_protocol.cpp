// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/heartbeat_protocol.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "core/base/check.h"

namespace lockstep::watch {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kConnectMs = 3000;  // one address
constexpr int kReachMs = 10000;   // until any address answers
constexpr int kAgainMs = 50;
constexpr int kBacklog = 1024;

/// Milliseconds until then, as far as one address may take.
int remaining_ms(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  return int(std::clamp<std::int64_t>(left.count(), 0, kConnectMs));
}

std::string reason(int code) { return std::generic_category().message(code); }

/// This host's, as others may reach it.
void list_addresses(Invitation& invitation) {
  for (const NetworkInterface& at : network_interfaces()) {
    if (invitation.addresses == Invitation::kMaxAddresses) return;
    invitation.address[invitation.addresses++] = at.address;
  }
}

/// Waits until the socket can be read or written; false at the deadline.
bool await(int socket, short events, int milliseconds) {
  pollfd waited{socket, events, 0};
  int ready = 0;
  do ready = poll(&waited, 1, milliseconds);
  while (ready < 0 && errno == EINTR);
  return ready > 0;
}

/// A connected socket, or the errno that kept it from being one.
Descriptor try_connect(const IpAddress& address,
                       std::uint16_t port,
                       Clock::time_point end,
                       int& code) {
  const int family = address.ipv6 ? AF_INET6 : AF_INET;
  Descriptor made(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_in);
  if (address.ipv6) {
    auto& to = reinterpret_cast<sockaddr_in6&>(storage);
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(port);
    std::memcpy(&to.sin6_addr, address.bytes, 16);
    size = sizeof to;
  } else {
    auto& to = reinterpret_cast<sockaddr_in&>(storage);
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    std::memcpy(&to.sin_addr, address.bytes, 4);
  }
  code = made.valid() ? 0 : errno;
  if (code == 0 && connect(made.get(), reinterpret_cast<sockaddr*>(&storage), size) != 0) {
    code = errno;
    if (code == EINPROGRESS) {
      socklen_t length = sizeof code;
      code = ETIMEDOUT;
      if (await(made.get(), POLLOUT, remaining_ms(end)))
        getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &code, &length);
    }
  }
  return code == 0 ? std::move(made) : Descriptor();
}

/// Whether `parent`, and no other process, is at the other end.
bool shake_hands(Connection& connection,
                 const Invitation& invitation,
                 int parent,
                 int own_rank,
                 Clock::time_point end) {
  connection.send(Kind::hello, Hello{invitation.secret, own_rank});
  bool known = false;
  end = std::min(end, Clock::now() + std::chrono::milliseconds(kConnectMs));
  while (!known) {
    if (!await(connection.descriptor(), POLLIN, remaining_ms(end))) return false;
    const bool open = connection.receive([&](Kind kind, std::span<const std::byte> bytes) {
      Hello hello;
      known |= kind == Kind::hello && read(bytes, hello) && hello.rank == parent &&
               same_secret(hello.secret, invitation.secret);
    });
    if (!open) return false;
  }
  return true;
}

}  // namespace

Connection::Connection(Descriptor socket, std::size_t in_bytes, std::size_t out_bytes)
    : socket_(std::move(socket)), in_(in_bytes), out_(out_bytes) {
  const int on = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool Connection::append(Kind kind, const void* message, std::size_t bytes) {
  if (!is_open()) return false;
  const MessageHeader header{std::uint32_t(kind), std::uint32_t(bytes)};
  // Without room the other end reads nothing any more.
  if (unsent_ + sizeof header + bytes > out_.size()) return false;
  std::memcpy(out_.data() + unsent_, &header, sizeof header);
  std::memcpy(out_.data() + unsent_ + sizeof header, message, bytes);
  unsent_ += sizeof header + bytes;
  return true;
}

void Connection::flush() {
  while (is_open() && unsent_ > 0) {
    const ssize_t sent = ::send(socket_.get(), out_.data(), unsent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;  // a connection that broke shows when it is read
    unsent_ -= std::size_t(sent);
    std::memmove(out_.data(), out_.data() + sent, unsent_);
  }
}

void Connection::finish_sending() {
  if (is_open()) ::shutdown(socket_.get(), SHUT_WR);
}

bool Connection::receive(const Handler& handle) {
  while (is_open()) {
    const ssize_t got =
        ::recv(socket_.get(), in_.data() + received_, in_.size() - received_, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (got <= 0) return false;
    received_ += std::size_t(got);
    if (!take_messages(handle)) return false;
  }
  return true;
}

bool Connection::take_messages(const Handler& handle) {
  std::size_t at = 0;
  MessageHeader header;
  while (received_ - at >= sizeof header) {
    std::memcpy(&header, in_.data() + at, sizeof header);
    if (header.bytes > in_.size() - sizeof header) return false;
    if (received_ - at < sizeof header + header.bytes) break;
    const std::byte* message = in_.data() + at + sizeof header;
    at += sizeof header + header.bytes;
    handle(Kind(header.kind), {message, header.bytes});
    if (!is_open()) return true;
  }
  received_ -= at;
  std::memmove(in_.data(), in_.data() + at, received_);
  return true;
}

Descriptor listen_for(int ranks, Reach reach, Invitation& invitation) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_in);
  Descriptor made;
  const auto bound = [&](int family) {
    storage.ss_family = sa_family_t(family);
    made = Descriptor(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int off = 0;
    if (made.valid() && family == AF_INET6)
      setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    return made.valid() && bind(made.get(), reinterpret_cast<sockaddr*>(&storage), size) == 0;
  };
  bool done = false;
  if (reach == Reach::every_host) {
    size = sizeof(sockaddr_in6);  // its address of zeros is that of all interfaces
    done = bound(AF_INET6);
    if (!done) storage = {};
  }
  if (!done) {  // on this host, or on one without IPv6
    size = sizeof(sockaddr_in);
    if (reach == Reach::this_host)
      reinterpret_cast<sockaddr_in&>(storage).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    done = bound(AF_INET);
  }
  LOCKSTEP_CHECK(done && listen(made.get(), std::max(ranks, kBacklog)) == 0 &&
                     getsockname(made.get(), reinterpret_cast<sockaddr*>(&storage), &size) == 0 &&
                     getrandom(invitation.secret.data(), invitation.secret.size(), 0) ==
                         ssize_t(invitation.secret.size()),
                 EnvironmentError,
                 "the watchdog cannot listen for other ranks: {}",
                 reason(errno));
  // The port lies at one place in both kinds of address.
  invitation.port = ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port);
  if (reach == Reach::every_host) list_addresses(invitation);
  return made;
}

Descriptor accept_from(const Descriptor& listener) {
  return Descriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

bool same_secret(const Secret& a, const Secret& b) {
  std::uint8_t different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) different |= std::uint8_t(a[i] ^ b[i]);
  return different == 0;
}

Connection connect_to(const Invitation& invitation,
                      int parent,
                      int own_rank,
                      bool same_host,
                      double limit_s,
                      std::size_t out_bytes) {
  LOCKSTEP_CHECK(invitation.port != 0, EnvironmentError, "rank {} does not listen", parent);
  const auto start = Clock::now();
  const auto end = start + std::chrono::milliseconds(std::int64_t(limit_s * 1e3));
  std::vector<IpAddress> addresses;
  if (same_host) addresses.push_back(ipv4_loopback());
  addresses.insert(addresses.end(), invitation.address, invitation.address + invitation.addresses);
  std::string tried;
  bool answered = false;
  for (;;) {
    tried.clear();
    bool silent = false;
    for (const IpAddress& address : addresses) {
      if (remaining_ms(end) == 0) break;
      int code = 0;
      if (Descriptor socket = try_connect(address, invitation.port, end, code); socket.valid()) {
        answered = true;
        Connection connection(std::move(socket), Connection::kCapacity, out_bytes);
        if (shake_hands(connection, invitation, parent, own_rank, end)) return connection;
      }
      silent |= code == ETIMEDOUT;
      tried += fmt::format("{}{}: {}",
                           tried.empty() ? "" : ", ",
                           to_string(address),
                           code == 0 ? "another program answers, or none" : reason(code));
    }
    // Who is turned away by all has no reason to hope. Where a process answers, or packets are
    // lost, the other rank may have too many connections at once.
    const auto patience =
        answered ? end : std::min(end, start + std::chrono::milliseconds(kReachMs));
    if ((!answered && !silent) || Clock::now() >= patience) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(kAgainMs));
  }
  throw EnvironmentError(
      fmt::format("port {}: {}",
                  invitation.port,
                  tried.empty() ? fmt::format("rank {} has no address", parent) : tried));
}

}  // namespace lockstep::watch
