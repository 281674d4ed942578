// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/heartbeat_applicants.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>

namespace lockstep::watch {

Applicants::Applicants(const Secret& secret, std::span<const int> ranks, int places)
    : secret_(secret), ranks_(ranks.begin(), ranks.end()), places_(std::size_t(places)) {
  waiting_.reserve(places_);
}

void Applicants::add(Descriptor socket, double now) {
  if (places_ == 0) return;
  if (waiting_.size() == places_) waiting_.erase(waiting_.begin());
  waiting_.push_back({std::move(socket), now});
}

int Applicants::read(int descriptor, Descriptor& proved) {
  const auto found = std::ranges::find_if(
      waiting_, [&](const Applicant& one) { return one.socket.get() == descriptor; });
  if (found == waiting_.end()) return -1;
  Applicant& one = *found;
  while (one.got < one.bytes.size()) {
    const ssize_t got =
        ::recv(descriptor, one.bytes.data() + one.got, one.bytes.size() - one.got, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return -1;
    if (got > 0) one.got += std::size_t(got);
    if (got > 0 && !is_wrong(one)) continue;
    waiting_.erase(found);
    return -1;
  }
  const int rank = rank_of(one);
  if (rank >= 0) proved = std::move(one.socket);
  waiting_.erase(found);
  return rank;
}

bool Applicants::is_wrong(const Applicant& applicant) {
  MessageHeader header;
  if (applicant.got < sizeof header) return false;
  std::memcpy(&header, applicant.bytes.data(), sizeof header);
  return header.kind != std::uint32_t(Kind::hello) || header.bytes != sizeof(Hello);
}

int Applicants::rank_of(const Applicant& applicant) const {
  Hello hello;
  std::memcpy(&hello, applicant.bytes.data() + sizeof(MessageHeader), sizeof hello);
  const bool is_rank = std::ranges::binary_search(ranks_, hello.rank);
  return same_secret(hello.secret, secret_) && is_rank ? hello.rank : -1;
}

void Applicants::drop_late(double now) {
  std::erase_if(waiting_, [&](const Applicant& one) { return one.since < now - kProveSeconds; });
}

}  // namespace lockstep::watch
