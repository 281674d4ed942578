// SPDX-License-Identifier: Apache-2.0
#include "core/step/step_status_ring.h"

#include "lockstep/error.h"

namespace lockstep {
namespace {

// Results that fit without an allocation: those known and not taken.
constexpr std::size_t kReserved = 8;

StepResult result_of(const StepOutcome& outcome, std::int64_t step, std::int64_t samples) {
  return {.loss = outcome.loss,
          .counted = outcome.counted,
          .accuracy = outcome.correct,
          .grad_norm = outcome.grad_norm,
          .step = step,
          .samples = samples,
          .bad = outcome.bad != 0,
          .after_bad = (outcome.bad & StepOutcome::kAfterBad) != 0};
}

}  // namespace

StepStatusRing::StepStatusRing(Backend& backend)
    : backend_(backend),
      outcome_(backend.allocate(sizeof(StepOutcome), "outcome of a step")),
      slots_(backend.allocate_host(kSlots * sizeof(Slot), "outcomes of steps")),
      late_(backend.is_host_memory(outcome_->data()) ? 0 : 1) {
  for (Pushed& pushed : pushed_) pushed.event = backend.make_event();
  known_.reserve(kReserved);
  taken_.reserve(kReserved);
  clear_error();
}

StepStatusRing::~StepStatusRing() {
  try {
    read(0);
  } catch (const Error&) {  // a lost device has no copies under way
  }
}

std::span<const StepResult> StepStatusRing::push(std::int64_t step, std::int64_t samples) {
  Pushed& pushed = pushed_[std::size_t(next_)];
  pushed.step = step;
  pushed.samples = samples;
  backend_.start_copy_to_host(
      &slots_->as<Slot>()[next_].outcome, outcome_->data(), sizeof(StepOutcome));
  backend_.record(*pushed.event);
  next_ = (next_ + 1) % kSlots;
  ++under_way_;
  read(late_);
  return take();
}

std::span<const StepResult> StepStatusRing::take_all() {
  read(0);
  return take();
}

const StepResult& StepStatusRing::newest() {
  read(0);
  return newest_;
}

void StepStatusRing::clear_error() {
  read(0);
  known_.clear();
  newest_ = {};
  const StepOutcome good;
  backend_.copy_to_device(outcome_->data(), &good, sizeof good);
}

void StepStatusRing::read(int left) {
  for (; under_way_ > left; --under_way_) {
    const int oldest = (next_ + kSlots - under_way_) % kSlots;
    const Pushed& pushed = pushed_[std::size_t(oldest)];
    pushed.event->wait();
    newest_ = result_of(slots_->as<Slot>()[oldest].outcome, pushed.step, pushed.samples);
    known_.push_back(newest_);
  }
}

std::span<const StepResult> StepStatusRing::take() {
  std::swap(known_, taken_);
  known_.clear();
  return taken_;
}

}  // namespace lockstep
