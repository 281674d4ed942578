// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/time_breakdown.h"

#include "core/exec/gather_records.h"
#include "core/host/machine.h"
#include "parallel/comm/collective_strings.h"

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

TimeBreakdown operator*(const TimeBreakdown& breakdown, double factor) {
  TimeBreakdown result{.total = breakdown.total * factor};
  for (std::size_t i = 0; i < kTimeParts; ++i) result.parts[i] = breakdown.parts[i] * factor;
  return result;
}

std::vector<RankTimeBreakdown> gather_time_breakdowns(Communicator& communicator,
                                                      const TimeBreakdown& own,
                                                      std::optional<double> queued) {
  struct Message {
    TimeBreakdown breakdown;
    double queued = -1;  // unknown
  };
  const Message message{.breakdown = own, .queued = queued.value_or(-1)};
  const std::vector<Message> messages =
      gather_records_on_rank_0(communicator, std::span(&message, 1));
  const auto hosts = gather_distinct_strings(communicator, host_name());
  std::vector<RankTimeBreakdown> breakdowns;
  for (const Message& of_rank : messages)
    breakdowns.push_back({int(breakdowns.size()),
                          {},
                          of_rank.breakdown,
                          of_rank.queued < 0 ? std::nullopt : std::optional(of_rank.queued)});
  if (breakdowns.empty()) return breakdowns;
  for (const auto& [host, ranks] : hosts)
    for (const int rank : ranks) breakdowns[std::size_t(rank)].host = host;
  return breakdowns;
}

}  // namespace lockstep
