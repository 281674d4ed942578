// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <sched.h>
#include <system_error>
#include <thread>

#include "core/base/check.h"
#include "core/data/loader_slot.h"
#include "core/data/worker_control.h"

namespace lockstep::data {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxAutomaticWorkers = 8;
/// Where training loads by itself, every so many micro-batches tell how fast: not always the same
/// one of a step, whose first finds the caches full of other things.
constexpr std::int64_t kInlineTimedEvery = 7;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void check(const Dataset& dataset, const LoaderOptions& options) {
  LOCKSTEP_CHECK(options.workers >= -1 && options.workers <= Loader::kMaxWorkers,
                 ConfigError,
                 "`workers`: expected auto or 0 to {}, got {}",
                 Loader::kMaxWorkers,
                 options.workers);
  LOCKSTEP_CHECK(options.slots >= 2 && options.slots <= Loader::kMaxSlots,
                 ConfigError,
                 "loader: expected 2 to {} slots, got {}",
                 Loader::kMaxSlots,
                 options.slots);
  LOCKSTEP_CHECK(options.held >= 1 && options.held <= Loader::kMaxSlots,
                 ConfigError,
                 "loader: expected 1 to {} micro-batches to be held, got {}",
                 Loader::kMaxSlots,
                 options.held);
  LOCKSTEP_CHECK(options.micro_batch >= 1,
                 ConfigError,
                 "loader: expected a micro-batch of at least 1 sample, got {}",
                 options.micro_batch);
  check_images(dataset, options);
}

/// Fastest of three loads of one micro-batch, in microseconds; nothing where a sample fails, which
/// is for next() to report.
std::optional<double> measure(const Dataset& dataset, LoaderOptions options) {
  options.allocate = {};  // asked for the slots alone
  LoaderSlot slot(dataset, options);
  for (std::int64_t i = 0; i < options.micro_batch; ++i)
    slot.request.samples.push_back(i % dataset.size());
  double best = 1e30;
  try {
    for (std::uint64_t i = 0; i < 3; ++i) {
      slot.request.epoch = i;  // other images of an endless source, as in training
      const auto start = Clock::now();
      slot.fill(dataset, options);
      best = std::min(best, seconds_since(start) * 1e6);
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return best;
}

int choose_workers(const Dataset& dataset, const LoaderOptions& options) {
  if (options.workers >= 0) return options.workers;
  const auto microseconds = measure(dataset, options);
  return microseconds && *microseconds < Loader::kInlineMicroseconds ? 0 : 1;
}

/// CPUs that this process may run on.
int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

/// Threads to begin with, the most there can be, and the slots that those need.
struct Staff {
  int workers = 0, most = 0, slots = 0;
};

/// With `workers` at first.
Staff staff_of(int workers, const LoaderOptions& options) {
  Staff staff{.workers = workers, .most = workers};
  if (options.workers < 0 && workers > 0)
    staff.most = std::min(usable_cpus(), kMaxAutomaticWorkers);
  // Each worker fills one while training uses `held` and the next is ready.
  staff.slots =
      workers == 0 ? options.held : std::max(options.slots, staff.most + 1 + options.held);
  return staff;
}

Staff choose_staff(const Dataset& dataset, const LoaderOptions& options) {
  check(dataset, options);
  return staff_of(choose_workers(dataset, options), options);
}

}  // namespace

/// Requests are numbered 0, 1, 2, ... ; number i lives in slot i % slots. A worker takes the next
/// number under `request_mutex_`, fills the slot with no lock held, and marks it under `mutex_`.
/// The slot is its own from then until next() has given the batch out and been called `held` times
/// again.
class Loader::State {
 public:
  State(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options, NextRequest next)
      : dataset_(std::move(dataset)), options_(options), next_request_(std::move(next)) {
    const Staff staff = choose_staff(*dataset_, options_);
    wanted_ = staff.workers;
    if (options_.workers < 0 && wanted_ > 0) control_.emplace(staff.most);
    slots_.reserve(std::size_t(staff.slots));
    for (int i = 0; i < staff.slots; ++i) slots_.emplace_back(*dataset_, options_);
    try {
      start_threads();
    } catch (...) {
      stop();
      throw;
    }
  }

  ~State() { stop(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  LoadedBatch next() {
    if (threads_.empty()) return deliver(load_inline());
    const auto start = control_ ? Clock::now() : Clock::time_point();
    const LoaderSlot& slot = wait_for_slot();
    if (control_) control(start, seconds_since(start));
    if (slot.error) std::rethrow_exception(slot.error);
    return deliver(slot);
  }

  int workers() const {
    const std::lock_guard lock(mutex_);
    return wanted_;
  }
  double samples_per_second() const {
    const std::lock_guard lock(mutex_);
    return fill_seconds_ > 0 ? double(filled_) / fill_seconds_ * std::max(1, wanted_) : 0;
  }
  const std::set<std::int64_t>& skipped_samples() const { return skipped_; }
  const std::string& first_skipped() const { return first_skipped_; }
  std::size_t memory_bytes() const {
    std::size_t bytes = 0;
    for (const LoaderSlot& slot : slots_) bytes += slot.memory_bytes();
    return bytes;
  }

 private:
  LoaderSlot& load_inline() {
    LoaderSlot& slot = slots_[std::size_t(inline_slot_)];
    inline_slot_ = (inline_slot_ + 1) % options_.held;
    slot.request.samples.clear();
    slot.request.copies.clear();
    LOCKSTEP_ASSERT(end_ == kNoEnd);
    end_ = delivered_;  // unless this request comes out
    LOCKSTEP_ASSERT(next_request_(slot.request));
    end_ = kNoEnd;
    const bool is_timed = inline_loads_++ % kInlineTimedEvery == 0;
    const auto start = is_timed ? Clock::now() : Clock::time_point();
    slot.fill(*dataset_, options_);
    if (!is_timed) return slot;
    const std::lock_guard lock(mutex_);
    count_time(slot, seconds_since(start));
    return slot;
  }

  /// Adds a filled slot to what is reported. Under mutex_.
  void count_time(const LoaderSlot& slot, double seconds) {
    fill_seconds_ += seconds;
    filled_ += std::int64_t(slot.request.samples.size());
  }
  /// What is loaded ahead and never asked for is not counted: how much depends on the workers.
  LoadedBatch deliver(const LoaderSlot& slot) {
    if (!slot.skipped.empty() && skipped_.empty()) first_skipped_ = slot.first_skipped;
    skipped_.insert(slot.skipped.begin(), slot.skipped.end());
    return slot.batch();
  }

  /// Tells the control of one micro-batch, and does what it says.
  void control(Clock::time_point start, double waited) {
    double busy = 0;
    {
      const std::lock_guard lock(mutex_);
      busy = fill_seconds_;
    }
    const double now = std::chrono::duration<double>(start.time_since_epoch()).count();
    const int workers = control_->after_batch(now, waited, busy);
    if (workers == wanted_) return;
    {
      const std::lock_guard lock(mutex_);
      wanted_ = workers;
    }
    try {
      start_threads();
    } catch (const EnvironmentError&) {  // those that there are continue
      const std::lock_guard lock(mutex_);
      wanted_ = int(threads_.size());
    }
    unparked_.notify_all();
  }

  /// Threads for all workers that are wanted; those beyond are parked, not ended.
  void start_threads() {
    try {
      while (int(threads_.size()) < wanted_)
        threads_.emplace_back([this, number = int(threads_.size())] { work(number); });
    } catch (const std::system_error& error) {
      throw EnvironmentError(fmt::format("data: cannot start a loading thread: {}", error.what()),
                             "allow more threads (ulimit -u), or load without: `workers` 0");
    }
  }

  LoaderSlot& wait_for_slot() {
    std::unique_lock lock(mutex_);
    if (delivered_ - released_ == std::uint64_t(options_.held)) {
      LoaderSlot& oldest = slot_of(released_);
      oldest.filled = false;
      oldest.error = nullptr;
      ++released_;
      slot_free_.notify_one();
    }
    LoaderSlot& slot = slot_of(delivered_);
    slot_filled_.wait(lock, [&] { return slot.filled || end_ == delivered_; });
    LOCKSTEP_ASSERT(slot.filled);
    ++delivered_;
    return slot;
  }

  void work(int number) {
    while (LoaderSlot* slot = take_request(number)) {
      const auto start = Clock::now();
      if (!slot->error) {
        try {
          slot->fill(*dataset_, options_);
        } catch (...) {
          slot->error = std::current_exception();
        }
      }
      const std::lock_guard lock(mutex_);
      if (!slot->error) count_time(*slot, seconds_since(start));
      slot->filled = true;
      slot_filled_.notify_one();
    }
  }

  /// The slot of the next request, the request (or the error of asking for it) in it; null when
  /// there are no more or the loader ends. Only the worker that holds `request_mutex_` waits for a
  /// free slot; the others queue after it.
  LoaderSlot* take_request(int worker) {
    {
      std::unique_lock lock(mutex_);
      unparked_.wait(lock, [&] { return stopping_ || end_ != kNoEnd || worker < wanted_; });
    }
    const std::lock_guard asking(request_mutex_);
    {
      std::unique_lock lock(mutex_);
      slot_free_.wait(
          lock, [&] { return stopping_ || end_ != kNoEnd || taken_ < released_ + slots_.size(); });
      if (stopping_ || end_ != kNoEnd) return nullptr;
    }
    LoaderSlot& slot = slot_of(taken_);
    slot.request.samples.clear();
    slot.request.copies.clear();
    bool more = true;
    try {
      more = next_request_(slot.request);
    } catch (...) {
      slot.error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    if (more) ++taken_;
    if (!more || slot.error) {
      end_ = taken_;
      unparked_.notify_all();
    }
    if (!more) slot_filled_.notify_one();
    return more ? &slot : nullptr;
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    slot_free_.notify_all();
    unparked_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  LoaderSlot& slot_of(std::uint64_t number) { return slots_[number % slots_.size()]; }

  static constexpr std::uint64_t kNoEnd = ~std::uint64_t{0};

  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  NextRequest next_request_;  // under request_mutex_ where there are workers
  std::vector<LoaderSlot> slots_;

  std::mutex request_mutex_;  // locked before mutex_
  mutable std::mutex mutex_;
  std::condition_variable unparked_;
  std::condition_variable slot_free_;
  std::condition_variable slot_filled_;
  std::uint64_t taken_ = 0;      // requests taken by workers; written under both mutexes
  std::uint64_t released_ = 0;   // batches whose slot is free again; `held` fewer than delivered
  std::uint64_t delivered_ = 0;  // batches given out by next()
  std::uint64_t end_ = kNoEnd;   // number of the request that does not exist
  bool stopping_ = false;

  int wanted_ = 0;           // workers; changed by the training thread, under mutex_
  double fill_seconds_ = 0;  // of all workers together
  std::int64_t filled_ = 0;  // samples, in fill_seconds_

  // training thread alone
  std::set<std::int64_t> skipped_;
  std::string first_skipped_;
  int inline_slot_ = 0;  // the next that load_inline() fills
  std::int64_t inline_loads_ = 0;
  std::optional<WorkerControl> control_;  // --workers auto, where there are workers
  std::vector<std::thread> threads_;
};

Loader::Loader(std::shared_ptr<const Dataset> dataset,
               const LoaderOptions& options,
               NextRequest next_request)
    : state_(std::make_unique<State>(std::move(dataset), options, std::move(next_request))) {}

Loader::~Loader() = default;

LoadedBatch Loader::next() { return state_->next(); }
int Loader::workers() const { return state_->workers(); }
double Loader::samples_per_second() const { return state_->samples_per_second(); }
const std::set<std::int64_t>& Loader::skipped_samples() const { return state_->skipped_samples(); }
std::string Loader::first_skipped() const { return state_->first_skipped(); }
std::size_t Loader::memory_bytes() const { return state_->memory_bytes(); }

int Loader::max_threads(const LoaderOptions& options) {
  return std::max(1, staff_of(options.workers < 0 ? 1 : options.workers, options).most);
}

std::size_t Loader::memory_bytes(const Dataset& dataset, const LoaderOptions& options) {
  check(dataset, options);
  const Staff staff = staff_of(options.workers < 0 ? 1 : options.workers, options);
  LoaderOptions without_memory = options;
  without_memory.allocate = [](std::size_t) { return std::shared_ptr<std::byte[]>(); };
  return LoaderSlot(dataset, without_memory).memory_bytes() * std::size_t(staff.slots);
}

}  // namespace lockstep::data
