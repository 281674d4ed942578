// SPDX-License-Identifier: Apache-2.0
#include "core/step/fault_injector.h"

#include <chrono>
#include <csignal>
#include <memory>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

#include "core/base/check.h"

namespace lockstep {
namespace {

FaultInjector* injector = nullptr;

[[noreturn]] void wait_for_ever() {
  while (true) pause();
}

/// Allocates until the limit of the process throws std::bad_alloc. Touches no page. Calls `ran_out`
/// at that moment, before any of the memory is freed.
[[noreturn]] void exhaust_memory(const std::function<void()>& ran_out) {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  LOCKSTEP_CHECK(limit.rlim_cur != RLIM_INFINITY,
                 ConfigError,
                 "LOCKSTEP_FAULT: do=memory needs a limit, or it would exhaust the host's memory: "
                 "start the rank under prlimit --as=BYTES");
  constexpr std::size_t kPiece = std::size_t{16} << 20;
  std::vector<std::unique_ptr<std::byte[]>> pieces;
  try {
    while (true) pieces.push_back(std::make_unique_for_overwrite<std::byte[]>(kPiece));
  } catch (const std::bad_alloc&) {
    ran_out();
    throw;
  }
}

void hit_process(const PlannedFault& fault, const std::function<void()>& ran_out) {
  switch (fault.kind) {
    case FaultKind::kill:
      kill(getpid(), SIGKILL);
      wait_for_ever();
    case FaultKind::stop:
      kill(getpid(), SIGSTOP);
      return;
    case FaultKind::exit:
      _exit(0);
    case FaultKind::raise:
      throw Error("LOCKSTEP_FAULT asks for an exception here", "this is a test");
    case FaultKind::sleep:
      std::this_thread::sleep_for(std::chrono::duration<double>(fault.number));
      return;
    case FaultKind::hang:
      wait_for_ever();
    case FaultKind::memory:
      exhaust_memory(ran_out);
    default:
      return;
  }
}

}  // namespace

FaultInjector::FaultInjector(std::vector<PlannedFault> plan,
                             int rank,
                             Position& position,
                             Report report)
    : position_(position), report_(std::move(report)) {
  LOCKSTEP_ASSERT(injector == nullptr);
  for (PlannedFault& fault : plan)
    if (fault.rank < 0 || fault.rank == rank)
      plan_.push_back({.fault = fault, .left = fault.times});
  if (take(FaultKind::never_join) != nullptr) wait_for_ever();
  position_.at_phase([this](const PositionNote& note) { inject(note); });
  injector = this;
}

FaultInjector::~FaultInjector() {
  injector = nullptr;
  position_.at_phase({});
}

const PlannedFault* FaultInjector::take(FaultKind kind, std::int64_t step) {
  PositionNote note = position_.read();
  note.step = step;
  return take(kind, note);
}

const PlannedFault* FaultInjector::take(FaultKind kind, const PositionNote& note) {
  for (Due& due : plan_) {
    if (due.fault.kind != kind || !is_due(due, note)) continue;
    report(due.fault, note);
    // The step is computed once more to locate the NaN, and must meet it again.
    if (kind != FaultKind::nan) --due.left;
    return &due.fault;
  }
  return nullptr;
}

bool FaultInjector::is_due(const Due& due, const PositionNote& note) const {
  const PlannedFault& fault = due.fault;
  return due.left > 0 && (fault.step < 0 || fault.step == note.step) &&
         (fault.stage.empty() || fault.stage == name_of(note.stage)) &&
         (fault.phase.empty() || fault.phase == name_of(note.phase));
}

void FaultInjector::report(const PlannedFault& fault, const PositionNote& note) const {
  if (report_)
    report_(fmt::format("injects the fault '{}' in stage {}, phase '{}', step {}",
                        fault.text,
                        name_of(note.stage),
                        name_of(note.phase),
                        note.step));
}

void FaultInjector::inject(const PositionNote& note) {
  for (Due& due : plan_) {
    if (!hits_process(due.fault.kind) || !is_due(due, note)) continue;
    // A fault with several times is reported once.
    if (due.left-- == due.fault.times) report(due.fault, note);
    hit_process(due.fault, [&] {
      if (report_) report_(fmt::format("has run out of memory, as '{}' asks", due.fault.text));
    });
  }
}

FaultInjector* fault_injector() { return injector; }

}  // namespace lockstep
