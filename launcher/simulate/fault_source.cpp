// SPDX-License-Identifier: Apache-2.0
#include "launcher/simulate/fault_source.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fmt/ranges.h>
#include <fstream>
#include <iterator>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/random.h"
#include "core/base/text/suggest.h"

namespace lockstep {
namespace {

using simulation::FaultKind;
using simulation::FaultScope;
using simulation::kFaultKinds;
using simulation::PlantedFault;

constexpr std::uintmax_t kMaxFaultBytes = std::uintmax_t{1} << 20;

struct Share {
  FaultKind kind;
  int percent;
  double mean_seconds;  ///< 0: it lasts
};
constexpr Share kShares[] = {{FaultKind::rank_dies, 70, 0},
                             {FaultKind::host_dies, 10, 0},
                             {FaultKind::host_is_cut, 10, 60},
                             {FaultKind::rank_hangs, 2, 0},
                             {FaultKind::rank_freezes, 2, 30},
                             {FaultKind::host_freezes, 1, 30},
                             {FaultKind::rank_slows, 2, 1800},
                             {FaultKind::storage_stalls, 2, 600},
                             {FaultKind::storage_fails, 1, 60}};
constexpr double kDrawnFactor = 2;  // of a slow rank

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> words_of(std::string_view line) {
  line = line.substr(0, line.find('#'));
  constexpr std::string_view kSpace = " \t\r";
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = line.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    words.push_back(line.substr(0, line.find_first_of(kSpace)));
    line.remove_prefix(words.back().size());
  }
}

/// One line of a file.
class FaultLine {
 public:
  FaultLine(std::string_view line, std::string place, int ranks, int ranks_per_host)
      : words_(words_of(line)), place_(std::move(place)), ranks_(ranks), each_(ranks_per_host) {}

  bool is_empty() const { return words_.empty(); }

  PlantedFault fault() {
    PlantedFault fault;
    fault.at = seconds(take("a time, as 90s, 10m or 7.9h"), "a time, as 90s, 10m or 7.9h");
    const std::string_view kind = take("what happens, as rank-dies");
    fault.kind = kind_of(kind);
    if (simulation::scope_of(fault.kind) != FaultScope::storage) fault.who = who(fault.kind);
    if (!words_.empty() && words_.front().front() != 'x') fault.seconds = duration(fault.kind);
    const bool slows = fault.kind == FaultKind::rank_slows || fault.kind == FaultKind::host_slows;
    if (slows) fault.factor = factor();
    if (!words_.empty()) refuse(fmt::format("'{}' has no place here", as_written(words_.front())));
    return fault;
  }

  [[noreturn]] void refuse(const std::string& what, std::string hint = {}) const {
    throw ConfigError(fmt::format("{}: {}", place_, what), std::move(hint));
  }

 private:
  std::string_view take(const std::string& what) {
    if (words_.empty()) refuse("expected " + what + ", and the line ends");
    const std::string_view word = words_.front();
    words_.erase(words_.begin());
    return word;
  }

  double seconds(std::string_view word, const std::string& what) const {
    const auto value = parse_seconds(word);
    if (!value) refuse(fmt::format("expected {}, got '{}'", what, as_written(word)));
    return *value;
  }

  FaultKind kind_of(std::string_view word) const {
    if (const auto kind = simulation::fault_kind(word)) return *kind;
    std::vector<std::string_view> names;
    for (std::size_t i = 0; i < kFaultKinds; ++i) names.push_back(name_of(FaultKind(i)));
    const std::string best = nearest(std::string(word), names);
    refuse(fmt::format("unknown kind of fault '{}'", as_written(word)),
           best.empty() ? fmt::format("kinds are {}", fmt::join(names, ", "))
                        : fmt::format("did you mean {}?", best));
  }

  int who(FaultKind kind) {
    const bool is_rank = simulation::scope_of(kind) == FaultScope::rank;
    const char* const what = is_rank ? "rank" : "host";
    const int count = is_rank ? ranks_ : (ranks_ - 1) / each_ + 1;
    const std::string_view word = take(fmt::format("the {} that is hit", what));
    const auto number = number_of<int>(word);
    if (!number || *number < 0 || *number >= count)
      refuse(fmt::format(
          "there is no {} '{}': {}s are 0 to {}", what, as_written(word), what, count - 1));
    return *number;
  }

  double duration(FaultKind kind) {
    const std::string_view word = take("a duration");
    const double value = seconds(word, "a duration, as 20s or 10m");
    if (value <= 0) refuse(fmt::format("a duration of {} is none", as_written(word)));
    if (kind == FaultKind::rank_dies || kind == FaultKind::host_dies)
      refuse(fmt::format("{} has no duration, got '{}'", name_of(kind), as_written(word)));
    return value;
  }

  double factor() {
    const std::string_view word = take("how many times as slow, as x1.5");
    const auto value = number_of<double>(word.substr(1));
    if (word.front() != 'x' || !value || !(*value > 1) || !(*value <= 1000))
      refuse(fmt::format("expected how many times as slow, x1.01 to x1000, got '{}'",
                         as_written(word)));
    return *value;
  }

  std::vector<std::string_view> words_;
  const std::string place_;
  const int ranks_, each_;
};

double exponential(RandomStream& random, double mean) {
  return -mean * std::log1p(-double(random.uniform()));
}

}  // namespace

std::optional<double> parse_seconds(std::string_view text) {
  constexpr double kMaxSeconds = 1e9;
  if (text.empty()) return std::nullopt;
  const std::size_t unit = std::string_view("smh").find(text.back());
  if (unit == std::string_view::npos) return std::nullopt;
  const auto value = number_of<double>(text.substr(0, text.size() - 1));
  if (!value || !(*value >= 0)) return std::nullopt;
  const double seconds = *value * std::pow(60, double(unit));
  return seconds <= kMaxSeconds ? std::optional(seconds) : std::nullopt;
}

std::vector<PlantedFault> parse_faults(
    std::string_view text, const std::string& name, int ranks, int ranks_per_host, double seconds) {
  std::vector<PlantedFault> faults;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    FaultLine line(text.substr(0, end),
                   fmt::format("--faults {}, line {}", as_written(name), number),
                   ranks,
                   ranks_per_host);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.is_empty()) continue;
    const PlantedFault fault = line.fault();
    if (!faults.empty() && fault.at < faults.back().at)
      line.refuse(
          fmt::format(
              "{:g} s is before the {:g} s of the fault before it", fault.at, faults.back().at),
          "faults are in the order of time");
    if (fault.at >= seconds)
      line.refuse(fmt::format("{:g} s is after the storm, which ends at {:g} s", fault.at, seconds),
                  "--storm-hours has it last longer");
    faults.push_back(fault);
  }
  if (faults.empty())
    throw ConfigError(fmt::format("--faults {}: there is no fault in it", as_written(name)),
                      "a line is TIME KIND [RANK or HOST] [DURATION], as 1.5h rank-dies 17");
  return faults;
}

std::vector<PlantedFault> open_faults(const std::string& file,
                                      int ranks,
                                      int ranks_per_host,
                                      double seconds) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_regular_file(file, error))
    throw ConfigError(
        fmt::format("--faults '{}' is neither poisson:MTTF nor a file", as_written(file)),
        "--faults poisson:7.9h, or a file with one fault a line");
  LOCKSTEP_CHECK(fs::file_size(file, error) <= kMaxFaultBytes && !error,
                 ConfigError,
                 "--faults {}: is longer than {} bytes",
                 as_written(file),
                 kMaxFaultBytes);
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  LOCKSTEP_CHECK(stream.good() || stream.eof(),
                 ConfigError,
                 "--faults {}: the file cannot be read",
                 as_written(file));
  return parse_faults(text, file, ranks, ranks_per_host, seconds);
}

void check_drawn(double mean_s, double seconds) {
  constexpr double kMaxDrawn = 1e6;
  if (seconds / mean_s > kMaxDrawn)
    throw ConfigError(fmt::format("--faults poisson:{:g}s: {:.0f} faults in {:g} h, at most {:.0f} "
                                  "can be drawn",
                                  mean_s,
                                  seconds / mean_s,
                                  seconds / 3600,
                                  kMaxDrawn),
                      "a longer mean time to failure, or fewer --storm-hours");
}

std::vector<PlantedFault> draw_faults(
    double mean_s, double seconds, int ranks, int ranks_per_host, std::uint64_t seed) {
  check_drawn(mean_s, seconds);
  RandomStream random(random_key(seed, "faults"), 0);
  const int hosts = (ranks - 1) / ranks_per_host + 1;
  std::vector<PlantedFault> faults;
  for (double at = exponential(random, mean_s); at < seconds; at += exponential(random, mean_s)) {
    int drawn = int(random.below(100));
    const Share* share = kShares;
    while (drawn >= share->percent) drawn -= (share++)->percent;
    PlantedFault fault{.at = at, .kind = share->kind};
    const FaultScope scope = simulation::scope_of(fault.kind);
    if (scope != FaultScope::storage)
      fault.who = int(random.below(std::uint32_t(scope == FaultScope::rank ? ranks : hosts)));
    if (share->mean_seconds > 0) fault.seconds = exponential(random, share->mean_seconds);
    if (fault.kind == FaultKind::rank_slows) fault.factor = kDrawnFactor;
    faults.push_back(fault);
  }
  return faults;
}

}  // namespace lockstep
