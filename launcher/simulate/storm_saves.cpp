// SPDX-License-Identifier: Apache-2.0
#include "launcher/simulate/storm_saves.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

namespace lockstep {
namespace {

SnapshotPace::Time clock_of(double seconds) {
  return SnapshotPace::Time(
      std::chrono::duration_cast<MonotonicClock::duration>(std::chrono::duration<double>(seconds)));
}

double seconds_of(SnapshotPace::Time time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

StormSaves::StormSaves(const StormRequest& request)
    : r_(request),
      hosts_((request.ranks - 1) / request.ranks_per_host + 1),
      storage_(request.faults, request.storage_bytes_per_s),
      outcomes_(storage_.faults()) {
  const int writers = std::min(request.ranks, request.ranks_per_host);
  snapshot_write_s_ = request.checkpoint_bytes / (writers * request.snapshot_bytes_per_s);
}

std::int64_t StormSaves::resume_step() const { return is_in_memory() ? in_memory_ : on_disk_; }

StormSaves::Read StormSaves::read(double begin) {
  if (resume_step() == 0) return {.end = begin};
  if (is_in_memory()) {
    double end = begin + r_.checkpoint_bytes / r_.snapshot_bytes_per_s;  // each rank verifies all
    if (!without_.empty()) end += r_.checkpoint_bytes / r_.network_bytes_per_s + snapshot_write_s_;
    return {.end = end};
  }
  const StormStorage::Transfer read = storage_.move(begin, r_.checkpoint_bytes * hosts_);
  outcomes_.note(read, "reading the checkpoint", "start-up");
  return {.end = read.end, .failed = read.failed_by.has_value()};
}

void StormSaves::begin(double now) {
  if (is_in_memory())
    without_.clear();
  else
    in_memory_ = 0;  // older than the disk, or lost
  timer_.emplace(r_.every_steps, r_.every_seconds, clock_of(now));
  saved_at_ = now;
  if (r_.has_snapshots) pace_.emplace(r_.snapshot_seconds, clock_of(now));
}

void StormSaves::finish(double now) {
  if (checkpoint_ && checkpoint_->end <= now) {
    ++(checkpoint_->fails ? failed_ : checkpoints_);
    if (!checkpoint_->fails) on_disk_ = checkpoint_->step;
    checkpoint_.reset();
  }
  if (snapshot_ && snapshot_->end <= now) {
    in_memory_ = snapshot_->step;
    without_.clear();
    pace_->written(snapshot_write_s_);
    ++snapshots_;
    snapshot_.reset();
  }
}

double StormSaves::save(std::int64_t step, double now) {
  const double begin = now;
  const bool writes = checkpoint_ || snapshot_;
  if (timer_->due(step, clock_of(now)) && !checkpoint_) {
    now += r_.checkpoint_bytes / r_.ranks / r_.copy_bytes_per_s;
    timer_->taken(clock_of(now));
    saved_at_ = now;
    const double begins = snapshot_ ? std::max(now, snapshot_->end) : now;
    const StormStorage::Transfer written = storage_.move(begins, r_.checkpoint_bytes);
    outcomes_.note(written, fmt::format("the save of step {}", step), "training");
    checkpoint_ = {.step = step, .end = written.end, .fails = written.failed_by.has_value()};
  } else if (pace_ && !writes && pace_->is_due(clock_of(now))) {
    const int copiers = std::min(r_.ranks, r_.ranks_per_host);
    const double stall_s = r_.checkpoint_bytes / copiers / r_.copy_bytes_per_s;
    now += stall_s;
    pace_->taken(stall_s, clock_of(now));
    snapshot_ = {.step = step, .end = now + snapshot_write_s_};
  }
  return now - begin;
}

double StormSaves::quiet_steps(std::int64_t step, double now, double step_s, double until) const {
  if (checkpoint_)
    until = std::min(until, checkpoint_->end);
  else if (r_.every_seconds > 0)
    until = std::min(until, saved_at_ + r_.every_seconds);
  if (snapshot_)
    until = std::min(until, snapshot_->end);
  else if (pace_ && !checkpoint_)
    until = std::min(until, seconds_of(pace_->due_at()));
  double steps = (until - now) / step_s - 1;
  if (r_.every_steps > 0)
    steps = std::min(steps, double(r_.every_steps - step % r_.every_steps - 1));
  return std::max(steps, 0.0);
}

void StormSaves::cut_off() {
  if (checkpoint_) ++cut_off_;
  checkpoint_.reset();
  snapshot_.reset();
}

}  // namespace lockstep
