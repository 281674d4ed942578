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
#include <unordered_map>

#include "core/base/check.h"
#include "core/base/text/fixed_text.h"
#include "core/exec/gather_records.h"
#include "core/host/machine.h"

namespace lockstep::watch {
namespace {

constexpr std::uint64_t kWake = ~std::uint64_t{0}, kListener = kWake - 1;
constexpr std::uint64_t kApplicant = std::uint64_t{1} << 32;  // and its descriptor
constexpr rlim_t kOtherFiles = 512;
constexpr int kAcceptsATurn = 64;
constexpr useconds_t kAcceptAgainUs = 10000, kPollUs = 2000;
/// Connections that may wait unproved, in addition to one of each child.
constexpr int kMaxStrangers = 64;
/// What a rank says in a beat of each rank below it, and as much that is still on its way.
constexpr std::size_t kBytesOfARank =
    2 * (sizeof(RankSummary) + sizeof(RankBeat) + sizeof(MessageHeader) + sizeof(RankEnded));

std::size_t bytes_from_subtree(int ranks) {
  return Connection::kCapacity + std::size_t(ranks - 1) * kBytesOfARank;
}

Peers::Card own_card() {
  Peers::Card card;
  set_text(card.host, host_name());
  set_text(card.machine, machine_id());
  set_text(card.network, network_id());
  set_text(card.process_space, process_space_id());
  card.process = getpid();
  return card;
}

std::vector<Peers::Card> gather_cards(Communicator& host, bool wanted) {
  Peers::Card own = own_card();
  own.wanted = wanted ? 1 : 0;
  return host.size() == 1 ? std::vector<Peers::Card>{own} : gather_records(host, own);
}

/// A number for each loopback that ranks share.
std::vector<int> hosts_of(const std::vector<Peers::Card>& cards) {
  std::unordered_map<std::string, int> numbers;
  std::vector<int> hosts;
  for (const Peers::Card& card : cards) {
    const std::string name = std::string(card.machine) + '/' + card.network;
    hosts.push_back(numbers.try_emplace(name, int(numbers.size())).first->second);
  }
  return hosts;
}

/// Some hundred connections need more files than a few shells allow at first.
void allow_files(int connections) {
  rlimit limit{};
  const rlim_t wanted = rlim_t(connections) + kOtherFiles;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Peers::Peers(Communicator& host, bool wanted, int fan_out)
    : rank_(host.rank()),
      cards_(gather_cards(host, wanted)),
      tree_(hosts_of(cards_), fan_out),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      events_(epoll_create1(EPOLL_CLOEXEC)) {
  LOCKSTEP_CHECK(wake_.valid() && events_.valid(),
                 EnvironmentError,
                 "the watchdog of rank {} gets no files to wait with",
                 rank_);
  watch(wake_.get(), kWake);
  if (size() == 1 || !this->wanted()) return;
  const std::span<const int> children = tree_.children(rank_);
  neighbours_.assign(children.begin(), children.end());
  if (rank_ > 0) neighbours_.push_back(tree_.parent(rank_));
  peers_.resize(neighbours_.size());
  ended_.resize(neighbours_.size());
  if (has_children()) listen();
  exchange_invitations(host);
}

void Peers::listen() {
  const std::span<const int> children = tree_.children(rank_);
  const int count = int(children.size());
  allow_files(count + kMaxStrangers);
  try {
    const bool one_host = std::ranges::all_of(
        children, [&](int child) { return card(child).shares_network_of(card(rank_)); });
    listener_ = listen_for(count, one_host ? Reach::this_host : Reach::every_host, own_);
    watch(listener_.get(), kListener);
  } catch (const EnvironmentError& error) {
    problem_ = error.what();
    own_.port = 0;
  }
  applicants_ = Applicants(own_.secret, children, count + kMaxStrangers);
}

void Peers::exchange_invitations(Communicator& host) {
  std::vector<std::size_t> bytes;
  std::size_t listeners = 0, of_parent = 0;
  for (int r = 0; r < size(); ++r) {
    const bool listens = tree_.has_children(r);
    bytes.push_back(listens ? sizeof(Invitation) : 0);
    if (r == tree_.parent(rank_)) of_parent = listeners;
    listeners += listens ? 1 : 0;
  }
  std::vector<Invitation> all(listeners);
  host.all_gather_v(&own_, all.data(), bytes);
  if (rank_ > 0) parents_ = all[of_parent];
}

void Peers::connect(double limit_s) {
  LOCKSTEP_ASSERT(to_parent() != nullptr && !to_parent()->is_open());
  const int parent = tree_.parent(rank_);
  *to_parent() = connect_to(parents_,
                            parent,
                            rank_,
                            card(rank_).on_machine_of(card(parent)),
                            limit_s,
                            bytes_from_subtree(tree_.subtree_size(rank_)));
}

void Peers::begin(PeerListener& listener) {
  close_listener();
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].is_open())
      watch(peers_[i].descriptor(), i);
    else
      listener.on_closed(neighbours_[i]);
  }
}

