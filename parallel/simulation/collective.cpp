// SPDX-License-Identifier: Apache-2.0
#include "parallel/simulation/collective.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <optional>
#include <span>
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

/// What blocks without gaps between them cover; nothing: there are gaps.
std::optional<CommBlock> cover_of(std::span<const CommBlock> blocks) {
  CommBlock cover;
  std::int64_t elems = 0;
  for (const CommBlock& block : blocks) {
    if (block.elems == 0) continue;
    const std::int64_t begin = elems == 0 ? block.offset : std::min(cover.offset, block.offset);
    const std::int64_t end =
        std::max(elems == 0 ? 0 : cover.offset + cover.elems, block.offset + block.elems);
    cover = {begin, end - begin};
    elems += block.elems;
  }
  if (elems != cover.elems) return std::nullopt;
  return cover;
}

/// Where each member sends all others the same: read before anything is written, as it may be sent
/// from where it comes to.
void trace_gather(Cluster& cluster, const Members& members, Collective& c) {
  const bool in_place = c.kind == CollectiveKind::gather_blocks;
  std::vector<std::vector<Stretch>> sent;
  for (std::size_t s = 0; s < members.ranks.size(); ++s) {
    const Collective::Blocks& b = c.blocks[s];
    const CommBlock own = (*b.from)[s];
    sent.push_back(cluster.memory(members.ranks[s])->read(b.send + own.offset, own.elems));
  }
  const auto& blocks = c.blocks.front().from;
  const std::optional<CommBlock> cover = cover_of(*blocks);
  if (cover && std::ranges::all_of(c.blocks, [&](const auto& b) { return b.from == blocks; })) {
    // All come to hold the same, which is one piece once it is a sum.
    TracedMemory whole;
    for (std::size_t s = 0; s < sent.size(); ++s)
      whole.write(c.blocks.front().receive + (*blocks)[s].offset, sent[s]);
    const auto all = whole.read(c.blocks.front().receive + cover->offset, cover->elems);
    for (std::size_t r = 0; r < members.ranks.size(); ++r)
      cluster.memory(members.ranks[r])->write(c.blocks[r].receive + cover->offset, all);
    return;
  }
  for (std::size_t r = 0; r < members.ranks.size(); ++r) {
    TracedMemory& memory = *cluster.memory(members.ranks[r]);
    const Collective::Blocks& b = c.blocks[r];
    for (std::size_t s = 0; s < members.ranks.size(); ++s)
      if (!in_place || s != r) memory.write(b.receive + (*b.from)[s].offset, sent[s]);
  }
}

/// No block is sent from where another comes to, so that none is in the way of another. What a
/// member sends to some receivers is read at once, as each other memory is far away.
void trace_all_to_all(Cluster& cluster, const Members& members, Collective& c) {
  constexpr std::size_t kAtOnce = 256;
  const std::size_t size = members.ranks.size();
  std::vector<std::vector<Stretch>> sent(size * std::min(size, kAtOnce));  // by receiver and sender
  for (std::size_t begin = 0; begin < size; begin += kAtOnce) {
    const std::size_t end = std::min(size, begin + kAtOnce);
    for (std::size_t s = 0; s < size; ++s) {
      const TracedMemory& memory = *cluster.memory(members.ranks[s]);
      const Collective::Blocks& from = c.blocks[s];
      for (std::size_t r = begin; r < end; ++r)
        memory.read(from.send + from.to[r].offset, from.to[r].elems, sent[(r - begin) * size + s]);
    }
    for (std::size_t r = begin; r < end; ++r) {
      TracedMemory& memory = *cluster.memory(members.ranks[r]);
      const Collective::Blocks& to = c.blocks[r];
      for (std::size_t s = 0; s < size; ++s)
        memory.write(to.receive + (*to.from)[s].offset, sent[(r - begin) * size + s]);
    }
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
  if (!c.blocks.empty()) {
    if (c.kind == CollectiveKind::all_to_all)
      trace_all_to_all(cluster, members, c);
    else
      trace_gather(cluster, members, c);
    c.blocks = {};
  }
  cluster.scheduler().note_progress();
  c.sent = {};
  c.complete = true;
  for (const int rank : c.waiting) cluster.scheduler().wake(rank);
  c.waiting = {};
}

}  // namespace lockstep::simulation
