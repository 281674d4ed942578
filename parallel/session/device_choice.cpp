// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/device_choice.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

#include "core/base/parameter_names.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

bool on_one_machine(const DeviceCard& a, const DeviceCard& b) {
  return std::string_view(a.machine) == b.machine;
}

/// By its place in the machine, or where sandboxes hide which machine that is by its own number.
bool on_one_gpu(const DeviceCard& a, const DeviceCard& b) {
  if (a.gpu[0] != 0 && std::string_view(a.gpu) == b.gpu) return true;
  return on_one_machine(a, b) && std::string_view(a.device) == b.device;
}

}  // namespace

DeviceChoice choose_device(const std::string& asked, const DeviceProbe& probe, int local_rank) {
  DeviceChoice choice;
  if (asked == "cpu") return choice;
  if (probe.devices > 0) {
    choice.cuda = true;
    choice.ordinal = local_rank % probe.devices;
    return choice;
  }
  if (asked == "cuda") throw EnvironmentError("`device` cuda: " + probe.reason, probe.hint);
  choice.note = name_parameters("`device` auto: ") + probe.reason;
  return choice;
}

int usable_gpus(const std::string& asked) {
  if (asked == "cpu") return 0;
  const DeviceProbe probe = probe_cuda();
  return choose_device(asked, probe, 0).cuda ? probe.devices : 0;
}

void check_devices(std::span<const DeviceCard> cards) {
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    const DeviceCard& card = cards[rank];
    if (card.exit_code == 0) continue;
    throw Error(cards.size() == 1 ? std::string(card.text)
                                  : fmt::format("rank {} on {}: {}", rank, card.host, card.text),
                card.hint,
                ExitCode(card.exit_code));
  }
  const auto with = std::ranges::find(cards, 1, &DeviceCard::cuda);
  const auto without = std::ranges::find(cards, 0, &DeviceCard::cuda);
  if (with == cards.end() || without == cards.end()) return;
  throw EnvironmentError(
      fmt::format(
          "rank {} on {} has a GPU, rank {} on {} has none ({}): replicas on devices of two "
          "kinds would drift apart",
          with - cards.begin(),
          with->host,
          without - cards.begin(),
          without->host,
          without->text),
      "mend the rank without a GPU, leave its host out, or use `device` cpu for all");
}

int ranks_before(std::span<const DeviceCard> cards, int rank) {
  const DeviceCard& own = cards[std::size_t(rank)];
  return int(std::ranges::count_if(cards.first(std::size_t(rank)), [&](const DeviceCard& card) {
    return on_one_machine(card, own);
  }));
}

std::string sharing_note(std::span<const DeviceCard> cards) {
  std::string note;
  std::ptrdiff_t most = 1;
  for (const DeviceCard& card : cards) {
    if (card.cuda == 0) continue;
    const std::ptrdiff_t ranks = std::ranges::count_if(
        cards, [&](const DeviceCard& other) { return on_one_gpu(card, other); });
    if (ranks <= most) continue;
    most = ranks;
    note =
        fmt::format("{} ranks share GPU {} of {}: they take turns", ranks, card.device, card.host);
  }
  return note;
}

bool share_a_gpu(std::span<const DeviceCard> cards) {
  for (std::size_t rank = 0; rank < cards.size(); ++rank)
    for (const DeviceCard& before : cards.first(rank))
      if (on_one_gpu(before, cards[rank])) return true;
  return false;
}

std::string reason_against_nccl(std::span<const DeviceCard> cards) {
  const auto without =
      std::ranges::find_if(cards, [](const DeviceCard& card) { return card.no_nccl[0] != 0; });
  if (without != cards.end()) {
    const bool alike = std::ranges::all_of(cards, [&](const DeviceCard& card) {
      return std::string_view(card.no_nccl) == without->no_nccl;
    });
    if (alike) return without->no_nccl;
    return fmt::format(
        "rank {} on {} does without: {}", without - cards.begin(), without->host, without->no_nccl);
  }
  if (!share_a_gpu(cards)) return {};
  const auto strict = std::ranges::find(cards, 0, &DeviceCard::shared_nccl);
  if (strict == cards.end()) return {};
  const bool nobody = std::ranges::find(cards, 1, &DeviceCard::shared_nccl) == cards.end();
  if (nobody) return "it takes no two ranks on one GPU";
  return fmt::format(
      "it takes no two ranks on one GPU, and rank {} on {} does not have LOCKSTEP_NCCL=shared",
      strict - cards.begin(),
      strict->host);
}

}  // namespace lockstep
