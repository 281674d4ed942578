// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cuda_emulator/block_run.h"

#include <cstdlib>
#include <fmt/format.h>
#include <utility>

#include "lockstep/progress.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace lockstep::emulator {
namespace {

bool same(const Site& a, const Site& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

std::string text_of(const Site& site) {
  const std::string file = site.file_name();
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), site.line());
}

}  // namespace

Progress progress;
constinit thread_local bool watched = false;

std::string text_of(uint3 index) { return fmt::format("({}, {}, {})", index.x, index.y, index.z); }

BlockRun& block_run() {
  static BlockRun run;
  return run;
}

BlockRun::BlockRun() {
  progress.stacks = std::uintptr_t(stacks_.memory());
  progress.stack_bytes = stacks_.bytes();
}

void BlockRun::run(const Launch& launch, uint3 index) {
  if (!finished_) stacks_.give_back_all();
  finished_ = false;
  failed_ = false;
  launch_ = &launch;
  blockIdx = index;
  blockDim = launch.block;
  gridDim = launch.grid;
  const int threads = int(launch.block.x * launch.block.y * launch.block.z);
  threads_.assign(std::size_t(threads), Thread{});
  for (int i = 0; i < threads; ++i) {
    const unsigned x = launch.block.x, y = launch.block.y, n = unsigned(i);
    threads_[std::size_t(i)].index = {n % x, n / x % y, n / x / y};
  }
  do {
    for (int first = 0; first < threads; first += kWarpLanes)
      run_warp(first, std::min(first + kWarpLanes, threads));
  } while (pass_barrier());
  finished_ = true;
}

void BlockRun::enter() {
  BlockRun& run = block_run();
  arrive(run.scheduler_);
  const auto thread = std::size_t(progress.thread);
  const auto call = run.launch_->call;
  const void* arguments = run.launch_->arguments.get();
  watched = true;
  call(arguments);
  watched = false;
  if (!run.has_waited())
    run.fail(cudaErrorLaunchFailure,
             "never waited: ends without wait_for_earlier_work(), so that a dependent launch after "
             "this one could begin before what came before it is over");
  run.threads_[thread].state = State::ended;
  Context* own = run.threads_[thread].context;
  run.threads_[thread].context = nullptr;
  run.stacks_.give_back(own);
  switch_context(*own, run.scheduler_, true);
}

void BlockRun::resume(int i) {
  Thread& thread = threads_[std::size_t(i)];
  if (thread.context == nullptr) thread.context = stacks_.take(enter);
  threadIdx = thread.index;
  progress.thread = i;
  switch_context(scheduler_, *thread.context);
  if (failed_) throw Fault(status_, text_);
}

void BlockRun::wait(State state, const Site& site) {
  Thread& thread = threads_[std::size_t(progress.thread)];
  thread.state = state;
  thread.site = site;
  switch_context(*thread.context, scheduler_);
  watched = true;
}

void BlockRun::fail(cudaError_t status, std::string text) {
  watched = false;
  failed_ = true;
  status_ = status;
  text_ = fmt::format("{}: {}", place_of(progress.thread), text);
  std::string().swap(text);  // nothing on this stack is destroyed
  switch_context(*threads_[std::size_t(progress.thread)].context, scheduler_, true);
  std::abort();  // no fiber switches back
}

void BlockRun::run_warp(int first, int last) {
  do {
    for (int i = first; i < last; ++i)
      if (threads_[std::size_t(i)].state == State::ready) resume(i);
  } while (complete_warp_operation(first, last));
}

bool BlockRun::complete_warp_operation(int first, int last) {
  int stuck = -1, missing = -1;
  for (int i = first; i < last; ++i) {
    const Thread& thread = threads_[std::size_t(i)];
    if (thread.state != State::in_warp_operation) continue;
    const int lane = missing_lane(first, last, thread);
    if (lane < 0) {
      exchange(first, last, thread.mask);
      progress.warp_sync[first / kWarpLanes] = ++progress.now;
      return true;
    }
    if (stuck < 0) {
      stuck = i;
      missing = lane;
    }
  }
  if (stuck < 0) return false;
  const Thread& group = threads_[std::size_t(stuck)];
  const int absent = first + missing;
  throw Fault(cudaErrorLaunchFailure,
              fmt::format("{}: divergent warp: waits at {} for mask {:#010x}, but lane {} {}",
                          place_of(stuck),
                          text_of(group.site),
                          group.mask,
                          missing,
                          absent < last ? state_of(absent) : "does not exist"));
}

int BlockRun::missing_lane(int first, int last, const Thread& group) const {
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    if ((group.mask >> lane & 1) == 0) continue;
    if (first + lane >= last) return lane;
    const Thread& thread = threads_[std::size_t(first + lane)];
    if (thread.state != State::in_warp_operation || thread.operation != group.operation ||
        thread.mask != group.mask || !same(thread.site, group.site))
      return lane;
  }
  return -1;
}

