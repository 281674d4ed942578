// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/heartbeat_transport.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/fixed_text.h"
#include "core/exec/gather_records.h"
#include "core/host/machine.h"

namespace lockstep::watch {
namespace {

constexpr std::uint64_t kWake = ~std::uint64_t{0}, kListener = kWake - 1;
constexpr std::uint64_t kApplicant = std::uint64_t{1} << 32;  // and its descriptor
constexpr rlim_t kOtherFiles = 512;
constexpr int kAcceptsATurn = 64;
constexpr useconds_t kAcceptAgainUs = 10000;
/// Connections that may wait unproved, in addition to one of each rank.
constexpr int kMaxStrangers = 64;

Peers::Card own_card() {
  Peers::Card card;
  set_text(card.host, host_name());
  set_text(card.machine, machine_id());
  set_text(card.network, network_id());
  card.process = getpid();
  return card;
}

/// A job of a thousand ranks needs more files than most shells allow at first.
void allow_files(int ranks) {
  rlimit limit{};
  const rlim_t wanted = rlim_t(ranks) + kOtherFiles;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Peers::Peers(Communicator& host, bool wanted)
    : rank_(host.rank()),
      cards_(std::size_t(host.size())),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      events_(epoll_create1(EPOLL_CLOEXEC)) {
  LOCKSTEP_CHECK(wake_.valid() && events_.valid(),
                 EnvironmentError,
                 "the watchdog of rank {} gets no files to wait with",
                 rank_);
  watch(wake_.get(), kWake);
  if (size() == 1) {
    cards_[0] = own_card();
    return;
  }
  Card own = own_card();
  own.wanted = wanted ? 1 : 0;
  cards_ = gather_records(host, own);
  if (!this->wanted()) return;
  if (rank_ == 0) {
    allow_files(size());
    try {
      const bool one_host = std::ranges::all_of(
          cards_, [&](const Card& card) { return card.shares_network_of(cards_[0]); });
      listener_ = listen_for(size(), one_host ? Reach::this_host : Reach::every_host, invitation_);
      watch(listener_.get(), kListener);
    } catch (const EnvironmentError& error) {
      problem_ = error.what();
      invitation_.port = 0;
    }
    for (int r = 0; r < size(); ++r) peers_.emplace_back(Descriptor());
    applicants_ = Applicants(invitation_.secret, size(), size() + kMaxStrangers);
  }
  host.broadcast(&invitation_, sizeof invitation_, 0);
}

void Peers::connect(double limit_s) {
  LOCKSTEP_ASSERT(rank_ > 0 && peers_.empty());
  const bool same_host = card(rank_).on_machine_of(card(0));
  peers_.push_back(connect_to(invitation_, rank_, same_host, limit_s));
  watch(peers_[0].descriptor(), 0);
}

void Peers::begin(PeerListener& listener) {
  began_ = true;
  close_listener();
  for (int r = 1; r < size() && rank_ == 0; ++r)
    if (!peers_[std::size_t(r)].is_open()) listener.on_closed(r);
}

void Peers::part() {
  close_listener();
  for (Connection& peer : peers_) peer.close();
}

void Peers::close_listener() {
  listener_.reset();
  applicants_.clear();
}

void Peers::watch(int descriptor, std::uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor, &event);
}

void Peers::wake() {
  const std::uint64_t one = 1;
  if (::write(wake_.get(), &one, sizeof one) < 0) return;  // it is awake already
}

void Peers::turn(int milliseconds, PeerListener& listener) {
  std::array<epoll_event, 64> events;
  const int ready = epoll_wait(events_.get(), events.data(), int(events.size()), milliseconds);
  for (int i = 0; i < ready; ++i) {
    const std::uint64_t tag = events[std::size_t(i)].data.u64;
    std::uint64_t ignored = 0;
    if (tag == kWake) {
      while (::read(wake_.get(), &ignored, sizeof ignored) > 0) {
      }
    } else if (tag == kListener) {
      accept_all();
    } else if (tag >= kApplicant) {
      read_applicant(int(tag - kApplicant));
    } else {
      read_peer(int(tag), listener);
    }
  }
  applicants_.drop_late(now());
}

/// A few at a time: whoever connects faster than this thread accepts must not keep it from those
/// that are accepted.
void Peers::accept_all() {
  for (int i = 0; i < kAcceptsATurn; ++i) {
    Descriptor socket = accept_from(listener_);
    if (!socket.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      // Without files for it, it continues waiting, and would wake this thread again and again.
      if (errno != EAGAIN && errno != EWOULDBLOCK) usleep(kAcceptAgainUs);
      return;
    }
    const int descriptor = socket.get();
    watch(descriptor, kApplicant + std::uint64_t(descriptor));
    applicants_.add(std::move(socket), now());
    read_applicant(descriptor);  // a rank's proof comes with its connection
  }
}

/// Whoever knows the secret becomes a peer, in place of an earlier connection of its rank, which
/// that rank has given up.
void Peers::read_applicant(int descriptor) {
  Descriptor socket;
  const int rank = applicants_.read(descriptor, socket);
  if (rank < 0) return;
  Connection& peer = peers_[std::size_t(rank)];
  peer = Connection(std::move(socket));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = std::uint64_t(rank);
  epoll_ctl(events_.get(), EPOLL_CTL_MOD, peer.descriptor(), &event);
  peer.send(Kind::hello, Hello{invitation_.secret, 0});
}

void Peers::read_peer(int rank, PeerListener& listener) {
  Connection& peer = peers_[std::size_t(index_of(rank))];
  const bool open = peer.receive([&](Kind kind, std::span<const std::byte> bytes) {
    Beat beat;
    Goodbye goodbye;
    PackedRecord record;
    Strangers strangers;
    if (kind == Kind::beat && read(bytes, beat)) listener.on_beat(rank, beat);
    if (kind == Kind::goodbye && read(bytes, goodbye)) listener.on_goodbye(rank, goodbye);
    if (kind == Kind::record && read(bytes, record)) listener.on_record(rank, record);
    if (kind == Kind::strangers && read(bytes, strangers)) listener.on_strangers(rank, strangers);
  });
  if (open) return;
  peer.close();
  if (began_) listener.on_closed(rank);
}

void Peers::flush() {
  for (Connection& peer : peers_) peer.flush();
}

void Peers::resolve(int milliseconds, bool gone) {
  class Nobody final : public PeerListener {
    void on_beat(int, const Beat&) override {}
    void on_goodbye(int, const Goodbye&) override {}
    void on_record(int, const PackedRecord&) override {}
    void on_strangers(int, const Strangers&) override {}
    void on_closed(int) override {}
  } nobody;
  const double end = now() + milliseconds * 1e-3;
  for (;;) {
    flush();
    const bool done = std::ranges::none_of(
        peers_, [&](const Connection& p) { return p.is_open() && (gone || p.has_unsent()); });
    const int left = int((end - now()) * 1e3);
    if (done || left <= 0) return;
    turn(std::min(left, 10), nobody);
  }
}

}  // namespace lockstep::watch
