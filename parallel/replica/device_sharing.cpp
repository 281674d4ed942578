// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/device_sharing.h"

#include <algorithm>
#include <vector>

#include "core/base/xxh64.h"
#include "core/exec/agreement.h"
#include "core/exec/gather_records.h"
#include "core/host/machine.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

/// What every rank sends to the others.
struct ReadingCard {
  std::uint64_t device = 0, free = kUnknown, at_start = kUnknown, reserved = 0;
};

std::optional<std::uint64_t> known(std::uint64_t bytes) {
  return bytes == kUnknown ? std::nullopt : std::optional(bytes);
}

}  // namespace

std::uint64_t device_key(const DeviceMemory& memory, const std::string& machine) {
  std::string text(uuid_in(memory.pool));
  if (text.empty()) text = machine + '\0' + (memory.pool.empty() ? memory.group : memory.pool);
  return xxh64(text.data(), text.size());
}

/// Once the all-gather returns, all ranks have read.
ColocatedReadings read_together(Communicator& ranks,
                                const Backend& backend,
                                std::uint64_t reserved) {
  ranks.barrier();
  ColocatedReadings all{.own = backend.memory(), .free = {}, .at_start = {}};
  const ReadingCard own{device_key(all.own, machine_id()),
                        all.own.free.value_or(kUnknown),
                        all.own.free_at_start.value_or(kUnknown),
                        reserved};
  std::uint64_t free = kUnknown, at_start = 0;
  for (const ReadingCard& card : gather_records(ranks, own)) {
    if (card.device != own.device) continue;
    ++all.ranks;
    free = std::min(free, card.free);
    at_start = std::max(at_start, card.at_start);
    all.reserved += card.reserved;
  }
  all.free = known(free);
  all.at_start = known(at_start);
  return all;
}

std::uint64_t free_part(Communicator& ranks, const Backend& backend) {
  if (!any_rank(ranks, backend.memory().free.has_value())) return 0;
  const ColocatedReadings all = read_together(ranks, backend, 0);
  return all.free.value_or(0) / std::uint64_t(all.ranks);
}

std::optional<std::uint64_t> context_part(Communicator& ranks,
                                          const Backend& backend,
                                          std::uint64_t reserved) {
  if (!any_rank(ranks, backend.memory().free_at_start.has_value())) return std::nullopt;
  const ColocatedReadings all = read_together(ranks, backend, reserved);
  if (!all.free || !all.at_start) return std::nullopt;
  if (*all.at_start < *all.free || *all.at_start - *all.free < all.reserved) return std::nullopt;
  return (*all.at_start - *all.free - all.reserved) / std::uint64_t(all.ranks);
}

}  // namespace lockstep
