// SPDX-License-Identifier: Apache-2.0
#include "core/host/tcp_sockets.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <unistd.h>

namespace lockstep {
namespace {

constexpr std::size_t kMaxProcesses = 1 << 16;

template <typename Number>
std::optional<Number> number_from(std::string_view text, int base) {
  Number value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The next word of `line`, which begins after it afterwards.
std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(" \t\n"));
  line.remove_prefix(word.size());
  return word;
}

/// "0100007F:1F90": words of 32 bits as this machine reads them, and the port.
bool read_end(std::string_view text, IpAddress& address, std::uint16_t& port) {
  const std::size_t colon = text.find(':');
  if (colon != 8 && colon != 32) return false;
  const auto number = number_from<std::uint16_t>(text.substr(colon + 1), 16);
  if (!number) return false;
  IpAddress read;
  read.ipv6 = colon == 32;
  for (std::size_t i = 0; i < colon / 8; ++i) {
    const auto word = number_from<std::uint32_t>(text.substr(8 * i, 8), 16);
    if (!word) return false;
    std::memcpy(read.bytes + 4 * i, &*word, 4);
  }
  address = unmapped(read);
  port = *number;
  return true;
}

TcpSocket::State state_from(std::string_view text) {
  if (text == "0A") return TcpSocket::State::listening;
  if (text == "01" || text == "08") return TcpSocket::State::connected;
  return TcpSocket::State::other;
}

class TableFile {
 public:
  explicit TableFile(const std::string& path) : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~TableFile() {
    if (number_ >= 0) close(number_);
  }
  TableFile(const TableFile&) = delete;
  TableFile& operator=(const TableFile&) = delete;
  /// 0 at the end, and where it cannot be read.
  std::size_t read(char* to, std::size_t size) {
    const ssize_t got = number_ < 0 ? 0 : ::read(number_, to, size);
    return got > 0 ? std::size_t(got) : 0;
  }

 private:
  int number_;
};

/// The lines of `path` that are sockets. A table is as long as the host has connections, so it is
/// read in pieces.
void append_table(const std::string& path, std::vector<TcpSocket>& sockets) {
  TableFile file(path);
  std::array<char, 16384> text;
  std::size_t filled = 0;
  while (const std::size_t got = file.read(text.data() + filled, text.size() - filled)) {
    filled += got;
    std::string_view rest(text.data(), filled);
    for (std::size_t end; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1)) {
      if (sockets.size() >= kMaxTcpSockets) return;
      if (const auto socket = parse_tcp_socket(rest.substr(0, end))) sockets.push_back(*socket);
    }
    if (rest.size() == text.size()) return;  // no table has lines like that
    filled = rest.size();
    std::memmove(text.data(), rest.data(), filled);
  }
}

using Folder = std::unique_ptr<DIR, decltype([](DIR* folder) { closedir(folder); })>;

}  // namespace

std::optional<TcpSocket> parse_tcp_socket(std::string_view line) {
  TcpSocket socket;
  if (!next_word(line).ends_with(':')) return std::nullopt;
  const std::string_view local = next_word(line), remote = next_word(line);
  if (!read_end(local, socket.local, socket.local_port) ||
      !read_end(remote, socket.remote, socket.remote_port))
    return std::nullopt;
  socket.of_ipv6 = local.find(':') == 32;
  socket.state = state_from(next_word(line));
  for (int skipped = 0; skipped < 3; ++skipped) next_word(line);  // queues, timer, retransmissions
  const auto user = number_from<std::uint32_t>(next_word(line), 10);
  next_word(line);
  const auto inode = number_from<std::uint64_t>(next_word(line), 10);
  if (!user || !inode) return std::nullopt;
  socket.user = *user;
  socket.inode = *inode;
  return socket;
}

std::optional<std::uint64_t> parse_socket_inode(std::string_view link) {
  constexpr std::string_view kBegin = "socket:[";
  if (!link.starts_with(kBegin) || !link.ends_with(']')) return std::nullopt;
  link.remove_prefix(kBegin.size());
  link.remove_suffix(1);
  return number_from<std::uint64_t>(link, 10);
}

std::vector<TcpSocket> tcp_table(const std::string& process) {
  std::vector<TcpSocket> sockets;
  for (const char* table : {"tcp", "tcp6"})
    append_table(fmt::format("/proc/{}/net/{}", process, table), sockets);
  return sockets;
}

const TcpSocket* other_end(std::span<const TcpSocket> table, const TcpSocket& one) {
  const auto at = std::ranges::find_if(table, [&](const TcpSocket& other) {
    return other.local_port == one.remote_port && other.remote_port == one.local_port &&
           other.state != TcpSocket::State::listening && other.local == one.remote &&
           other.remote == one.local;
  });
  return at == table.end() ? nullptr : &*at;
}

OpenSockets open_sockets(const std::string& process) {
  OpenSockets sockets;
  const std::string path = fmt::format("/proc/{}/fd", process);
  const Folder folder(opendir(path.c_str()));
  if (!folder) return sockets;
  char link[64];
  while (const dirent* entry = readdir(folder.get())) {
    if (sockets.size() >= kMaxTcpSockets) break;
    const ssize_t size = readlinkat(dirfd(folder.get()), entry->d_name, link, sizeof link);
    if (size <= 0) continue;
    const auto inode = parse_socket_inode({link, std::size_t(size)});
    const auto number = number_from<int>(entry->d_name, 10);
    if (inode && number) sockets.emplace_back(*inode, *number);
  }
  std::ranges::sort(sockets);
  return sockets;
}

bool holds(const OpenSockets& sockets, std::uint64_t inode) {
  const auto at = std::ranges::lower_bound(sockets, inode, {}, &OpenSockets::value_type::first);
  return at != sockets.end() && at->first == inode;
}

std::vector<TcpSocket> tcp_sockets(const std::string& process) {
  const OpenSockets own = open_sockets(process);
  std::vector<TcpSocket> sockets = tcp_table(process);
  std::erase_if(sockets, [&](const TcpSocket& socket) { return !holds(own, socket.inode); });
  return sockets;
}

std::int64_t process_with_socket(std::uint64_t inode) {
  const Folder folder(opendir("/proc"));
  if (!folder || inode == 0) return 0;
  std::size_t looked_at = 0;
  while (const dirent* entry = readdir(folder.get())) {
    const auto number = number_from<std::int64_t>(entry->d_name, 10);
    if (!number) continue;
    if (++looked_at > kMaxProcesses) break;
    if (holds(open_sockets(entry->d_name), inode)) return *number;
  }
  return 0;
}

}  // namespace lockstep
