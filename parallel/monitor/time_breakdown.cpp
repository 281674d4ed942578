// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/time_breakdown.h"

#include <unistd.h>

namespace lockstep {

std::string_view name_of(TimePart part) {
  constexpr std::array<std::string_view, kTimeParts> kNames{"data",
                                                            "copy",
                                                            "forward",
                                                            "backward",
                                                            "comm_exposed",
                                                            "optimizer",
                                                            "device_wait",
                                                            "logging",
                                                            "checkpoint",
                                                            "other"};
  return kNames[std::size_t(part)];
}

double TimeBreakdown::share(TimePart part) const { return total > 0 ? (*this)[part] / total : 0; }

void TimeBreakdown::close() {
  double& other = (*this)[TimePart::other];
  other = 0;
  double named = 0;
  for (const double part : parts) named += part;
  other = total - named;
}

TimeBreakdown operator-(const TimeBreakdown& later, const TimeBreakdown& earlier) {
  TimeBreakdown result{.total = later.total - earlier.total};
  for (std::size_t i = 0; i < kTimeParts; ++i) result.parts[i] = later.parts[i] - earlier.parts[i];
  return result;
}

TimeBreakdown operator*(const TimeBreakdown& ledger, double factor) {
  TimeBreakdown result{.total = ledger.total * factor};
  for (std::size_t i = 0; i < kTimeParts; ++i) result.parts[i] = ledger.parts[i] * factor;
  return result;
}

std::vector<RankTimeBreakdown> gather_time_breakdowns(Communicator& communicator,
                                                      const TimeBreakdown& own,
                                                      std::optional<double> queued) {
  struct Message {
    char host[64] = {};
    TimeBreakdown ledger;
    double queued = -1;  // unknown
  };
  Message message{.ledger = own, .queued = queued.value_or(-1)};
  gethostname(message.host, sizeof message.host - 1);
  std::vector<Message> all(std::size_t(communicator.size()));
  communicator.all_gather(&message, all.data(), sizeof message);
  std::vector<RankTimeBreakdown> ledgers;
  for (const Message& of_rank : all)
    ledgers.push_back({int(ledgers.size()),
                       of_rank.host,
                       of_rank.ledger,
                       of_rank.queued < 0 ? std::nullopt : std::optional(of_rank.queued)});
  return ledgers;
}

}  // namespace lockstep