void BlockRun::exchange(int first, int last, unsigned mask) {
  std::uint64_t brought[kWarpLanes] = {}, ballot = 0;
  for (int i = first; i < last; ++i) {
    brought[i - first] = threads_[std::size_t(i)].bits;
    if ((mask >> (i - first) & 1) != 0 && brought[i - first] != 0)
      ballot |= std::uint64_t{1} << (i - first);
  }
  for (int i = first; i < last; ++i) {
    if ((mask >> (i - first) & 1) == 0) continue;
    Thread& thread = threads_[std::size_t(i)];
    if (thread.operation == WarpOperation::ballot) thread.bits = ballot;
    if (thread.operation == WarpOperation::shuffle) {
      if ((mask >> thread.source & 1) == 0)
        throw Fault(cudaErrorLaunchFailure,
                    fmt::format("{}: divergent warp: the shuffle at {} reads lane {}, which is not "
                                "in its mask {:#010x}",
                                place_of(i),
                                text_of(thread.site),
                                thread.source,
                                mask));
      thread.bits = brought[thread.source];
    }
    thread.state = State::ready;
  }
}

bool BlockRun::pass_barrier() {
  int waiting = -1, other = -1;
  for (int i = 0; i < int(threads_.size()); ++i) {
    const Thread& thread = threads_[std::size_t(i)];
    if (thread.state == State::at_barrier && waiting < 0) waiting = i;
    const bool fits = waiting >= 0 && thread.state == State::at_barrier &&
                      same(thread.site, threads_[std::size_t(waiting)].site);
    if (!fits && other < 0) other = i;
  }
  if (waiting < 0) return false;
  if (other >= 0)
    throw Fault(cudaErrorLaunchFailure,
                fmt::format("{}: divergent barrier: {} while thread {} waits at {}",
                            place_of(other),
                            state_of(other),
                            text_of(threads_[std::size_t(waiting)].index),
                            text_of(threads_[std::size_t(waiting)].site)));
  for (Thread& thread : threads_) thread.state = State::ready;
  progress.barrier = ++progress.now;
  barrier_result_ = std::exchange(barrier_count_, 0);
  return true;
}

int BlockRun::block_barrier(bool predicate, const Site& site) {
  watched = false;
  barrier_count_ += predicate;
  wait(State::at_barrier, site);
  return barrier_result_;
}

std::uint64_t BlockRun::warp_operation(
    WarpOperation operation, unsigned mask, std::uint64_t bits, int source, const Site& site) {
  watched = false;
  Thread& thread = threads_[std::size_t(progress.thread)];
  if ((mask >> (progress.thread % kWarpLanes) & 1) == 0) {
    std::string text =
        fmt::format("divergent warp: lane {} calls at {} with mask {:#010x}, which lacks it",
                    progress.thread % kWarpLanes,
                    text_of(site),
                    mask);
    fail(cudaErrorLaunchFailure, std::move(text));
  }
  thread.operation = operation;
  thread.mask = mask;
  thread.bits = bits;
  thread.source = source & (kWarpLanes - 1);
  wait(State::in_warp_operation, site);
  return thread.bits;
}

bool BlockRun::has_waited() const { return threads_[std::size_t(progress.thread)].waited; }

void BlockRun::wait_for_predecessors(const Site& site) {
  watched = false;
  if (has_waited()) {
    std::string text =
        fmt::format("waits twice: at {} for earlier work, as it has before", text_of(site));
    fail(cudaErrorLaunchFailure, std::move(text));
  }
  threads_[std::size_t(progress.thread)].waited = true;
  watched = true;
}

void BlockRun::trigger_dependents(const Site& site) {
  watched = false;
  if (!has_waited()) {
    std::string text =
        fmt::format("triggers too early: at {}, before wait_for_earlier_work()", text_of(site));
    fail(cudaErrorLaunchFailure, std::move(text));
  }
  watched = true;
}

std::string BlockRun::place_of(int thread) const {
  return fmt::format(
      "block {}, thread {}", text_of(blockIdx), text_of(threads_[std::size_t(thread)].index));
}

std::string BlockRun::state_of(int i) const {
  const Thread& thread = threads_[std::size_t(i)];
  switch (thread.state) {
    case State::at_barrier:
      return "waits at the barrier at " + text_of(thread.site);
    case State::in_warp_operation:
      return "is at the warp operation at " + text_of(thread.site);
    case State::ended:
      return "has ended";
    case State::ready:
      break;
  }
  return "runs";
}

void block_barrier(const Site& site) { block_run().block_barrier(false, site); }
int block_barrier_count(bool predicate, const Site& site) {
  return block_run().block_barrier(predicate, site);
}
std::uint64_t warp_operation(
    WarpOperation operation, unsigned mask, std::uint64_t bits, int source, const Site& site) {
  return block_run().warp_operation(operation, mask, bits, source, site);
}
void wait_for_predecessors(const Site& site) { block_run().wait_for_predecessors(site); }
void trigger_dependents(const Site& site) { block_run().trigger_dependents(site); }
int lane() { return progress.thread % kWarpLanes; }

}  // namespace lockstep::emulator
