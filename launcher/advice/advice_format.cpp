// SPDX-License-Identifier: Apache-2.0
#include "launcher/advice/advice_format.h"

#include <fmt/ranges.h>

#include "core/io/run_log.h"

namespace lockstep {

std::vector<std::string> format_advice(const std::vector<Advice>& advice) {
  std::vector<std::string> lines;
  for (const Advice& a : advice) {
    lines.push_back(fmt::format("advice                 {}", a.text));
    lines.push_back(fmt::format("                       ({}); up to {:.0f}% of the time: {}",
                                a.evidence,
                                100 * a.gain,
                                a.remedy));
  }
  return lines;
}

std::string advice_json(const std::vector<Advice>& advice) {
  std::vector<std::string> objects;
  for (const Advice& a : advice)
    objects.push_back(json_object({{"cause", std::string(name_of(a.cause))},
                                   {"text", a.text},
                                   {"evidence", a.evidence},
                                   {"remedy", a.remedy},
                                   {"gain", a.gain}}));
  return fmt::format("[{}]", fmt::join(objects, ", "));
}

}  // namespace lockstep
