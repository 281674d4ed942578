// SPDX-License-Identifier: Apache-2.0
#include "launcher/advice/gpu_usage_format.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/text/number_format.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;
using Q = GpuQuantity;

constexpr std::size_t kMaxTroubles = 3;  // that the table tells
constexpr double kShown = 0.005;         // the least share that does not round to 0%

struct ReasonWords {
  const char* key;
  const char* words;  // "clocks throttled by ..."; null: not throttling
};
constexpr ReasonWords kReasons[] = {
    {"power_limit", "its power limit"},
    {"heat", "heat"},
    {"power_supply", "the power supply"},
    {"slowdown", "heat or the power supply"},
    {"sync_boost", "other GPUs of its boost group"},
    {"application_clocks", "the clocks set for programs"},
    {"display_clocks", "the clocks set for displays"},
    {"idle", nullptr},
};
static_assert(std::size(kReasons) == kClockReasons);

std::string percent(double share) { return fmt::format("{:.0f}%", 100 * share); }
std::string watts(double value) { return fmt::format("{:.0f} W", value); }
std::string celsius(double value) { return fmt::format("{:.0f} degrees Celsius", value); }
std::string megahertz(double value) { return format_count(value) + " MHz"; }

/// A number of every rank that has it.
struct OfRank {
  std::size_t rank = 0;
  double value = 0;
};

std::string name_of(std::span<const GpuUse> ranks, std::size_t rank) {
  return fmt::format("rank {} ({})", rank, ranks[rank].host);
}

template <typename Value>
std::vector<OfRank> collect(std::span<const GpuUse> ranks, const Value& value_of) {
  std::vector<OfRank> values;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (const double value = value_of(ranks[rank]); !std::isnan(value))
      values.push_back({rank, value});
  return values;
}

std::vector<OfRank> means(std::span<const GpuUse> ranks, Q quantity) {
  return collect(ranks, [&](const GpuUse& use) {
    return use[quantity].samples > 0 ? use[quantity].mean() : NAN;
  });
}

double mean(const std::vector<OfRank>& values) {
  double sum = 0;
  for (const OfRank& one : values) sum += one.value;
  return sum / double(values.size());
}

const OfRank& least(const std::vector<OfRank>& values) {
  return *std::ranges::min_element(values, {}, &OfRank::value);
}
const OfRank& most(const std::vector<OfRank>& values) {
  return *std::ranges::max_element(values, {}, &OfRank::value);
}

/// The one farthest from the median; of two, the lower.
const OfRank& odd_one(const std::vector<OfRank>& values) {
  std::vector<OfRank> sorted = values;
  std::ranges::sort(sorted, {}, &OfRank::value);
  const std::size_t half = sorted.size() / 2;
  const double median = sorted.size() % 2 == 1 ? sorted[half].value
                                               : (sorted[half - 1].value + sorted[half].value) / 2;
  const OfRank &low = least(values), &high = most(values);
  return high.value - median > median - low.value ? high : low;
}

/// ", ranks 62% to 99%, rank 3 (node7) farthest from the others with 62%"; empty for one rank.
template <typename Words>
std::string spread(std::span<const GpuUse> ranks,
                   const std::vector<OfRank>& values,
                   const Words& words) {
  if (ranks.size() < 2 || values.empty()) return {};
  const std::string low = words(least(values).value), high = words(most(values).value);
  if (low == high) return values.size() == ranks.size() ? " on every rank" : "";
  const OfRank& odd = odd_one(values);
  return fmt::format(", ranks {} to {}, {} farthest from the others with {}",
                     low,
                     high,
                     name_of(ranks, odd.rank),
                     words(odd.value));
}

/// " of 700 W": the limit, where it is known and the same on all ranks.
template <typename Words>
std::string of_limit(std::span<const GpuUse> ranks, Q quantity, const Words& words) {
  const auto limits = collect(ranks, [&](const GpuUse& use) { return use.limits[quantity]; });
  if (limits.size() != ranks.size() || least(limits).value != most(limits).value) return {};
  return " of " + words(limits[0].value);
}

std::string labelled(const char* label, const std::string& text) {
  return fmt::format("{:<22} {}", label, text);
}

std::vector<std::string> throttled(std::span<const GpuUse> ranks) {
  std::vector<std::string> parts;
  for (std::size_t reason = 0; reason < kClockReasons; ++reason) {
    if (kReasons[reason].words == nullptr) continue;
    const auto shares = collect(ranks, [&](const GpuUse& use) {
      return use.reason_samples > 0 ? double(use.throttled[reason]) / double(use.reason_samples)
                                    : NAN;
    });
    if (shares.empty() || most(shares).value < kShown) continue;
    const std::string high = percent(most(shares).value);
    const bool alike = shares.size() == ranks.size() && percent(least(shares).value) == high;
    const std::string where =
        alike ? "every rank" : name_of(ranks, most(shares).rank) + ", the most";
    parts.push_back(fmt::format("by {} {} of the time{}",
                                kReasons[reason].words,
                                high,
                                ranks.size() > 1 ? " on " + where : ""));
  }
  return parts;
}

