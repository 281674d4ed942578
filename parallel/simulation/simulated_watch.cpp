// SPDX-License-Identifier: Apache-2.0
#include "parallel/simulation/simulated_watch.h"

#include <algorithm>

namespace lockstep::simulation {

SimulatedWatch::SimulatedWatch(std::span<const int> hosts,
                               int fan_out,
                               const WatchLimits& limits,
                               std::uint32_t seed)
    : tree_(std::make_unique<watch::HeartbeatTree>(hosts, fan_out)),
      ranks_(hosts.size()),
      random_(seed) {
  for (int r = 0; r < tree_->ranks(); ++r) {
    at(r).node = std::make_unique<watch::HeartbeatNode>(*tree_, r, limits, 0);
    at(r).note.stage = RunStage::training;
    at(r).note.step = 5;
    at(r).next_beat = 1 + r * 7 % 5;
  }
}

void SimulatedWatch::pass(double seconds) {
  for (const double end = time_ + seconds; time_ < end && !is_over();) tick();
}

void SimulatedWatch::kill(int rank) {
  at(rank).is_dead = true;
  for (const int child : tree_->children(rank)) send(child, {rank, Closed{}});
  if (rank > 0) send(tree_->parent(rank), {rank, Closed{}});
}

void SimulatedWatch::say_goodbye(int rank, bool after_error) {
  for (const int child : tree_->children(rank)) send(child, {rank, watch::Goodbye{after_error}});
  if (rank > 0) send(tree_->parent(rank), {rank, watch::Goodbye{after_error}});
  kill(rank);
}

bool SimulatedWatch::is_over() const {
  bool any = false;
  for (const Rank& rank : ranks_) {
    if (rank.ended_at < 0 && !rank.is_dead && !rank.is_frozen) return false;
    any = any || rank.ended_at >= 0;
  }
  return any;
}

bool SimulatedWatch::is_deserted() const {
  return std::ranges::all_of(ranks_, [](const Rank& rank) {
    return rank.ended_at < 0 && (rank.is_dead || rank.is_frozen);
  });
}

void SimulatedWatch::tick() {
  time_ += kTick;
  ++ticks_;
  std::deque<Sent> arriving;
  arriving.swap(sent_);
  for (int r = 0; r < tree_->ranks(); ++r)
    if (acts(r)) at(r).node->detector().wake(time_);
  for (Sent& one : arriving) {
    // A frozen rank reads later, and one on the other side of a cut.
    const bool reads = at(one.to).reads && !at(one.to).is_frozen && reaches(one);
    if (reads && acts(one.to)) receive(one.to, one.message);
    if (!reads && !at(one.to).is_dead) sent_.push_back(std::move(one));
  }
  for (int r = 0; r < tree_->ranks(); ++r)
    if (acts(r)) turn(r);
}

void SimulatedWatch::receive(int to, const Message& message) {
  watch::HeartbeatNode& node = *at(to).node;
  const int from = message.from;
  std::optional<watch::RankEnded> ended;
  if (to == 0) count(message);
  if (const auto* beat = std::get_if<watch::Beat>(&message.content))
    node.on_beat(from, *beat, time_);
  if (const auto* news = std::get_if<News>(&message.content)) {
    for (const auto& one : news->summaries) node.on_summary(one, time_);
    for (const auto& one : news->details) node.on_details(one);
  }
  if (const auto* goodbye = std::get_if<watch::Goodbye>(&message.content))
    ended = node.on_goodbye(from, goodbye->after_error != 0, time_);
  if (std::holds_alternative<Closed>(message.content)) ended = node.on_closed(from, time_);
  if (const auto* below = std::get_if<watch::RankEnded>(&message.content))
    ended = node.on_ended(*below, time_);
  if (ended) send(tree_->parent(to), {to, *ended});
  if (const auto* record = std::get_if<Record>(&message.content)) end(to, record->rank, from);
}

void SimulatedWatch::count(const Message& message) {
  if (const auto* news = std::get_if<News>(&message.content))
    bytes_ += news->summaries.size() * sizeof(watch::RankSummary) +
              news->details.size() * sizeof(watch::RankBeat);
  if (!std::holds_alternative<watch::Beat>(message.content)) return;
  ++messages_;  // the news come with it
  bytes_ += sizeof(watch::Beat);
}

void SimulatedWatch::turn(int r) {
  Rank& rank = at(r);
  if (rank.works) ++rank.note.ticks;
  const bool beats = ticks_ >= rank.next_beat;
  if (beats) beat(r);
  if (!beats && !rank.node->judges_soon()) return;
  const auto verdict = rank.node->detector().judge(time_);
  if (!verdict) return;
  if (r == 0 || (verdict->rank == 0 && !verdict_)) verdict_ = verdict;
  end(r, verdict->rank, -1);
}

void SimulatedWatch::beat(int r) {
  at(r).next_beat = ticks_ + 5 + int(random_() % 2);
  const watch::Beat own = watch::pack(at(r).note, at(r).is_traced);
  at(r).node->on_own_beat(own, time_);
  for (const int child : tree_->children(r)) send(child, {r, own});
  if (r == 0) return;
  const watch::HeartbeatRelay::News news = at(r).node->news(time_);
  if (!news.summaries.empty() || !news.details.empty())
    send(tree_->parent(r),
         {r,
          News{{news.summaries.begin(), news.summaries.end()},
               {news.details.begin(), news.details.end()}}});
  at(r).node->mark_told();
  send(tree_->parent(r), {r, own});
}

void SimulatedWatch::end(int r, int accused, int but) {
  at(r).accused = accused;
  at(r).ended_at = time_;
  for (const int child : tree_->children(r))
    if (child != but) send(child, {r, Record{accused}});
  if (r > 0 && tree_->parent(r) != but) send(tree_->parent(r), {r, Record{accused}});
}

}  // namespace lockstep::simulation
