// SPDX-License-Identifier: Apache-2.0
#include "core/io/checkpoint/checkpoint_writer.h"

#include <chrono>
#include <csignal>
#include <new>
#include <system_error>
#include <utility>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/host/file_probe.h"
#include "core/io/folder.h"

namespace lockstep::io {
namespace {

/// While it lives, threads that this one starts take no signals: those are for the main thread.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// Short enough to need no memory.
constexpr const char* kNoMemory = "out of memory";

}  // namespace

CheckpointWriter::CheckpointWriter(std::filesystem::path folder, int keep)
    : place_{std::move(folder), keep, false} {
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    throw EnvironmentError(
        fmt::format("cannot start the thread that writes checkpoints: {}", error.what()),
        "allow more threads (ulimit -u), or start fewer ranks");
  }
}

CheckpointWriter::~CheckpointWriter() {
  // The other ranks may have gone, or never begun: what failed there is not known here.
  constexpr double kForever = 1e9;
  if (progress_ != nullptr && !idle() &&
      (!wait_for(SaveStage::writing, kGraceSeconds) ||
       !wait_for(SaveStage::part_written, kForever) || !wait_for(SaveStage::over, kGraceSeconds)))
    end_waiting("the run has ended while other ranks were saving");
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool CheckpointWriter::idle() const {
  const std::lock_guard lock(mutex_);
  return !content_.has_value();
}

void CheckpointWriter::start(CheckpointContent content, CheckpointPlace place) {
  auto progress = std::make_unique<SaveProgress>();
  {
    const std::lock_guard lock(mutex_);
    LOCKSTEP_ASSERT(!content_.has_value());
    results_.reserve(results_.size() + 1);  // so that the thread needs no memory to report
    content_ = std::move(content);
    written_into_ = std::move(place);
    progress_ = std::move(progress);
  }
  changed_.notify_all();
}

void CheckpointWriter::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !content_.has_value(); });
}

// Only start() replaces progress_, on the thread that calls these.
bool CheckpointWriter::wait_for(SaveStage stage, double seconds) {
  return progress_ == nullptr || progress_->wait_for(stage, seconds);
}

void CheckpointWriter::end_waiting(const std::string& reason, const std::string& hint) {
  if (progress_ != nullptr) progress_->end_waiting(reason, hint);
}

std::vector<CheckpointResult> CheckpointWriter::take_results() {
  const std::lock_guard lock(mutex_);
  std::vector<CheckpointResult> taken;
  if (results_.empty()) return taken;
  if (content_.has_value()) taken.reserve(1);  // the thread still needs no memory to report
  taken.swap(results_);
  return taken;
}

void CheckpointWriter::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || content_.has_value(); });
    if (!content_.has_value()) return;
    SaveProgress& progress = *progress_;
    lock.unlock();
    // start() leaves all three until content_ is empty.
    CheckpointResult result = write(*content_, written_into_, progress);
    lock.lock();
    results_.push_back(std::move(result));
    progress.set(SaveStage::over);
    const auto done = std::exchange(content_, std::nullopt);
    changed_.notify_all();
  }
}

CheckpointResult CheckpointWriter::write(const CheckpointContent& content,
                                         const CheckpointPlace& place,
                                         SaveProgress& progress) {
  CheckpointResult result;
  result.step = content.state.step;
  const auto start = std::chrono::steady_clock::now();
  bool whole = false;
  tell_probe_of_save(content.writers.rank);
  try {
    try {
      LOCKSTEP_CHECK(!place.in_memory || is_private(place.folder),
                     EnvironmentError,
                     "{}: not there any more, or open to other users",
                     as_written(place.folder.string()));
      if (!content.writers.leads()) {
        write_checkpoint_part(place.folder, content, progress);
        whole = true;
        return result;
      }
      result.path = write_checkpoint(place.folder, content, &progress);
      whole = true;
      const CheckpointState& state = content.state;
      result.not_removed = remove_old_checkpoints(place.folder,
                                                  result.step,
                                                  place.keep,
                                                  place.in_memory ? -1 : state.best_step,
                                                  place.in_memory ? -1 : state.rollback_base);
    } catch (const Error& error) {
      (whole ? result.not_removed.emplace_back() : result.error) = error.what();
      result.hint = error.hint();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      (whole ? result.not_removed.emplace_back() : result.error) = error.what();
    }
  } catch (...) {
    if (!whole) result.error = kNoMemory;
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace lockstep::io
