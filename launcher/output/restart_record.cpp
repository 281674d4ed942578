// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/restart_record.h"

#include <chrono>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/io/run_log.h"

namespace lockstep {

using nlohmann::json;

double unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string to_text(const RestartFacts& facts) {
  return json_object({{"fault", facts.fault},
                      {"exit_code", std::int64_t(facts.exit_code)},
                      {"restart", std::int64_t(facts.restart)},
                      {"step", facts.step},
                      {"reported", facts.reported},
                      {"ended", facts.ended},
                      {"started", facts.started}});
}

std::optional<RestartFacts> parse_restart_facts(const std::string& text) {
  try {
    const json facts = json::parse(text);
    return RestartFacts{.fault = facts.at("fault").get<std::string>(),
                        .exit_code = facts.at("exit_code").get<int>(),
                        .restart = facts.at("restart").get<int>(),
                        .step = facts.at("step").get<std::int64_t>(),
                        .reported = facts.at("reported").get<double>(),
                        .ended = facts.at("ended").get<double>(),
                        .started = facts.at("started").get<double>()};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

std::string to_words(const RestartRecord& record) {
  const RestartFacts& facts = record.facts;
  std::string text = fmt::format("restart {} ", facts.restart);
  if (facts.survivors > 0)
    text += fmt::format("in the {} process{} that {} left ",
                        facts.survivors,
                        facts.survivors == 1 ? "" : "es",
                        facts.survivors == 1 ? "is" : "are");
  text += fmt::format("after {}: {:.1f} s to the first step ", facts.fault, record.total_s());
  text += facts.survivors > 0
              ? fmt::format("(agreed {:.1f}, ", record.end_s)
              : fmt::format("(ranks ended {:.1f}, pause {:.1f}, ", record.end_s, record.pause_s);
  text += fmt::format("start {:.1f}, step {:.2f})", record.start_s, record.first_step_s);
  if (record.lost_steps >= 0) text += fmt::format(", at least {} steps again", record.lost_steps);
  return text;
}

}  // namespace lockstep
