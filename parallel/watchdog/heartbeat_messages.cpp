// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/heartbeat_messages.h"

#include <algorithm>
#include <string_view>

namespace lockstep::watch {
namespace {

template <std::size_t N>
void fill(char (&to)[N], std::string_view text) {
  const std::size_t size = std::min(text.size(), N - 1);
  std::copy_n(text.begin(), size, to);
  std::fill(to + size, to + N, '\0');
}

/// Whatever came over the wire ends where its array does.
template <std::size_t N>
std::string text_of(const char (&from)[N]) {
  return {from, std::find(from, from + N, '\0')};
}

}  // namespace

Beat pack(const PositionNote& note, bool traced) {
  Beat beat;
  beat.step = note.step;
  beat.bytes = note.collective.bytes;
  beat.bucket = note.collective.bucket;
  beat.ticks = note.ticks;
  beat.collectives = note.collectives;
  beat.stage = std::uint8_t(note.stage);
  beat.phase = std::uint8_t(note.phase);
  beat.traced = traced ? 1 : 0;
  beat.in_collective = note.collective.name != nullptr ? 1 : 0;
  if (note.collective.name != nullptr) fill(beat.collective, note.collective.name);
  return beat;
}

PositionNote unpack(const Beat& beat) {
  PositionNote note;
  note.stage = RunStage(std::min(beat.stage, std::uint8_t(RunStage::end)));
  note.phase = Phase(std::min(beat.phase, std::uint8_t(Phase::optimizer)));
  note.step = beat.step;
  note.ticks = beat.ticks;
  note.collectives = beat.collectives;
  note.collective = {beat.in_collective != 0 ? beat.collective : nullptr, beat.bytes, beat.bucket};
  return note;
}

PackedRecord pack(const FaultRecord& record, bool said) {
  PackedRecord packed;
  packed.process = record.process;
  packed.step = record.step;
  packed.rank = record.rank;
  packed.exit_code = record.exit_code;
  packed.seen_by = record.seen_by;
  packed.said = said ? 1 : 0;
  packed.has_died = record.has_died ? 1 : 0;
  fill(packed.host, record.host);
  fill(packed.stage, record.stage);
  fill(packed.phase, record.phase);
  fill(packed.collective, record.collective);
  fill(packed.cause, record.cause);
  fill(packed.hint, record.hint);
  return packed;
}

FaultRecord unpack(const PackedRecord& packed) {
  FaultRecord record;
  record.rank = packed.rank;
  record.host = text_of(packed.host);
  record.process = packed.process;
  record.stage = text_of(packed.stage);
  record.phase = text_of(packed.phase);
  record.step = packed.step;
  record.collective = text_of(packed.collective);
  record.cause = text_of(packed.cause);
  record.hint = text_of(packed.hint);
  record.exit_code = packed.exit_code;
  record.seen_by = packed.seen_by;
  record.has_died = packed.has_died != 0;
  return record;
}

}  // namespace lockstep::watch
