// SPDX-License-Identifier: Apache-2.0
#include "parallel/simulation/collective.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <string>
#include <utility>

#include "core/exec/dry_backend.h"
#include "lockstep/error.h"
#include "parallel/comm/ranks_per_host.h"

namespace lockstep::simulation {
namespace {

/// Messages of which a rank waits for one after another; more are under way at once.
constexpr double kMaxRounds = 64;

void make_parts(Cluster& cluster, const Members& members, Collective& c) {
  std::vector<int> order(members.ranks.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int m) { return c.keys[std::size_t(m)]; });
  c.parts.resize(members.ranks.size());
  for (std::size_t begin = 0; begin < order.size();) {
    const int color = c.keys[std::size_t(order[begin])].first;
    std::size_t end = begin;
    std::vector<int> ranks;
    while (end < order.size() && c.keys[std::size_t(order[end])].first == color)
      ranks.push_back(members.ranks[std::size_t(order[end++])]);
    const auto part = make_members(cluster.links(), std::move(ranks));
    for (; begin < end; ++begin) c.parts[std::size_t(order[begin])] = part;
  }
}

/// What members send to ranks of their host is left to their cores: the seconds that each of those
/// works for it.
double take_from_links(const LinkTimes& links, double rounds, std::vector<MemberBytes>& sent) {
  const Link& inside = links.network().inside;
  double bytes = 0;
  bool crosses = false;
  for (MemberBytes& member : sent) {
    bytes += std::exchange(member.inside, 0) / double(sent.size());
    crosses |= member.between > 0;
  }
  if (crosses || sent.size() == 1) return bytes / inside.bytes_per_s;
  return rounds * inside.latency_s + bytes / inside.bytes_per_s;
}

/// Copies what blocks hold, after all of it was read, as it may be sent from where it comes to.
void trace(Cluster& cluster, const Members& members, Collective& c) {
  const bool gathers = c.kind != CollectiveKind::all_to_all;
  const bool in_place = c.kind == CollectiveKind::gather_blocks;
  std::vector<std::vector<std::vector<Stretch>>> sent(
      members.ranks.size());  // by sender, by receiver
  for (std::size_t s = 0; s < members.ranks.size(); ++s) {
    const TracedMemory& memory = *cluster.memory(members.ranks[s]);
    const Collective::Blocks& b = c.blocks[s];
    if (gathers) sent[s].push_back(memory.read(b.send + b.from[s].offset, b.from[s].elems));
    for (const CommBlock& block : b.to)
      sent[s].push_back(memory.read(b.send + block.offset, block.elems));
  }
  for (std::size_t r = 0; r < members.ranks.size(); ++r) {
    TracedMemory& memory = *cluster.memory(members.ranks[r]);
    const Collective::Blocks& b = c.blocks[r];
    for (std::size_t s = 0; s < members.ranks.size(); ++s)
      if (!in_place || s != r) memory.write(b.receive + b.from[s].offset, sent[s][gathers ? 0 : r]);
  }
}

}  // namespace

bool holds_values(const void* memory) {
  return memory != nullptr && reinterpret_cast<std::uintptr_t>(memory) < DryBackend::kFirstAddress;
}

std::uint64_t pair_hash(std::size_t from, std::size_t to, std::int64_t elems) {
  std::uint64_t x = from * 0x9e3779b97f4a7c15u + to * 0xd1b54a32d192ed03u;
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9u;
  return (x ^ (x >> 29)) * std::uint64_t(elems);
}

std::shared_ptr<Members> make_members(const LinkTimes& links, std::vector<int> ranks) {
  auto members = std::make_shared<Members>();
  std::map<int, int> on_host;
  for (const int rank : ranks) {
    members->hosts.push_back(links.host_of(rank));
    ++on_host[members->hosts.back()];
  }
  for (const int host : members->hosts) members->near.push_back(on_host[host]);
  members->ranks_per_host = uniform_ranks_per_host(members->hosts);
  members->called.resize(ranks.size());
  members->ranks = std::move(ranks);
  return members;
}

void expect_same(const Members& members,
                 const Collective& c,
                 int member,
                 CollectiveKind kind,
                 std::uint64_t bytes,
                 int root,
                 std::uint64_t number) {
  if (c.kind == kind && c.bytes == bytes && c.root == root) return;
  throw CommError(fmt::format(
      "rank {} calls {} of {} bytes as number {} of the collectives of {} ranks, rank {} has "
      "called {} of {} bytes",
      members.ranks[std::size_t(member)],
      name_of(kind),
      bytes,
      number + 1,
      members.size(),
      members.ranks[std::size_t(c.first)],
      name_of(c.kind),
      c.bytes));
}

void complete(Cluster& cluster, const Members& members, Collective& c) {
  if (c.pairs != 0)
    throw CommError(fmt::format("an all-to-all of {} ranks: what they send is not what they expect",
                                members.size()));
  const double rounds =
      c.kind == CollectiveKind::all_to_all || c.kind == CollectiveKind::gather_blocks
          ? std::min(double(members.size() - 1), kMaxRounds)
          : double(message_count(c.kind, members.size()));
  const DeviceModel& device = cluster.options().device;
  const bool by_cores = !device.gpu && device.cores > 0;
  if (by_cores) c.core_s = take_from_links(cluster.links(), rounds, c.sent);
  const bool is_moved = by_cores && std::ranges::none_of(c.sent, [](const MemberBytes& member) {
                          return member.between > 0;
                        });
  c.end = is_moved ? c.begin : cluster.links().move(c.begin, rounds, c.sent);
  if (c.kind == CollectiveKind::split) make_parts(cluster, members, c);
  if (!c.blocks.empty()) trace(cluster, members, c);
  cluster.scheduler().note_progress();
  c.sent = {};
  c.complete = true;
  for (const int rank : c.waiting) cluster.scheduler().wake(rank);
  c.waiting = {};
}

}  // namespace lockstep::simulation
