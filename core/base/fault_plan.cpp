// SPDX-License-Identifier: Apache-2.0
#include "core/base/fault_plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>

#include "core/base/text/suggest.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

enum class Value : std::uint8_t { none, seconds, factor, layer };

struct KindEntry {
  std::string_view name;
  FaultKind kind;
  Value value = Value::none;
};

constexpr std::array kKinds = {KindEntry{"kill", FaultKind::kill},
                               KindEntry{"stop", FaultKind::stop},
                               KindEntry{"exit", FaultKind::exit},
                               KindEntry{"throw", FaultKind::raise},
                               KindEntry{"sleep", FaultKind::sleep, Value::seconds},
                               KindEntry{"hang", FaultKind::hang},
                               KindEntry{"memory", FaultKind::memory},
                               KindEntry{"nan", FaultKind::nan, Value::layer},
                               KindEntry{"flip-weight", FaultKind::flip_weight},
                               KindEntry{"flip-gradient", FaultKind::flip_gradient},
                               KindEntry{"scale-batch", FaultKind::scale_batch, Value::factor},
                               KindEntry{"skip-bucket", FaultKind::skip_bucket},
                               KindEntry{"halve-count", FaultKind::halve_count},
                               KindEntry{"never-join", FaultKind::never_join}};

constexpr std::array<std::string_view, 6> kKeys = {"rank", "step", "stage", "phase", "times", "do"};
// name_of(RunStage) and name_of(Phase), which lie above this folder; a test compares them.
constexpr std::array<std::string_view, 5> kStages = {
    "start", "training", "evaluation", "saving", "end"};
constexpr std::array<std::string_view, 5> kPhases = {
    "loading", "forward", "backward", "exchange", "optimizer"};

[[noreturn]] void refuse(std::string_view part, const std::string& why, std::string hint) {
  throw ConfigError(fmt::format("LOCKSTEP_FAULT: '{}': {}", part, why), std::move(hint));
}

[[noreturn]] void refuse_name(std::string_view part,
                              std::string_view what,
                              std::string_view name,
                              std::span<const std::string_view> known) {
  const std::string best = nearest(name, known);
  refuse(part,
         fmt::format("unknown {} '{}'", what, name),
         best.empty() ? fmt::format("it is one of {}", fmt::join(known, ", "))
                      : fmt::format("did you mean {}?", best));
}

std::string_view cut(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view piece = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return piece;
}

std::int64_t whole_number(std::string_view part,
                          std::string_view text,
                          std::int64_t least,
                          std::int64_t most = INT64_MAX) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < least || value > most)
    refuse(part, fmt::format("'{}' is not a whole number from {} to {}", text, least, most), {});
  return value;
}

double number(std::string_view part, std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    refuse(part, fmt::format("'{}' is not a number", text), {});
  return value;
}

void read_kind(PlannedFault& fault, std::string_view part, std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const auto* const entry = std::ranges::find(kKinds, name, &KindEntry::name);
  if (entry == kKinds.end()) {
    std::vector<std::string_view> names;
    for (const KindEntry& known : kKinds) names.push_back(known.name);
    refuse_name(part, "fault", name, names);
  }
  fault.kind = entry->kind;
  const bool given = colon != std::string_view::npos;
  const std::string_view value = given ? text.substr(colon + 1) : std::string_view();
  if (given == (entry->value == Value::none))
    refuse(part, fmt::format("{} {}", name, given ? "takes no value" : "needs a value"), {});
  switch (entry->value) {
    case Value::none:
      break;
    case Value::seconds:
      fault.number = number(part, value);
      if (fault.number < 0) refuse(part, "seconds are not negative", {});
      break;
    case Value::factor:
      fault.number = number(part, value);
      break;
    case Value::layer:
      if (value.empty()) refuse(part, "the layer has no name", {});
      fault.layer = value;
      break;
  }
}

void read_entry(PlannedFault& fault,
                std::string_view part,
                std::string_view key,
                std::string_view value) {
  const auto one_of = [&](std::string_view what, std::span<const std::string_view> names) {
    if (std::ranges::find(names, value) == names.end()) refuse_name(part, what, value, names);
    return std::string(value);
  };
  if (key == "rank") fault.rank = value == "*" ? -1 : int(whole_number(part, value, 0, INT32_MAX));
  if (key == "step") fault.step = whole_number(part, value, 0);
  if (key == "times") fault.times = whole_number(part, value, 1);
  if (key == "stage") fault.stage = one_of("stage", kStages);
  if (key == "phase") fault.phase = one_of("phase", kPhases);
  if (key == "do") read_kind(fault, part, value);
}

PlannedFault read_fault(std::string_view part) {
  PlannedFault fault;
  fault.text = part;
  std::vector<std::string_view> seen;
  for (std::string_view rest = part; !rest.empty();) {
    std::string_view value = cut(rest, ',');
    const bool has_value = value.find('=') != std::string_view::npos;
    const std::string_view key = cut(value, '=');
    if (std::ranges::find(kKeys, key) == kKeys.end()) refuse_name(part, "key", key, kKeys);
    if (!has_value) refuse(part, fmt::format("{} has no value", key), {});
    if (std::ranges::find(seen, key) != seen.end())
      refuse(part, fmt::format("{} is given twice", key), {});
    seen.push_back(key);
    read_entry(fault, part, key, value);
  }
  for (const std::string_view key : {"rank", "do"})
    if (std::ranges::find(seen, key) == seen.end())
      refuse(part, fmt::format("{} is missing", key), "as in rank=1,step=5,do=kill");
  const bool placed = !fault.stage.empty() || !fault.phase.empty();
  if (placed && !hits_process(fault.kind))
    refuse(part, "stage and phase cannot be combined with this fault: omit them", {});
  if (fault.kind == FaultKind::never_join && (fault.step >= 0 || placed))
    refuse(part, "never-join comes before every step", {});
  return fault;
}

}  // namespace

bool hits_process(FaultKind kind) { return kind <= FaultKind::memory; }

std::vector<PlannedFault> parse_fault_plan(std::string_view text) {
  std::vector<PlannedFault> plan;
  do plan.push_back(read_fault(cut(text, ';')));
  while (!text.empty());
  return plan;
}

}  // namespace lockstep
