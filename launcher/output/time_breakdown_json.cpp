// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/time_breakdown_json.h"

#include <cmath>
#include <fmt/ranges.h>

namespace lockstep {

void add_parts(std::vector<JsonField>& fields, const TimeBreakdown& step_ms) {
  static const auto kNames = [] {
    std::array<std::string, kTimeParts> names;
    for (std::size_t i = 0; i < kTimeParts; ++i)
      names[i] = std::string(name_of(TimePart(i))) + "_ms";
    return names;
  }();
  for (std::size_t i = 0; i < kTimeParts; ++i) fields.push_back({kNames[i], step_ms.parts[i]});
}

std::string device_ms_json(const DeviceTimes& ms) {
  static const auto kNames = [] {
    std::array<std::string, kDeviceParts> names;
    for (std::size_t i = 0; i < kDeviceParts; ++i)
      names[i] = std::string(name_of(DevicePart(i))) + "_ms";
    return names;
  }();
  std::vector<JsonField> fields;
  for (std::size_t i = 0; i < kDeviceParts; ++i) fields.push_back({kNames[i], ms.parts[i]});
  return json_object(fields);
}

std::string device_seconds_json(const DeviceTimes& seconds, std::int64_t steps) {
  if (steps == 0) return {};
  std::vector<JsonField> fields{{"steps", steps}};
  for (std::size_t i = 0; i < kDeviceParts; ++i)
    fields.push_back({name_of(DevicePart(i)), seconds.parts[i]});
  return json_object(fields);
}

std::string time_breakdowns_json(const std::vector<RankTimeBreakdown>& breakdowns) {
  std::vector<std::string> objects;
  for (const RankTimeBreakdown& of_rank : breakdowns) {
    std::vector<JsonField> fields{{"rank", std::int64_t(of_rank.rank)},
                                  {"host", of_rank.host},
                                  {"seconds", of_rank.breakdown.total}};
    for (std::size_t i = 0; i < kTimeParts; ++i)
      fields.push_back({name_of(TimePart(i)), of_rank.breakdown.parts[i]});
    fields.push_back({"queued", of_rank.queued.value_or(std::nan(""))});
    objects.push_back(json_object(fields));
  }
  return fmt::format("[{}]", fmt::join(objects, ", "));
}

}  // namespace lockstep
