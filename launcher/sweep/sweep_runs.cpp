// SPDX-License-Identifier: Apache-2.0
#include "launcher/sweep/sweep_runs.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "core/base/check.h"
#include "core/base/env.h"
#include "core/base/text/printable.h"
#include "core/host/cores.h"
#include "launcher/launch/launcher_output_parser.h"
#include "launcher/processes/child_process.h"
#include "launcher/processes/program_path.h"

namespace lockstep {
namespace {

/// The `index`th of `count` nearly equal parts of `items`.
template <typename T>
std::vector<T> part_of(const std::vector<T>& items, int index, int count) {
  const std::size_t size = items.size();
  const auto bound = [&](int i) {
    return items.begin() + std::ptrdiff_t(size * std::size_t(i) / std::size_t(count));
  };
  return {bound(index), bound(index + 1)};
}

/// What CUDA counts: the first `count` names in CUDA_VISIBLE_DEVICES, or 0, 1, ... where it is not
/// set.
std::vector<std::string> visible_gpus(int count) {
  std::vector<std::string> names;
  const VariableMap variables = process_variables();
  if (const auto found = variables.find("CUDA_VISIBLE_DEVICES"); found != variables.end()) {
    std::string name;
    for (const char c : found->second + ",")
      if (c != ',')
        name += c;
      else if (!name.empty())
        names.push_back(std::exchange(name, {}));
  } else {
    for (int i = 0; i < count; ++i) names.push_back(std::to_string(i));
  }
  LOCKSTEP_CHECK(names.size() >= std::size_t(count),
                 EnvironmentError,
                 "CUDA_VISIBLE_DEVICES names {} GPUs, and CUDA counts {}",
                 names.size(),
                 count);
  names.resize(std::size_t(count));
  return names;
}

/// While it lives, this process and those it starts run on `threads` alone; empty: as before.
class AffinityScope {
 public:
  explicit AffinityScope(const std::vector<int>& threads) {
    if (threads.empty() || sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    cpu_set_t chosen;
    CPU_ZERO(&chosen);
    for (const int thread : threads)
      if (thread < CPU_SETSIZE) CPU_SET(std::size_t(thread), &chosen);
    changed_ = sched_setaffinity(0, sizeof chosen, &chosen) == 0;
  }
  ~AffinityScope() {
    if (changed_) sched_setaffinity(0, sizeof before_, &before_);
  }
  AffinityScope(const AffinityScope&) = delete;
  AffinityScope& operator=(const AffinityScope&) = delete;

 private:
  cpu_set_t before_{};
  bool changed_ = false;
};

}  // namespace

SweepRuns::SweepRuns(const SweepFlags& flags, SupervisorSignals& signals)
    : flags_(flags), signals_(signals), places_(std::size_t(flags.at_once)) {
  if (flags.at_once == 1) return;
  const std::vector<std::string> gpus = visible_gpus(flags.gpus);
  std::vector<std::vector<int>> cores = threads_by_core(allowed_threads());
  // A quota may allow fewer.
  cores.resize(std::min(cores.size(), std::size_t(available_cores().count)));
  for (int i = 0; i < flags.at_once; ++i) {
    Place& place = places_[std::size_t(i)];
    for (const std::string& gpu : part_of(gpus, i, flags.at_once))
      place.gpus += (place.gpus.empty() ? "" : ",") + gpu;
    for (const std::vector<int>& core : part_of(cores, i, flags.at_once))
      place.threads.insert(place.threads.end(), core.begin(), core.end());
  }
}

SweepRuns::~SweepRuns() {
  for (const Place& place : places_)
    if (place.run != nullptr) kill(place.process, SIGTERM);
  asked_ = true;
  for (const Place& place : places_)
    while (place.run != nullptr && waitpid(place.process, nullptr, WNOHANG) == 0) {
      ask_to_stop();
      poll(nullptr, 0, 50);
    }
}

bool SweepRuns::has_room() const {
  return std::ranges::any_of(places_, [](const Place& place) { return place.run == nullptr; });
}

bool SweepRuns::empty() const {
  return std::ranges::all_of(places_, [](const Place& place) { return place.run == nullptr; });
}

void SweepRuns::start(SweepRun& run) {
  Place& place = *std::ranges::find(places_, nullptr, &Place::run);
  const int log = open(run.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  LOCKSTEP_CHECK(log >= 0,
                 EnvironmentError,
                 "{}: cannot be opened: {}",
                 run.log,
                 std::generic_category().message(errno));
  const auto log_begin = std::size_t(std::max<off_t>(0, lseek(log, 0, SEEK_END)));
  std::vector<std::string> command = run_arguments(flags_, run.configuration, run.folder);
  command.insert(command.begin(), {own_path(), "run"});
  VariableMap variables;
  if (!place.gpus.empty()) variables["CUDA_VISIBLE_DEVICES"] = place.gpus;
  try {
    const AffinityScope cores(place.threads);
    place.process = spawn(command, variables, signals_.before(), log, log);
  } catch (...) {
    close(log);
    throw;
  }
  close(log);
  place.run = &run;
  place.log_begin = log_begin;
  place.started = std::chrono::steady_clock::now();
}

SweepRun* SweepRuns::wait() {
  for (bool slept = false;; slept = true) {
    ask_to_stop();
    for (Place& place : places_) {
      int status = 0;
      if (place.run == nullptr || waitpid(place.process, &status, WNOHANG) != place.process)
        continue;
      SweepRun* const run = place.run;
      conclude(place, status);
      return run;
    }
    if (slept) return nullptr;
    // Also readable at the end of a child.
    pollfd waited{signals_.descriptor(), POLLIN, 0};
    poll(&waited, 1, 1000);
  }
}

void SweepRuns::ask_to_stop() {
  signals_.read();
  const auto send = [&](int signal) {
    for (const Place& place : places_)
      if (place.run != nullptr) kill(place.process, signal);
  };
  if (signals_.requested() && !std::exchange(asked_, true)) send(SIGTERM);
  if (signals_.at_once() && !std::exchange(asked_at_once_, true)) {
    // Two interrupts are what tells `lockstep run` not to wait for a checkpoint.
    send(SIGINT);
    poll(nullptr, 0, 50);
    send(SIGINT);
  }
}

void SweepRuns::conclude(Place& place, int status) {
  SweepRun& run = *place.run;
  place.run = nullptr;
  run.seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - place.started).count();
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (code == int(ExitCode::done)) {
    run.error = read_numbers(run);
    run.state = run.error.empty() ? SweepRun::State::done : SweepRun::State::failed;
    return;
  }
  if (code == int(ExitCode::requeue) || signals_.requested()) {
    run.state = SweepRun::State::stopped;
    return;
  }
  const std::string why = printable(last_error_in(run.log, place.log_begin), 400);
  run.state = SweepRun::State::failed;
  run.error = fmt::format("exit code {}{}{}; see {}", code, why.empty() ? "" : ": ", why, run.log);
}

}  // namespace lockstep
