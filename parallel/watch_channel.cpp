// SPDX-License-Identifier: Apache-2.0
#include "parallel/watch_channel.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

#include "core/base/error.h"

namespace lockstep::watch {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kConnectMs = 3000;  // one address

/// Milliseconds until then, as far as one address may take.
int time_left(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  return int(std::clamp<std::int64_t>(left.count(), 0, kConnectMs));
}

std::string reason(int code) { return std::generic_category().message(code); }

std::optional<Address> address_of(const sockaddr* from) {
  Address address;
  if (from->sa_family == AF_INET) {
    std::memcpy(address.bytes, &reinterpret_cast<const sockaddr_in*>(from)->sin_addr, 4);
    return address;
  }
  if (from->sa_family != AF_INET6) return std::nullopt;
  const in6_addr& bytes = reinterpret_cast<const sockaddr_in6*>(from)->sin6_addr;
  if (IN6_IS_ADDR_LINKLOCAL(&bytes)) return std::nullopt;  // means something on its link only
  address.ipv6 = 1;
  std::memcpy(address.bytes, &bytes, 16);
  return address;
}

/// This host's, as others may reach it: IPv4 first, no loopback.
void list_addresses(Invitation& invitation) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return;
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
      if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != family) continue;
      if ((at->ifa_flags & IFF_UP) == 0 || (at->ifa_flags & IFF_LOOPBACK) != 0) continue;
      const auto address = address_of(at->ifa_addr);
      if (!address || invitation.addresses == Invitation::kMostAddresses) continue;
      invitation.address[invitation.addresses++] = *address;
    }
  freeifaddrs(all);
}

Address loopback() {
  Address address;
  const std::uint32_t value = htonl(INADDR_LOOPBACK);
  std::memcpy(address.bytes, &value, 4);
  return address;
}

std::string to_text(const Address& address) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(address.ipv6 ? AF_INET6 : AF_INET, address.bytes, text, sizeof text);
  return text;
}

/// Waits until the socket can be read or written; false at the deadline.
bool await(int socket, short events, int milliseconds) {
  pollfd waited{socket, events, 0};
  int ready = 0;
  do ready = poll(&waited, 1, milliseconds);
  while (ready < 0 && errno == EINTR);
  return ready > 0;
}

/// A connected socket, or what kept it from being one.
Descriptor try_connect(const Address& address,
                       std::uint16_t port,
                       Clock::time_point end,
                       std::string& problem) {
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
  int code = made.valid() ? 0 : errno;
  if (code == 0 && connect(made.get(), reinterpret_cast<sockaddr*>(&storage), size) != 0) {
    code = errno;
    if (code == EINPROGRESS) {
      socklen_t length = sizeof code;
      code = ETIMEDOUT;
      if (await(made.get(), POLLOUT, time_left(end)))
        getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &code, &length);
    }
  }
  if (code == 0) return made;
  problem = reason(code);
  return Descriptor();
}

/// Whether rank 0, and nobody else, is at the other end.
bool shake_hands(Connection& connection,
                 const Invitation& invitation,
                 int own_rank,
                 Clock::time_point end) {
  connection.send(Kind::hello, Hello{invitation.secret, own_rank});
  bool known = false;
  end = std::min(end, Clock::now() + std::chrono::milliseconds(kConnectMs));
  while (!known) {
    if (!await(connection.descriptor(), POLLIN, time_left(end))) return false;
    const bool open = connection.receive([&](Kind kind, std::span<const std::byte> bytes) {
      Hello hello;
      known |= kind == Kind::hello && read(bytes, hello) && hello.rank == 0 &&
               hello.secret == invitation.secret;
    });
    if (!open) return false;
  }
  return true;
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Connection::Connection(Descriptor socket)
    : socket_(std::move(socket)), in_(kCapacity), out_(kCapacity) {
  const int on = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void Connection::send_bytes(Kind kind, const void* message, std::size_t bytes) {
  if (!is_open() || (kind == Kind::beat && unsent_ > 0)) return;
  const Header header{std::uint32_t(kind), std::uint32_t(bytes)};
  if (unsent_ + sizeof header + bytes > out_.size()) return;  // it reads nothing any more
  std::memcpy(out_.data() + unsent_, &header, sizeof header);
  std::memcpy(out_.data() + unsent_ + sizeof header, message, bytes);
  unsent_ += sizeof header + bytes;
  flush();
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
  Header header;
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

Descriptor listen_for(int ranks, Invitation& invitation) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_in6);
  auto& any = reinterpret_cast<sockaddr_in6&>(storage);
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_any;
  Descriptor made(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int off = 0;
  const auto bound = [&] {
    return made.valid() && bind(made.get(), reinterpret_cast<sockaddr*>(&storage), size) == 0;
  };
  if (made.valid()) setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (!bound()) {  // a host without IPv6
    storage = {};
    storage.ss_family = AF_INET;
    size = sizeof(sockaddr_in);
    made = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    LOCKSTEP_CHECK(bound(),
                   EnvironmentError,
                   "the watchdog of rank 0 cannot listen for the other ranks: {}",
                   reason(errno));
  }
  LOCKSTEP_CHECK(listen(made.get(), std::max(ranks, 128)) == 0 &&
                     getsockname(made.get(), reinterpret_cast<sockaddr*>(&storage), &size) == 0 &&
                     getrandom(invitation.secret.data(), invitation.secret.size(), 0) ==
                         ssize_t(invitation.secret.size()),
                 EnvironmentError,
                 "the watchdog of rank 0 cannot listen for the other ranks: {}",
                 reason(errno));
  // The port lies at one place in both kinds of address.
  invitation.port = ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port);
  list_addresses(invitation);
  return made;
}

Descriptor accept_from(const Descriptor& listener) {
  return Descriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

Connection connect_to(const Invitation& invitation, int own_rank, bool same_host, double limit_s) {
  LOCKSTEP_CHECK(invitation.port != 0, EnvironmentError, "rank 0 does not listen");
  const auto end = Clock::now() + std::chrono::milliseconds(std::int64_t(limit_s * 1e3));
  std::vector<Address> addresses;
  if (same_host) addresses.push_back(loopback());
  addresses.insert(addresses.end(), invitation.address, invitation.address + invitation.addresses);
  std::string tried;
  for (const Address& address : addresses) {
    if (time_left(end) == 0) break;
    std::string problem = "somebody else answers, or nobody";
    if (Descriptor socket = try_connect(address, invitation.port, end, problem); socket.valid()) {
      Connection connection(std::move(socket));
      if (shake_hands(connection, invitation, own_rank, end)) return connection;
    }
    tried += fmt::format("{}{}: {}", tried.empty() ? "" : ", ", to_text(address), problem);
  }
  throw EnvironmentError(
      fmt::format("port {}: {}", invitation.port, tried.empty() ? "rank 0 has no address" : tried));
}

}  // namespace lockstep::watch
