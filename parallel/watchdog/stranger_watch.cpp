// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/stranger_watch.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/base/text/fixed_text.h"
#include "parallel/watchdog/foreign_connections.h"

namespace lockstep {
namespace {

constexpr double kPatienceSeconds = 60;  // where nothing is limited
constexpr int kLooksOfAHost = 2;

}  // namespace

StrangerWatch::StrangerWatch(const watch::Peers& peers,
                             std::vector<IpAddress> job_addresses,
                             double limit_s)
    : peers_(peers),
      job_addresses_(std::move(job_addresses)),
      patience_s_(limit_s > 0 ? limit_s / 2 : kPatienceSeconds),
      looks_(looks_for_rank_zero()) {}

bool StrangerWatch::looks_for_rank_zero() const {
  const watch::Peers::Card& own = peers_.card(peers_.rank());
  if (own.shares_network_of(peers_.card(0))) return false;  // it looks itself
  int before = 0;
  for (int r = 0; r < peers_.rank(); ++r) before += peers_.card(r).shares_network_of(own) ? 1 : 0;
  return before < kLooksOfAHost;
}

std::optional<watch::Strangers> StrangerWatch::look(const PositionNote& note, double now) {
  if (!looks_) return std::nullopt;
  const std::array<std::uint64_t, 3> place{note.ticks, note.collectives, std::uint64_t(note.step)};
  if (std::exchange(place_, place) != place || progressed_ == 0) progressed_ = now;
  if (now - std::max(progressed_, looked_) < patience_s_) return std::nullopt;
  looked_ = now;
  watch::Strangers strangers;
  strangers.rank = peers_.rank();
  set_text(strangers.lines, here());
  const bool some = *strangers.lines != 0;
  if (!std::exchange(said_some_, some) && !some) return std::nullopt;
  return strangers;
}

void StrangerWatch::keep(const watch::Strangers& strangers) {
  const auto at = std::ranges::find(kept_, strangers.rank, &watch::Strangers::rank);
  if (at == kept_.end())
    kept_.push_back(strangers);
  else
    *at = strangers;
}

watch::Strangers StrangerWatch::take() {
  const watch::Strangers first = kept_.front();
  kept_.pop_front();
  return first;
}

void StrangerWatch::hear(const watch::Strangers& strangers) {
  if (peers_.rank() > 0) return keep(strangers);
  auto at = std::ranges::find(heard_, strangers.rank, &Heard::rank);
  if (at == heard_.end()) at = std::ranges::find(heard_, -1, &Heard::rank);
  if (at == heard_.end()) return;
  *at = {strangers.rank, {strangers.lines, strnlen(strangers.lines, sizeof strangers.lines)}};
}

std::string StrangerWatch::here() const {
  std::vector<RankProcess> ranks;
  const watch::Peers::Card& own = peers_.card(peers_.rank());
  for (int r = 0; r < peers_.size(); ++r)
    if (r == peers_.rank() || peers_.card(r).shares_network_of(own))
      ranks.push_back({r, peers_.card(r).process});
  return look_for_strangers(ranks, job_addresses_);
}

std::string StrangerWatch::all() const {
  std::string lines = here();
  for (const Heard& one : heard_)  // two of a host see the same
    if (lines.find(one.lines) == std::string::npos) lines += one.lines;
  return lines;
}

}  // namespace lockstep