std::size_t Peers::index_of(int rank) const {
  return std::size_t(std::ranges::find(neighbours_, rank) - neighbours_.begin());
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
  int ready = epoll_wait(events_.get(), events.data(), int(events.size()), milliseconds);
  // A stop of this process ends the wait: what has arrived meanwhile is news for the next beat.
  while (ready < 0 && errno == EINTR)
    ready = epoll_wait(events_.get(), events.data(), int(events.size()), 0);
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
      read_peer(std::size_t(tag), listener);
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
  Connection& peer = peers_[index_of(rank)];
  peer = Connection(std::move(socket), bytes_from_subtree(tree_.subtree_size(rank)));
  // What it says is read from begin() on, when this rank has a parent to pass it on to.
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, peer.descriptor(), nullptr);
  peer.send(Kind::hello, Hello{own_.secret, rank_});
}

void Peers::read_peer(std::size_t index, PeerListener& listener) {
  Connection& peer = peers_[index];
  const int from = neighbours_[index];
  const bool open = peer.receive([&](Kind kind, std::span<const std::byte> bytes) {
    Beat beat;
    Goodbye goodbye;
    RankEnded ended;
    PackedRecord record;
    Strangers strangers;
    if (kind == Kind::beat && read(bytes, beat)) listener.on_beat(from, beat);
    if (kind == Kind::summaries)
      read_each<RankSummary>(bytes, [&](const RankSummary& one) { listener.on_summary(one); });
    if (kind == Kind::details)
      read_each<RankBeat>(bytes, [&](const RankBeat& one) { listener.on_details(one); });
    if (kind == Kind::goodbye && read(bytes, goodbye)) listener.on_goodbye(from, goodbye);
    if (kind == Kind::ended && read(bytes, ended)) listener.on_ended(ended);
    if (kind == Kind::record && read(bytes, record)) listener.on_record(from, record);
    if (kind == Kind::strangers && read(bytes, strangers)) listener.on_strangers(strangers);
  });
  if (open) return;
  if (keeps_open_) {
    ended_[index] = true;
    epoll_ctl(events_.get(), EPOLL_CTL_DEL, peer.descriptor(), nullptr);
    return;
  }
  peer.close();
  listener.on_closed(from);
}

void Peers::send_beat(const Beat& beat, const HeartbeatRelay::News& news) {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (!is_idle(peers_[i])) continue;
    if (is_parent(i)) {
      // In this order: a beat must not overtake what this rank has heard of others until then.
      peers_[i].send_with_next(Kind::summaries, news.summaries);
      peers_[i].send_with_next(Kind::details, news.details);
    }
    peers_[i].send(Kind::beat, beat);
  }
}

void Peers::flush() {
  for (Connection& peer : peers_) peer.flush();
}

void Peers::resolve(int milliseconds) {
  const double end = now() + milliseconds * 1e-3;
  for (;;) {
    flush();
    const bool done = std::ranges::none_of(
        peers_, [](const Connection& peer) { return peer.is_open() && peer.has_unsent(); });
    if (done || now() >= end) return;
    usleep(kPollUs);
  }
}

void Peers::finish_sending() {
  if (Connection* const above = to_parent()) above->finish_sending();
}

void Peers::await_ends(int milliseconds, bool of_parent) {
  const auto ignore = [](Kind, std::span<const std::byte>) {};
  const double end = now() + milliseconds * 1e-3;
  for (;;) {
    bool waits = false;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      Connection& peer = peers_[i];
      if (is_parent(i) != of_parent || !peer.is_open() || ended_[i]) continue;
      peer.flush();
      ended_[i] = !peer.receive(ignore);
      waits = waits || !ended_[i];
    }
    if (!waits || now() >= end) return;
    usleep(kPollUs);
  }
}

}  // namespace lockstep::watch
