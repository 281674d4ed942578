// SPDX-License-Identifier: Apache-2.0
#include "parallel/memory/memory_headroom.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/base/text/fixed_text.h"
#include "core/base/text/number_format.h"
#include "core/exec/agreement.h"
#include "core/exec/gather_records.h"
#include "core/host/machine.h"
#include "parallel/replica/device_sharing.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kUnknownBytes = ~std::uint64_t{0};

/// Training takes at most 3% and 8 MiB more than its plan (tests/launcher/planned.py measures it).
constexpr std::uint64_t kKeptBytes = std::uint64_t{32} << 20, kKeptShare = 32;

/// As ranks send it to each other.
struct RoomCard {
  char host[64] = {};
  std::uint64_t bytes = kUnknownBytes, kept = 0, total = 0;
  int rank = 0, colocated_ranks = 1, own_limit = 0;
};

RoomCard card_of(const MemoryHeadroom& room) {
  RoomCard card{.bytes = room.bytes.value_or(kUnknownBytes),
                .kept = room.kept,
                .total = room.total,
                .rank = room.rank,
                .colocated_ranks = room.colocated_ranks,
                .own_limit = room.own_limit ? 1 : 0};
  set_text(card.host, room.host);
  return card;
}

MemoryHeadroom room_of(const RoomCard& card) {
  return {.bytes = card.bytes == kUnknownBytes ? std::nullopt : std::optional(card.bytes),
          .kept = card.kept,
          .total = card.total,
          .rank = card.rank,
          .host = card.host,
          .colocated_ranks = card.colocated_ranks,
          .own_limit = card.own_limit != 0};
}

}  // namespace

MemoryHeadroom memory_headroom(RankContext& context, std::uint64_t of_collectives) {
  // Ranks that share it read one number, unless processes of others come or go meanwhile.
  const ColocatedReadings all = read_together(context.host_communicator(), context.backend(), 0);
  MemoryHeadroom room;
  room.bytes = all.free;
  room.total = all.own.total;
  room.rank = context.rank();
  room.host = host_name();
  room.colocated_ranks = all.ranks;
  if (room.bytes) *room.bytes /= std::uint64_t(all.ranks);
  if (all.own.own && *all.own.own < room.bytes.value_or(kUnknownBytes)) {
    room.bytes = all.own.own;
    room.colocated_ranks = 1;
    room.own_limit = true;
  }
  if (!room.bytes) return room;
  const bool is_host = all.own.pool.empty();
  room.kept = is_host ? kKeptBytes + *room.bytes / kKeptShare : of_collectives;
  room.kept = std::min(*room.bytes, room.kept);
  *room.bytes -= room.kept;
  return room;
}

MemoryHeadroom headroom_of_rank(Communicator& ranks, const MemoryHeadroom& own, int rank) {
  return room_of(record_of_rank(ranks, card_of(own), rank));
}

MemoryHeadroom least_headroom(Communicator& ranks, const MemoryHeadroom& own) {
  const std::uint64_t bytes = own.bytes.value_or(kUnknownBytes), least = smallest(ranks, bytes);
  return headroom_of_rank(ranks, own, first_rank(ranks, bytes == least));
}

std::string to_string(const MemoryHeadroom& room) {
  const std::string place = fmt::format("on rank {} of {}", room.rank, room.host);
  if (!room.bytes) return "an unknown number of bytes " + place;
  const std::string bytes = format_bytes(double(*room.bytes));
  if (room.own_limit)
    return fmt::format("{} {}, left of its own limit (ulimit -v or -d)", bytes, place);
  std::string text = bytes;
  if (room.total > 0) text += fmt::format(" of {}", format_bytes(double(room.total)));
  text += " " + place;
  if (room.colocated_ranks == 2) return text + ", half of the memory that its 2 ranks share";
  if (room.colocated_ranks > 2)
    text += fmt::format(", one of {0} equal parts of the memory that its {0} ranks share",
                        room.colocated_ranks);
  return text;
}

}  // namespace lockstep
