// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_link.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "core/base/check.h"
#include "parallel/comm/dead_rank_error.h"
#include "parallel/comm/mpi_session.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds, std::chrono::milliseconds;

constexpr auto kJoinPoll = milliseconds(5);
constexpr auto kLeaveLimit = std::chrono::seconds(10);
/// More than a watchdog waits for a failure's report before it takes a rank for dead, and less than
/// a rank waits for the others with its own error (ErrorConsensus).
constexpr auto kUntilDeathIsKnown = milliseconds(800);

/// Between two looks at a call that is under way: most take some tens of microseconds, the first of
/// a kind, which connects to other ranks, much longer.
class Pause {
 public:
  void wait() {
    if (Clock::now() < begin_ + kShort) return std::this_thread::yield();
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(2 * sleep_, microseconds(1000));
  }

 private:
  static constexpr microseconds kShort{300};
  const Clock::time_point begin_ = Clock::now();
  microseconds sleep_{50};
};

Clock::time_point end_after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// Parts share nothing with what they were split from: an exchange works with several at a time, on
/// two streams, and NCCL has those that share work one after the other.
ncclConfig_t join_config() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 0;
  return config;
}

}  // namespace

void NcclFailure::keep(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (!any()) text_ = text;
  any_.store(true, std::memory_order_release);
}

void NcclFailure::keep_death(const std::string& text) {
  const std::lock_guard lock(mutex_);
  text_ = text;
  is_death_ = true;
  any_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void NcclFailure::throw_if_any() const {
  if (!any()) return;
  std::unique_lock lock(mutex_);
  if (MpiSession::ranks_outlive())
    changed_.wait_for(lock, kUntilDeathIsKnown, [this] { return is_death_; });
  if (!is_death_) throw CommError(text_, nccl_network_hint());
  const std::string text = text_;
  lock.unlock();
  MpiSession::note_lost_rank();
  throw DeadRankError(text, nccl_network_hint());
}

const char* nccl_network_hint() {
  return "look for the first error in the run's logs: a rank or its host may be gone; "
         "NCCL_DEBUG=WARN makes NCCL say more; where it takes a network that does not reach the "
         "other hosts, NCCL_SOCKET_IFNAME=<interface> names the one that does; a firewall must let "
         "the hosts' ports through";
}

NcclLink::~NcclLink() {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return;
  if (std::uncaught_exceptions() > exceptions_ || failure_.any())
    give_up();
  else
    finish();
}

std::string NcclLink::join(std::span<ncclUniqueId> ids, double limit_s) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point end = end_after(limit_s);
  ncclConfig_t config = join_config();
  const ncclResult_t status = await(
      nccl_.ncclCommInitRankScalable(&comm_, size_, rank_, int(ids.size()), ids.data(), &config),
      end);
  if (status == ncclSuccess) return {};
  const std::string text = describe_join(status, limit_s);
  give_up();
  return text;
}

std::string NcclLink::split(NcclLink* part, int color, double limit_s) {
  const std::lock_guard lock(mutex_);
  if (failure_.any()) give_up();
  if (comm_ == nullptr) return "the communicator to be split has been given up";
  const Clock::time_point end = end_after(limit_s);
  ncclConfig_t config = join_config();
  const auto made = std::make_shared<ncclComm_t>(nullptr);
  ncclResult_t status = nccl_.ncclCommSplit(comm_,
                                            part == nullptr ? NCCL_SPLIT_NOCOLOR : color,
                                            part == nullptr ? 0 : part->rank_,
                                            made.get(),
                                            &config);
  // NCCL 2.28.9 returns success while it is still at work; the communicator that is split knows.
  status = await(status == ncclSuccess ? ncclInProgress : status, end);
  if (status == ncclSuccess && part == nullptr) return {};
  if (status == ncclSuccess) {
    // NCCL has filled it by now, and may still be at work on it.
    const std::lock_guard part_lock(part->mutex_);
    part->comm_ = *made;
    status = part->await(part->async_status(), end);
    if (status == ncclSuccess) return {};
    const std::string text = part->describe_join(status, limit_s);
    part->give_up();
    give_up();
    return text;
  }
  const std::string text = describe_join(status, limit_s);
  aborts_.start(nccl_, std::exchange(comm_, nullptr), made);
  return text;
}

/// Waits until nothing is under way, until `end` at most.
ncclResult_t NcclLink::await(ncclResult_t status, Clock::time_point end) const {
  while (status == ncclInProgress && comm_ != nullptr && Clock::now() < end) {
    std::this_thread::sleep_for(kJoinPoll);
    status = async_status();
  }
  return status;
}

std::string NcclLink::describe_join(ncclResult_t status, double limit_s) const {
  return status == ncclInProgress
             ? fmt::format("not all of the {} ranks had joined after {} s", size_, limit_s)
             : error_text(nccl_, status, comm_);
}

void NcclLink::look() {
  const std::lock_guard lock(mutex_);
  look_locked();
}

void NcclLink::look_aside() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) look_locked();
}

void NcclLink::look_locked() {
  if (comm_ == nullptr) return;
  if (failure_.any()) return give_up();
  const ncclResult_t status = async_status();
  if (status != ncclSuccess && status != ncclInProgress) fail(status, "an earlier call");
}

void NcclLink::abort() {
  const std::lock_guard lock(mutex_);
  give_up();
}

// Not from two threads at once: where a call has ended, asking frees what NCCL did it with.
ncclResult_t NcclLink::async_status() const {
  ncclResult_t status = ncclSuccess;
  const ncclResult_t asked = nccl_.ncclCommGetAsyncError(comm_, &status);
  return asked != ncclSuccess ? asked : status;
}

std::string NcclLink::describe(ncclResult_t status, const char* what) const {
  return fmt::format(
      "rank {} of {}: NCCL: {}: {}", rank_, size_, what, error_text(nccl_, status, comm_));
}

void NcclLink::require_alive() {
  if (failure_.any()) give_up();
  failure_.throw_if_any();
  LOCKSTEP_CHECK(comm_ != nullptr,
                 CommError,
                 "rank {} of {}: NCCL: the communicator has been given up",
                 rank_,
                 size_);
}

void NcclLink::resolve(std::unique_lock<std::mutex>& lock, ncclResult_t status, const char* what) {
  for (Pause pause; status == ncclInProgress; status = async_status()) {
    lock.unlock();
    pause.wait();
    lock.lock();
    require_alive();
  }
  if (status == ncclSuccess) return;
  fail(status, what);
  failure_.throw_if_any();
}

void NcclLink::fail(ncclResult_t status, const char* what) {
  failure_.keep(describe(status, what));
  give_up();
}

void NcclLink::give_up() {
  if (comm_ != nullptr) aborts_.start(nccl_, std::exchange(comm_, nullptr));
}

void NcclLink::finish() {
  const auto end = Clock::now() + kLeaveLimit;
  ncclResult_t status = nccl_.ncclCommFinalize(comm_);
  for (Pause pause; status == ncclInProgress && Clock::now() < end; status = async_status())
    pause.wait();
  if (status == ncclSuccess)
    nccl_.ncclCommDestroy(std::exchange(comm_, nullptr));
  else
    give_up();
}

}  // namespace lockstep
