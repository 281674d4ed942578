// SPDX-License-Identifier: Apache-2.0
#include "parallel/memory/memory_headroom.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/base/fixed_text.h"
#include "core/base/number_format.h"
#include "core/exec/gather_records.h"
#include "core/host/machine.h"
#include "parallel/replica/device_sharing.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kUnknownBytes = ~std::uint64_t{0};

/// Training takes at most 3% and 8 MiB more than its plan (tests/launcher/planned.py measures it).
constexpr std::uint64_t kKeptBytes = std::uint64_t{32} << 20, kKeptShare = 32;

/// What every rank tells the others.
struct RoomCard {
  char host[64] = {};
  DeviceSharing place;
  int is_host = 1;
  std::uint64_t free = kUnknownBytes, own = kUnknownBytes, total = 0, of_collectives = 0;
};

RoomCard own_card(Backend& backend) {
  const DeviceMemory memory = backend.memory();
  RoomCard card;
  set_text(card.host, host_name());
  card.place = device_sharing_of(memory);
  card.is_host = memory.pool.empty();
  card.free = memory.free.value_or(kUnknownBytes);
  card.own = memory.own.value_or(kUnknownBytes);
  card.total = memory.total;
  return card;
}

MemoryHeadroom room_of(const std::vector<RoomCard>& cards, std::size_t rank) {
  const RoomCard& card = cards[rank];
  MemoryHeadroom room;
  room.rank = int(rank);
  room.host = card.host;
  // Ranks that share it read one number, unless processes of others come or go meanwhile.
  std::uint64_t free = kUnknownBytes;
  int colocated_ranks = 0;
  for (const RoomCard& other : cards) {
    if (!other.place.is_shared_with(card.place)) continue;
    free = std::min(free, other.free);
    ++colocated_ranks;
  }
  if (free != kUnknownBytes) room.bytes = free / std::uint64_t(colocated_ranks);
  room.colocated_ranks = colocated_ranks;
  room.total = card.total;
  if (card.own < room.bytes.value_or(kUnknownBytes)) {
    room.bytes = card.own;
    room.colocated_ranks = 1;
    room.own_limit = true;
  }
  if (!room.bytes) return room;
  room.kept = card.is_host ? kKeptBytes + *room.bytes / kKeptShare : card.of_collectives;
  room.kept = std::min(*room.bytes, room.kept);
  *room.bytes -= room.kept;
  return room;
}

}  // namespace

std::vector<MemoryHeadroom> gather_memory_headroom(RankContext& context,
                                                   std::uint64_t of_collectives) {
  Communicator& ranks = context.host_communicator();
  ranks.barrier();  // see Note [Readings of free memory]
  RoomCard own = own_card(context.backend());
  own.of_collectives = of_collectives;
  const std::vector<RoomCard> cards = gather_records(ranks, own);
  std::vector<MemoryHeadroom> rooms;
  for (std::size_t rank = 0; rank < cards.size(); ++rank) rooms.push_back(room_of(cards, rank));
  return rooms;
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
