// SPDX-License-Identifier: Apache-2.0
#include "core/exec/position.h"

namespace lockstep {

std::string_view name_of(RunStage stage) {
  constexpr std::string_view kNames[] = {"start", "training", "evaluation", "saving", "end"};
  return kNames[std::size_t(stage)];
}

std::string_view name_of(Phase phase) {
  constexpr std::string_view kNames[] = {
      "", "loading", "forward", "backward", "exchange", "optimizer"};
  return kNames[std::size_t(phase)];
}

void Position::begin_collective(const CollectiveNote& note) {
  bytes_.store(note.bytes, std::memory_order_relaxed);
  bucket_.store(note.bucket, std::memory_order_relaxed);
  if (note.is_entered) collectives_.fetch_add(1, std::memory_order_relaxed);
  collective_.store(note.name, std::memory_order_relaxed);
}

void Position::end_collective() {
  collective_.store(nullptr, std::memory_order_relaxed);
  tick();
}

PositionNote Position::read() const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  PositionNote note;
  note.stage = stage_.load(kRelaxed);
  note.phase = phase_.load(kRelaxed);
  note.step = step_.load(kRelaxed);
  note.ticks = ticks_.load(kRelaxed);
  note.collectives = collectives_.load(kRelaxed);
  note.collective = {.name = collective_.load(kRelaxed),
                     .bytes = bytes_.load(kRelaxed),
                     .bucket = bucket_.load(kRelaxed)};
  return note;
}

}  // namespace lockstep