/// Whether every sample of the rank said that its clocks were not throttled.
bool never_throttled(const GpuUse& use) {
  for (std::size_t reason = 0; reason < kClockReasons; ++reason)
    if (kReasons[reason].words != nullptr && use.throttled[reason] > 0) return false;
  return use.reason_samples > 0 && use.reason_samples == use.samples;
}

std::string format_clock(std::span<const GpuUse> ranks, const std::vector<OfRank>& clocks) {
  std::string text = megahertz(mean(clocks)) + of_limit(ranks, Q::clock_mhz, megahertz) +
                     spread(ranks, clocks, megahertz);
  if (const auto parts = throttled(ranks); !parts.empty())
    return text + fmt::format(", throttled {}", fmt::join(parts, ", "));
  return text + (std::ranges::all_of(ranks, never_throttled) ? ", never throttled" : "");
}

void add_shares(std::span<const GpuUse> ranks, std::vector<std::string>& lines) {
  const auto add = [&](const char* label, Q quantity, const char* words, const char* meaning) {
    const auto shares = means(ranks, quantity);
    if (shares.empty()) return;
    lines.push_back(labelled(label,
                             fmt::format("{} {} of the time{} ({})",
                                         words,
                                         percent(mean(shares)),
                                         spread(ranks, shares, percent),
                                         meaning)));
  };
  add("gpu time", Q::busy, "busy", "some kernel ran; says nothing of how much of the chip it used");
  const auto memory = collect(ranks, [](const GpuUse& use) {
    return use[Q::memory_bytes].samples > 0 ? use[Q::memory_bytes].most : NAN;
  });
  if (!memory.empty())
    lines.push_back(labelled(
        "gpu space",
        fmt::format("{}{} held at most{} (whoever holds it; says nothing of how often it is used)",
                    format_bytes(most(memory).value),
                    of_limit(ranks, Q::memory_bytes, format_bytes),
                    spread(ranks, memory, format_bytes))));
  add("gpu bandwidth",
      Q::bus_busy,
      "memory controller busy",
      "something was read or written; says nothing of how many bytes");
}

void add_power(std::span<const GpuUse> ranks, std::vector<std::string>& lines) {
  const auto power = means(ranks, Q::power_w), clocks = means(ranks, Q::clock_mhz);
  std::vector<std::string> parts;
  if (!power.empty())
    parts.push_back(watts(mean(power)) + of_limit(ranks, Q::power_w, watts) +
                    spread(ranks, power, watts));
  if (!clocks.empty())
    parts.push_back((power.empty() ? "" : "clocks ") + format_clock(ranks, clocks));
  if (!parts.empty()) parts[0] = "on average " + parts[0];
  const auto memory_clocks = means(ranks, Q::memory_clock_mhz);
  if (std::ranges::any_of(memory_clocks, [&](const OfRank& one) {
        return one.value < ranks[one.rank].limits[Q::memory_clock_mhz];
      }))
    parts.push_back("memory clock " + megahertz(mean(memory_clocks)) +
                    of_limit(ranks, Q::memory_clock_mhz, megahertz) +
                    spread(ranks, memory_clocks, megahertz));
  const auto heat = collect(ranks, [](const GpuUse& use) {
    return use[Q::temperature_c].samples > 0 ? use[Q::temperature_c].most : NAN;
  });
  if (!heat.empty())
    parts.push_back(celsius(most(heat).value) + " at most" + spread(ranks, heat, celsius));
  if (!parts.empty())
    lines.push_back(labelled(power.empty() && !clocks.empty() ? "gpu clocks" : "gpu power",
                             fmt::format("{}", fmt::join(parts, "; "))));
}

/// Why a rank has no samples or not all of them; empty: it has.
std::string trouble(const GpuUse& use) {
  if (use.not_watched[0] != '\0') return fmt::format("not watched: {}", use.not_watched);
  if (use.went_silent && use.samples == 0) return "not watched: the driver does not answer";
  if (use.went_silent)
    return fmt::format("watched until the driver stopped answering, after {} samples", use.samples);
  if (use.samples == 0) return "not watched: training was too short";
  if (use.reason_samples == 0 &&
      std::ranges::all_of(use.ranges, [](const GpuRange& range) { return range.samples == 0; }))
    return "not watched: the driver answers no question about it";
  return {};
}

/// Ranks with the same trouble.
struct Troubled {
  std::string trouble;
  std::size_t first = 0, count = 0;
};

/// By trouble, in the order of their first ranks.
std::vector<Troubled> troubled(std::span<const GpuUse> ranks) {
  std::vector<Troubled> groups;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string why = trouble(ranks[rank]);
    if (why.empty()) continue;
    auto group = std::ranges::find(groups, why, &Troubled::trouble);
    if (group == groups.end()) group = groups.insert(group, {why, rank, 0});
    ++group->count;
  }
  return groups;
}

