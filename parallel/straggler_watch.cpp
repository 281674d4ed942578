// SPDX-License-Identifier: Apache-2.0
#include "parallel/straggler_watch.h"

#include <map>
#include <sched.h>
#include <unistd.h>

namespace lockstep {
namespace {

/// Where a rank runs.
struct Seat {
  char host[64] = {};
  cpu_set_t cpus = {};  ///< that it may use
};

std::vector<Seat> gather_seats(Communicator& communicator) {
  Seat own;
  gethostname(own.host, sizeof own.host - 1);
  sched_getaffinity(0, sizeof own.cpus, &own.cpus);  // without an answer: none
  std::vector<Seat> seats(std::size_t(communicator.size()));
  communicator.all_gather(&own, seats.data(), sizeof own);
  return seats;
}

/// Of ranks on hosts that have more of them than processors.
std::vector<bool> crowded(const std::vector<Seat>& seats) {
  struct Host {
    int ranks = 0;
    cpu_set_t cpus = {};
  };
  std::map<std::string, Host> hosts;
  for (const Seat& seat : seats) {
    Host& host = hosts[seat.host];
    ++host.ranks;
    CPU_OR(&host.cpus, &host.cpus, &seat.cpus);
  }
  std::vector<bool> result;
  for (const Seat& seat : seats) {
    const Host& host = hosts[seat.host];
    const int cpus = CPU_COUNT(&host.cpus);
    result.push_back(cpus > 0 && host.ranks > cpus);
  }
  return result;
}

RankWork work_of(const StepTimes& times) {
  return {times.whole_loading, times.whole_compute, double(times.whole_micro_batches)};
}

}  // namespace

StragglerWatch::StragglerWatch(RankContext& context,
                               const Replica& replica,
                               const std::vector<TrainObserver*>& observers)
    : replica_(replica),
      observers_(observers),
      judges_(context.rank() == 0),
      told_(work_of(replica.times())),
      work_(std::size_t(context.size())) {
  const std::vector<Seat> seats = gather_seats(context.host_communicator());
  for (const Seat& seat : seats) hosts_.emplace_back(seat.host);
  if (judges_) scores_.emplace(crowded(seats));
}

void StragglerWatch::write(float* own) {
  const RankWork now = work_of(replica_.times());
  own[0] = float(now.loading - told_.loading);
  own[1] = float(now.compute - told_.compute);
  own[2] = float(now.micro_batches - told_.micro_batches);
  told_ = now;
}

void StragglerWatch::read(const RankParts& parts) {
  if (!judges_) return;
  for (int rank = 0; rank < parts.ranks(); ++rank) {
    const float* part = parts.of(rank);
    work_[std::size_t(rank)] = {part[0], part[1], part[2]};
  }
  scores_->add(work_, steps_);
  steps_ = 0;
  for (const RankScore& score : scores_->news())
    for (TrainObserver* observer : observers_) observer->on_slow_rank(record(score));
}

std::optional<SlowRankRecord> StragglerWatch::slowest() {
  const auto score = scores_ ? scores_->slowest() : std::nullopt;
  if (!score) return std::nullopt;
  return record(*score);
}

SlowRankRecord StragglerWatch::record(const RankScore& score) const {
  return {.rank = score.rank,
          .host = hosts_[std::size_t(score.rank)],
          .score = score.score,
          .phase = score.in_loading ? "loading" : "forward and backward",
          .ms = score.seconds * 1e3,
          .median_ms = score.median_seconds * 1e3};
}

}  // namespace lockstep
