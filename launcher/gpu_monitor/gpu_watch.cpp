// SPDX-License-Identifier: Apache-2.0
#include "launcher/gpu_monitor/gpu_watch.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <string_view>
#include <type_traits>

#include "core/base/signal_masked_thread.h"
#include "core/exec/gather_records.h"
#include "core/host/machine.h"
#include "launcher/gpu_monitor/nvml.h"
#include "lockstep/train_records.h"
#include "parallel/comm/collective_strings.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Clock::rep kNotBegun = 0;

template <std::size_t N>
void put_text(char (&to)[N], std::string_view text) {
  std::fill(std::begin(to), std::end(to), '\0');
  std::copy_n(text.begin(), std::min(text.size(), N - 1), to);
}

}  // namespace

struct GpuWatch::State {
  Settings settings;
  std::atomic<Clock::rep> begun = kNotBegun;

  std::mutex mutex;  // held for moments, never while NVML is asked
  std::condition_variable changed;
  bool stopped = false;    // the watch is to end
  bool started = false;    // NVML has answered, or could not be opened
  bool ended = false;      // `use` is complete
  bool closed = false;     // NVML as well: the thread can be joined
  bool abandoned = false;  // `use` is not waited for any more: it stays as it is
  GpuUse use;
  GpuSample newest;
  Clock::time_point newest_at;

  void set(bool& which) {
    const std::lock_guard lock(mutex);
    which = true;
    changed.notify_all();
  }

  /// Waits until then; false: the watch is to end.
  bool wait_until(Clock::time_point time) {
    std::unique_lock lock(mutex);
    return !changed.wait_until(lock, time, [this] { return stopped; });
  }
};

GpuWatch::GpuWatch(const Settings& settings) : state_(std::make_shared<State>()) {
  state_->settings = settings;
  put_text(state_->use.host, host_name());
  put_text(state_->use.device, settings.device);
  try {
    thread_ = start_signal_masked_thread([state = state_] {
      std::optional<Nvml> nvml;
      try {
        nvml.emplace(state->settings.library_folder);
        watch(*state, *nvml);
      } catch (const std::exception& error) {
        const std::lock_guard lock(state->mutex);
        if (!state->abandoned) put_text(state->use.not_watched, error.what());
      }
      state->set(state->ended);
      nvml.reset();  // may hang too
      state->set(state->closed);
    });
  } catch (const std::exception& error) {
    put_text(state_->use.not_watched, std::string("there is no thread for it: ") + error.what());
    state_->ended = state_->closed = true;
  }
}

GpuWatch::~GpuWatch() { stop(); }

void GpuWatch::watch(State& state, const Nvml& nvml) {
  std::string why;
  const Nvml::Device device = nvml.find(state.settings.device, &why);
  const bool part = device != nullptr && nvml.has_parts(device);
  const GpuValues limits = device != nullptr ? nvml.limits(device, part) : GpuValues();
  {
    const std::lock_guard lock(state.mutex);
    if (state.abandoned) return;
    state.started = true;
    put_text(state.use.not_watched, why);
    state.use.part = part;
    state.use.limits = limits;
  }
  if (device == nullptr) return;
  const Clock::duration period = state.settings.period;
  Clock::time_point next = Clock::now();
  while (state.wait_until(next)) {
    const Clock::rep begun = state.begun;
    const Clock::time_point first{Clock::duration(begun) + period}, now = Clock::now();
    if (begun == kNotBegun || now < first) {
      next = begun == kNotBegun ? now + period / 2 : first;
      continue;
    }
    const GpuSample sample = nvml.sample(device, part);
    const std::lock_guard lock(state.mutex);
    if (state.abandoned) return;
    state.use.add(sample);
    state.newest = sample;
    state.newest_at = Clock::now();
    next = std::max(next + period, state.newest_at + period / 2);  // where answers take long
  }
}

void GpuWatch::follow(TrainOptions& options, Communicator& communicator) {
  options.accepted = [this, accepted = options.accepted](bool resumed) {
    if (accepted) accepted(resumed);
    begin();
  };
  options.complete_step = [this](StepRecord& record) { record.gpu = newest(); };
  options.complete_summary = [this, &communicator](TrainSummary& summary) {
    summary.gpus = gather_gpu_use(communicator, stop());
  };
}

void GpuWatch::begin() { state_->begun = Clock::now().time_since_epoch().count(); }

std::optional<GpuSample> GpuWatch::newest() {
  State& s = *state_;
  if (const std::unique_lock lock(s.mutex, std::try_to_lock); lock) {
    const bool fresh = Clock::now() - s.newest_at <= s.settings.stale_periods * s.settings.period;
    newest_.reset();
    if (s.use.samples > 0 && fresh) newest_ = s.newest;
  }
  return newest_;
}

GpuUse GpuWatch::stop() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (!s.stopped) {
    s.stopped = true;
    s.changed.notify_all();
    const Clock::time_point end = Clock::now() + s.settings.max_wait;
    s.abandoned = !s.changed.wait_until(lock, end, [&] { return s.ended; });
    s.use.went_silent = s.abandoned;
    if (s.abandoned && !s.started) put_text(s.use.not_watched, "NVML did not start in time");
    s.changed.wait_until(lock, end, [&] { return s.closed; });
  }
  const GpuUse use = s.use;
  const bool closed = s.closed;
  lock.unlock();
  if (!thread_.joinable()) return use;
  if (closed)
    thread_.join();
  else
    thread_.detach();
  return use;
}

std::vector<GpuUse> gather_gpu_use(Communicator& communicator, const GpuUse& own) {
  // Texts, which are half of it and which many ranks have in common, travel apart.
  constexpr std::size_t kNumbers = offsetof(GpuUse, part);
  std::array<std::byte, sizeof(GpuUse) - kNumbers> numbers;
  std::memcpy(numbers.data(), reinterpret_cast<const std::byte*>(&own) + kNumbers, numbers.size());
  const auto all = gather_records(communicator, numbers);
  const auto hosts = gather_common_strings(communicator, own.host),
             devices = gather_common_strings(communicator, own.device),
             reasons = gather_common_strings(communicator, own.not_watched);
  std::vector<GpuUse> uses(all.size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    std::memcpy(reinterpret_cast<std::byte*>(&uses[r]) + kNumbers, all[r].data(), numbers.size());
    put_text(uses[r].host, hosts[r]);
    put_text(uses[r].device, devices[r]);
    put_text(uses[r].not_watched, reasons[r]);
  }
  return uses;
}

}  // namespace lockstep