void add_troubles(std::span<const GpuUse> ranks, std::vector<std::string>& lines) {
  const std::vector<Troubled> groups = troubled(ranks);
  const std::size_t told = std::min(groups.size(), kMaxTroubles);
  for (const Troubled& group : std::span(groups).first(told)) {
    std::string text = group.trouble;
    if (group.count < ranks.size()) text = name_of(ranks, group.first) + " " + text;
    if (group.count < ranks.size() && group.count > 1)
      text += fmt::format("; {} more of {} ranks like it", group.count - 1, ranks.size());
    lines.push_back(labelled("gpu", text));
  }
  std::size_t others = 0;
  for (const Troubled& group : std::span(groups).subspan(told)) others += group.count;
  if (others > 0)
    lines.push_back(
        labelled("gpu",
                 fmt::format("not watched, or not to the end, for other reasons: {} more of {} "
                             "ranks; summary.json has them",
                             others,
                             ranks.size())));
  if (std::ranges::any_of(ranks, &GpuUse::part))
    lines.push_back(labelled(
        "gpu",
        "a MIG part: the driver does not say how busy it or its memory controller is, nor what "
        "it holds; power and clocks are the whole GPU's"));
}

Json number_or_null(double value) { return std::isnan(value) ? Json(nullptr) : Json(value); }

/// Whole bytes.
Json bytes_or_null(double value) {
  return std::isnan(value) ? Json(nullptr) : Json(std::llround(value));
}

Json json_of(const GpuRange& range) {
  if (range.samples == 0) return nullptr;
  return {{"mean", range.mean()}, {"least", range.least}, {"most", range.most}};
}

Json json_of_bytes(const GpuRange& range) {
  if (range.samples == 0) return nullptr;
  return {{"mean", bytes_or_null(range.mean())},
          {"least", bytes_or_null(range.least)},
          {"most", bytes_or_null(range.most)}};
}

Json json_of(const GpuUse& use, std::size_t rank) {
  const std::string why = trouble(use);
  Json held = nullptr;
  for (std::size_t i = 0; i < kClockReasons && use.reason_samples > 0; ++i)
    held[kReasons[i].key] = double(use.throttled[i]) / double(use.reason_samples);
  return {{"rank", rank},
          {"host", use.host},
          {"device", use.device},
          {"samples", use.samples},
          {"trouble", why.empty() ? Json(nullptr) : Json(why)},
          {"mig_part", use.part},
          {"busy", json_of(use[Q::busy])},
          {"memory_bytes", json_of_bytes(use[Q::memory_bytes])},
          {"memory_total_bytes", bytes_or_null(use.limits[Q::memory_bytes])},
          {"bus_busy", json_of(use[Q::bus_busy])},
          {"power_w", json_of(use[Q::power_w])},
          {"power_limit_w", number_or_null(use.limits[Q::power_w])},
          {"clock_mhz", json_of(use[Q::clock_mhz])},
          {"clock_limit_mhz", number_or_null(use.limits[Q::clock_mhz])},
          {"memory_clock_mhz", json_of(use[Q::memory_clock_mhz])},
          {"memory_clock_limit_mhz", number_or_null(use.limits[Q::memory_clock_mhz])},
          {"temperature_c", json_of(use[Q::temperature_c])},
          {"held_back", held}};
}

}  // namespace

std::vector<std::string> format_gpu_usage(std::span<const GpuUse> ranks) {
  std::vector<std::string> lines;
  add_shares(ranks, lines);
  add_power(ranks, lines);
  add_troubles(ranks, lines);
  return lines;
}

std::string format_gpu_phases(const DeviceTimes& times, std::int64_t steps) {
  std::vector<std::string> shares;
  for (std::size_t i = 0; i < kDeviceParts; ++i)
    shares.push_back(
        fmt::format("{} {}", name_of(DevicePart(i)), percent(times.share(DevicePart(i)))));
  return fmt::format("gpu phases             {} (of rank 0's, by its own clock; logged steps: {})",
                     fmt::join(shares, ", "),
                     steps);
}

std::string graph_use_json(const std::optional<GraphUse>& use) {
  if (!use) return "null";
  return Json{{"graphs", use->graphs}, {"replays", use->replays}, {"why_not", use->why_not}}.dump();
}

std::string format_graph_use(const std::optional<GraphUse>& use) {
  if (!use) return {};
  const std::string done = fmt::format(
      "{} captured, replayed {} times", use->graphs, format_count(double(use->replays)));
  if (use->why_not.empty()) return done;
  return use->graphs == 0 ? "none: " + use->why_not : done + "; no more: " + use->why_not;
}

std::string gpus_json(std::span<const GpuUse> ranks) {
  if (ranks.empty()) return {};
  Json all = Json::array();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) all.push_back(json_of(ranks[rank], rank));
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep
