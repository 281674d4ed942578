// SPDX-License-Identifier: Apache-2.0
#include "parallel/watchdog/fault_record.h"

#include <ctime>
#include <fmt/format.h>

#include "core/base/text/printable.h"
#include "core/io/run_log.h"

namespace lockstep {
namespace {

std::string format_note(const CollectiveNote& note) {
  if (note.name == nullptr) return {};
  if (note.bucket >= 0) return fmt::format("{} of bucket {}", note.name, note.bucket);
  if (note.bytes > 0) return fmt::format("{} of {} bytes", note.name, note.bytes);
  return note.name;
}

/// One line that a terminal may show, whatever it was.
std::string on_one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return printable_lines(text);
}

std::string place_of(const FaultRecord& record) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  // Before a run has begun a number that is gone by then tells people nothing.
  const bool began = !record.stage.empty();
  if (record.process > 0 && began) add(fmt::format("process {}", record.process));
  if (!record.stage.empty() && record.stage != name_of(RunStage::training)) add(record.stage);
  if (record.step > 0) add(fmt::format("step {}", record.step));
  if (!record.phase.empty()) add(record.phase);
  if (!record.collective.empty()) add("in " + record.collective);
  if (record.seen_by >= 0 && record.seen_by != record.rank)
    text += fmt::format("{}seen by rank {}", text.empty() ? "" : "; ", record.seen_by);
  return text;
}

}  // namespace

void set_position(FaultRecord& record, const PositionNote& note) {
  record.stage = name_of(note.stage);
  record.phase = name_of(note.phase);
  record.step = note.step;
  record.collective = format_note(note.collective);
}

std::string to_block(const FaultRecord& record) {
  std::string text =
      fmt::format("[rank {} {}] error: {}\n", record.rank, record.host, on_one_line(record.cause));
  if (const std::string place = place_of(record); !place.empty()) text += "  " + place + "\n";
  text += printable_lines(record.details);
  if (!record.hint.empty()) text += fmt::format("hint: {}\n", on_one_line(record.hint));
  return text;
}

std::string to_json_line(const FaultRecord& record) {
  const std::string fault = json_object({{"rank", std::int64_t(record.rank)},
                                         {"host", record.host},
                                         {"process", record.process},
                                         {"stage", record.stage},
                                         {"phase", record.phase},
                                         {"step", record.step},
                                         {"collective", record.collective},
                                         {"cause", record.cause},
                                         {"hint", record.hint},
                                         {"exit_code", std::int64_t(record.exit_code)},
                                         {"seen_by", std::int64_t(record.seen_by)}});
  return fmt::format("{{\"time\":{},\"fault\":{}}}", std::int64_t(std::time(nullptr)), fault);
}

}  // namespace lockstep
