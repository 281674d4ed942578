// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/exec/position.h"
#include "parallel/watchdog/fault_record.h"

/// What watchdogs say to each other. All ranks run the same program, so that messages are
/// structures as they lie in memory.
namespace lockstep::watch {

using Secret = std::array<std::uint8_t, 16>;

enum class Kind : std::uint32_t {
  hello = 1,
  beat,
  goodbye,
  record,
  strangers,
  summaries,  ///< RankSummary, any number
  details,    ///< RankBeat, any number
  ended       ///< RankEnded
};

/// Before every message: a Kind, and the size of what follows.
struct MessageHeader {
  std::uint32_t kind = 0, bytes = 0;
};

struct Hello {
  Secret secret{};
  std::int32_t rank = -1;
};

struct Beat {
  std::int64_t step = 0, bytes = 0, bucket = -1;
  std::uint64_t ticks = 0, collectives = 0;
  std::uint8_t stage = 0, phase = 0, traced = 0, in_collective = 0;
  char collective[32] = {};
};

struct Goodbye {
  std::uint8_t after_error = 0;
};

/// What a rank tells its parent in each beat of a rank below that it has heard of since.
struct RankSummary {
  std::int32_t rank = -1;
  std::uint8_t stage = 0, moved = 0, traced = 0, in_collective = 0;
};

/// Where a rank below was last, when that matters: it has made no progress for a while.
struct RankBeat {
  std::int32_t rank = -1;
  Beat beat;
};

/// A rank below has ended, and where it was last.
struct RankEnded {
  enum class How : std::uint8_t { closed, left, failed };
  std::int32_t rank = -1;
  How how{};
  Beat beat;
};

/// A FaultRecord, texts cut to what fits.
struct PackedRecord {
  std::int64_t process = 0, step = 0;
  std::int32_t rank = -1, exit_code = 1, seen_by = -1;
  std::uint8_t said = 0;  ///< the screen has it
  std::uint8_t has_died = 0;
  char host[64] = {}, stage[16] = {}, phase[16] = {}, collective[64] = {};
  char cause[1024] = {}, hint[512] = {};
};

/// What look_for_strangers() has found on the host of `rank`; empty: none any more.
struct Strangers {
  std::int32_t rank = -1;
  char lines[1024] = {};
};

Beat pack(const PositionNote& note, bool traced);
/// The name of its collective is `beat`'s.
PositionNote unpack(const Beat& beat);
PackedRecord pack(const FaultRecord& record, bool said);
FaultRecord unpack(const PackedRecord& record);

/// Copies a message out of the bytes that came; false where its size is another's.
template <typename Message>
bool read(std::span<const std::byte> bytes, Message& message) {
  if (bytes.size() != sizeof message) return false;
  std::memcpy(&message, bytes.data(), sizeof message);
  return true;
}

/// Calls `handle` for each of the messages of one kind that came together.
template <typename Message, typename Handle>
void read_each(std::span<const std::byte> bytes, const Handle& handle) {
  Message message;
  for (; bytes.size() >= sizeof message; bytes = bytes.subspan(sizeof message))
    if (read(bytes.first(sizeof message), message)) handle(message);
}

}  // namespace lockstep::watch
