// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/watch.h"

#include <fmt/format.h>
#include <utility>

#include "core/base/signal_masked_thread.h"

namespace lockstep::doctor {
namespace {

std::string remedy_for(const std::string& subject) {
  if (subject == "storage")
    return "--out FOLDER on another file system; sudo dmesg | tail says what this one waits for "
           "(NFS: whether its server answers)";
  for (const char* on_gpu : {"driver", "NVML", "GPU speed"})
    if (subject == on_gpu)
      return "sudo dmesg | grep -e NVRM -e Xid shows the GPU's error, sudo reboot brings its "
             "driver back; lockstep doctor --device cpu looks at the rest";
  return "sudo dmesg | tail says what the kernel waits for; sudo reboot where it does not end";
}

}  // namespace

Watch::Watch(std::chrono::milliseconds limit, GiveUp give_up)
    : limit_(limit), give_up_(std::move(give_up)) {
  thread_ = start_signal_masked_thread([this] { run(); });
}

Watch::~Watch() { stop(); }

void Watch::begin(const std::string& subject) {
  const std::lock_guard lock(mutex_);
  subject_ = subject;
  end_ = std::chrono::steady_clock::now() + limit_;
  changed_.notify_all();
}

void Watch::found(const Finding& finding) {
  const std::lock_guard lock(mutex_);
  found_.push_back(finding);
}

void Watch::pause() { begin({}); }

void Watch::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Watch::run() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    if (subject_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto end = end_;
    changed_.wait_until(lock, end);
    if (stopped_ || subject_.empty() || std::chrono::steady_clock::now() < end_) continue;
    const double seconds = std::chrono::duration<double>(limit_).count();
    found_.push_back(fail(subject_,
                          fmt::format("no answer for {:g} s: a driver or a file system hangs, and "
                                      "the checks after this one did not run",
                                      seconds),
                          remedy_for(subject_)));
    give_up_(found_);
    return;
  }
}

}  // namespace lockstep::doctor
