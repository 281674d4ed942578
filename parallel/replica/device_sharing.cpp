// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/device_sharing.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/base/fixed_text.h"
#include "core/exec/gather_records.h"
#include "core/host/machine.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

/// What every rank sends to the others.
struct ReadingCard {
  DeviceSharing place;
  std::uint64_t free = kUnknown, at_start = kUnknown, reserved = 0;
};

/// Of the ranks that share this rank's device.
struct Readings {
  int colocated_ranks = 0;
  std::uint64_t free = kUnknown;  ///< the smallest reading
  std::uint64_t at_start = 0;     ///< free memory before the first of them started
  std::uint64_t reserved = 0;     ///< sum over them
};

/// See Note [Readings of free memory]: once the all-gather returns, all ranks have read.
Readings read_together(Communicator& ranks, const Backend& backend, std::uint64_t reserved) {
  ranks.barrier();
  const DeviceMemory memory = backend.memory();
  const ReadingCard own{device_sharing_of(memory),
                        memory.free.value_or(kUnknown),
                        memory.free_at_start.value_or(kUnknown),
                        reserved};
  Readings all;
  for (const ReadingCard& card : gather_records(ranks, own)) {
    if (!card.place.is_shared_with(own.place)) continue;
    ++all.colocated_ranks;
    all.free = std::min(all.free, card.free);
    all.at_start = std::max(all.at_start, card.at_start);
    all.reserved += card.reserved;
  }
  return all;
}

}  // namespace

bool DeviceSharing::is_shared_with(const DeviceSharing& other) const {
  if (uuid[0] != 0 && std::string_view(uuid) == other.uuid) return true;
  return std::string_view(machine) == other.machine && std::string_view(pool) == other.pool;
}

DeviceSharing device_sharing_of(const DeviceMemory& memory) {
  DeviceSharing place;
  set_text(place.machine, machine_id());
  set_text(place.uuid, uuid_in(memory.pool));
  const std::string_view pool = memory.pool.empty() ? memory.group : memory.pool;
  set_text(place.pool, pool.substr(pool.size() - std::min(pool.size(), sizeof place.pool - 1)));
  return place;
}

std::uint64_t free_part(Communicator& ranks, const Backend& backend) {
  const Readings all = read_together(ranks, backend, 0);
  return all.free == kUnknown ? 0 : all.free / std::uint64_t(all.colocated_ranks);
}

std::optional<std::uint64_t> context_part(Communicator& ranks,
                                          const Backend& backend,
                                          std::uint64_t reserved) {
  const Readings all = read_together(ranks, backend, reserved);
  if (all.free == kUnknown || all.at_start == kUnknown) return std::nullopt;
  if (all.at_start < all.free || all.at_start - all.free < all.reserved) return std::nullopt;
  return (all.at_start - all.free - all.reserved) / std::uint64_t(all.colocated_ranks);
}

}  // namespace lockstep
