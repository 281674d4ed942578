// SPDX-License-Identifier: Apache-2.0
#include "launcher/device_choice.h"

#include <algorithm>
#include <string_view>

#include "core/base/error.h"

namespace lockstep {

DeviceChoice choose_device(const std::string& asked, const DeviceProbe& probe, int local_rank) {
  DeviceChoice choice;
  if (asked == "cpu") return choice;
  if (probe.devices > 0) {
    choice.cuda = true;
    choice.ordinal = local_rank % probe.devices;
    return choice;
  }
  if (asked == "cuda") throw EnvironmentError("--device cuda: " + probe.reason, probe.hint);
  choice.note = "--device auto: " + probe.reason;
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
      "mend the rank without a GPU, leave its host out, or use --device cpu for all");
}

std::string sharing_note(std::span<const DeviceCard> cards) {
  const auto same = [](const DeviceCard& a, const DeviceCard& b) {
    return std::string_view(a.host) == b.host && std::string_view(a.device) == b.device;
  };
  std::string note;
  std::ptrdiff_t most = 1;
  for (const DeviceCard& card : cards) {
    if (card.cuda == 0) continue;
    const std::ptrdiff_t ranks =
        std::ranges::count_if(cards, [&](const DeviceCard& other) { return same(card, other); });
    if (ranks <= most) continue;
    most = ranks;
    note =
        fmt::format("{} ranks share GPU {} of {}: they take turns", ranks, card.device, card.host);
  }
  return note;
}

}  // namespace lockstep
