// SPDX-License-Identifier: Apache-2.0
#include "core/profile/kernel_times.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/profile/profiler.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr std::size_t kQuantiles = 20;
/// With fewer steps nothing is said of their spread.
constexpr std::size_t kMinSteps = 8;

std::string list(std::span<const TensorType> types) {
  std::string text;
  for (const TensorType& type : types) text += (text.empty() ? "" : ", ") + type.to_string();
  return "(" + text + ")";
}

/// Of ascending values, at the share `u` of them.
double quantile(const std::vector<double>& sorted, double u) {
  const double at = u * double(sorted.size() - 1);
  const auto below = std::min(std::size_t(at), sorted.size() - 2);
  return std::lerp(sorted[below], sorted[below + 1], at - double(below));
}

/// Means of runs, by name, and all seconds together.
double add_nodes(const Profiler& profiler, KernelTimes& times) {
  struct Sum {
    double seconds = 0, runs = 0;
  };
  std::map<std::string, Sum> sums;
  double all = 0;
  for (std::size_t i = 0; i < profiler.works().size(); ++i) {
    const ProfiledWork& work = profiler.works()[i];
    const Profiler::Total& total = profiler.totals()[i];
    if (work.kernel.empty() || total.runs == 0) continue;
    Sum& sum = sums[work.kernel];
    const double seconds =
        profiler.device() != nullptr ? profiler.device()->total(int(i)).seconds : total.seconds;
    sum.seconds += seconds;
    sum.runs += double(total.runs);
    all += seconds;
  }
  for (const auto& [name, sum] : sums) times.seconds[name] = sum.seconds / sum.runs;
  return all;
}

/// Sums of the shards of a step, which are 2 or more. Of Note [Reduction tree] the shard before the
/// n-th ends n - 1 - popcount(n - 1) sums in all, and the last one, whose sums nothing tells apart
/// from the rest of the step, popcount(n - 1) more.
void add_sums(const Profiler& profiler, KernelTimes& times) {
  const auto work = std::ranges::find(profiler.works(), ProfilePart::sums, &ProfiledWork::part);
  if (work == profiler.works().end() || profiler.step_times().front().shards < 2) return;
  std::vector<double> each;
  const int ends = profiler.step_times().front().shards;
  const int last = std::popcount(unsigned(ends));
  for (const Profiler::Step& step : profiler.step_times())
    if (step.shards == ends) each.push_back(step.sums / double(ends - last));
  std::ranges::sort(each);
  const double seconds = each.size() < 2 ? 0 : quantile(each, 0.5);
  if (ends == last || seconds <= 0) return;
  times.sum_bytes_per_s = work->cost.bytes / seconds;
  times.step_s = std::max(0.0, times.step_s - last * seconds);
}

/// Beyond these a simulated clock would lose its microseconds.
constexpr double kMaxMicroseconds = 1e9, kMaxRate = 1e21;

double number_of(const json& object, const std::string& key, const std::string& name, double most) {
  const auto found = object.find(key);
  const double value = found != object.end() && found->is_number() ? found->get<double>() : -1;
  if (!(value >= 0 && value <= most))
    throw ConfigError(
        fmt::format("{}: '{}' must be a number from 0 to {:g}, got {}",
                    name,
                    key,
                    most,
                    found == object.end() ? "nothing"
                    : found->is_number()  ? fmt::format("{:g}", found->get<double>())
                                          : std::string(found->type_name())),
        "lockstep train --profile --ranks 1 writes kernel_times.json into the folder of its run");
  return value;
}

/// Nothing where it is not JSON, or is nested deeper than such a file is: what is deep is not
/// built.
std::optional<json> parse_shallow(const std::string& text) {
  constexpr int kDeepest = 3;
  bool is_deep = false;
  const auto keep = [&](int depth, json::parse_event_t, json&) {
    is_deep |= depth > kDeepest;
    return depth <= kDeepest;
  };
  json object = json::parse(text, keep, false);
  if (is_deep || !object.is_object()) return std::nullopt;
  return object;
}

/// A member as a short text of an error.
std::string short_text(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return "nothing";
  constexpr std::size_t kLongest = 40;
  return found->is_structured()
             ? found->type_name()
             : found->dump(-1, ' ', false, json::error_handler_t::replace).substr(0, kLongest);
}

}  // namespace

std::string kernel_name(const Operator& op,
                        std::span<const TensorType> inputs,
                        std::span<const TensorType> outputs) {
  const std::string attributes = op.attributes();
  return fmt::format("{}{}{} {} -> {}",
                     name_of(op.kind()),
                     attributes.empty() ? "" : " ",
                     attributes,
                     list(inputs),
                     list(outputs));
}

double KernelTimes::factor_at(double u) const {
  return step_factors.size() < 2 ? 1 : quantile(step_factors, std::clamp(u, 0.0, 1.0));
}

KernelTimes kernel_times_of(const Profiler& profiler,
                            const DevicePeaks& peaks,
                            bool gpu,
                            int ranks) {
  KernelTimes times;
  times.peaks = peaks;
  times.gpu = gpu;
  times.ranks = ranks;
  const double in_nodes = add_nodes(profiler, times);
  if (times.gpu || profiler.step_times().size() < kMinSteps) return times;
  std::vector<double> nodes, rests;
  double mean = 0;
  for (const Profiler::Step& step : profiler.step_times()) {
    nodes.push_back(step.nodes);
    rests.push_back(step.seconds - step.nodes - step.loading - step.sums);
    mean += step.nodes / double(profiler.step_times().size());
  }
  std::ranges::sort(nodes);
  std::ranges::sort(rests);
  const double median = quantile(nodes, 0.5);
  if (!(median > 0 && in_nodes > 0)) return times;
  for (auto& [name, seconds] : times.seconds) seconds *= median / mean;
  for (std::size_t i = 0; i <= kQuantiles; ++i)
    times.step_factors.push_back(quantile(nodes, double(i) / kQuantiles) / median);
  times.step_s = std::max(0.0, quantile(rests, 0.5));
  add_sums(profiler, times);
  std::vector<double> loading;
  for (const Profiler::Step& step : profiler.step_times())
    if (step.micro_batches > 0) loading.push_back(step.loading / double(step.micro_batches));
  std::ranges::sort(loading);
  if (loading.size() >= 2) times.micro_batch_s = quantile(loading, 0.5);
  return times;
}

std::string to_json(const KernelTimes& times) {
  json kernels = json::object();
  for (const auto& [name, seconds] : times.seconds) kernels[name] = seconds * 1e6;
  return json{{"format", kFormat},
              {"device", times.gpu ? "gpu" : "cpu"},
              {"ranks", times.ranks},
              {"peaks",
               {{"fp32_flops", times.peaks.fp32_flops},
                {"bf16_flops", times.peaks.bf16_flops},
                {"bytes_per_s", times.peaks.bytes}}},
              {"kernel_us", times.kernel_s * 1e6},
              {"launch_us", times.launch_s * 1e6},
              {"micro_batch_us", times.micro_batch_s * 1e6},
              {"step_us", times.step_s * 1e6},
              {"sum_bytes_per_s", times.sum_bytes_per_s},
              {"step_factors", times.step_factors},
              {"kernels_us", std::move(kernels)}}
             .dump(2, ' ', false, json::error_handler_t::replace) +
         "\n";
}

KernelTimes parse_kernel_times(const std::string& text, const std::string& name) {
  const auto refuse = [&](const std::string& what) {
    throw ConfigError(
        name + ": " + what,
        "lockstep train --profile --ranks 1 writes kernel_times.json into the folder of its run");
  };
  const std::optional<json> parsed = parse_shallow(text);
  if (!parsed) refuse("not a JSON object as such a file holds");
  const json& object = *parsed;
  if (object.value("format", json()) != kFormat)
    refuse(fmt::format("'format' must be {}, got {}", kFormat, short_text(object, "format")));
  const json device = object.value("device", json());
  if (device != "gpu" && device != "cpu")
    refuse("'device' must be \"cpu\" or \"gpu\", got " + short_text(object, "device"));
  if (object.contains("ranks") && object["ranks"] != 1)
    refuse("times of a run of one rank are needed, those of more hold their exchange; 'ranks' is " +
           short_text(object, "ranks"));
  const json peaks = object.value("peaks", json());
  const json kernels = object.value("kernels_us", json());
  if (!peaks.is_object() || !kernels.is_object())
    refuse("'peaks' and 'kernels_us' must be objects");
  KernelTimes times;
  times.gpu = device == "gpu";
  times.peaks = {.fp32_flops = number_of(peaks, "fp32_flops", name, kMaxRate),
                 .bf16_flops = number_of(peaks, "bf16_flops", name, kMaxRate),
                 .bytes = number_of(peaks, "bytes_per_s", name, kMaxRate)};
  constexpr double kMinRate = 1e6;
  if (!(times.peaks.fp32_flops >= kMinRate && times.peaks.bytes >= kMinRate))
    refuse(fmt::format("'fp32_flops' and 'bytes_per_s' of 'peaks' must be {:g} or more", kMinRate));
  const auto seconds_of = [&](const char* key) {
    return number_of(object, key, name, kMaxMicroseconds) * 1e-6;
  };
  times.kernel_s = seconds_of("kernel_us");
  times.launch_s = seconds_of("launch_us");
  times.micro_batch_s = seconds_of("micro_batch_us");
  times.step_s = seconds_of("step_us");
  times.sum_bytes_per_s = number_of(object, "sum_bytes_per_s", name, kMaxRate);
  if (times.sum_bytes_per_s > 0 && times.sum_bytes_per_s < kMinRate)
    refuse(fmt::format("'sum_bytes_per_s' must be 0, unknown, or {:g} or more", kMinRate));
  for (const auto& [kernel, value] : kernels.items())
    times.seconds[kernel] = number_of(kernels, kernel, name, kMaxMicroseconds) * 1e-6;
  const json factors = object.value("step_factors", json::array());
  if (!factors.is_array()) refuse("'step_factors' must be a list");
  for (const json& factor : factors) {
    constexpr double kMaxFactor = 1e6;
    const double value = factor.is_number() ? factor.get<double>() : 0;
    if (!(value > 0 && value <= kMaxFactor) ||
        (!times.step_factors.empty() && value < times.step_factors.back()))
      refuse(fmt::format("'step_factors' must be positive numbers in ascending order, at most {:g}",
                         kMaxFactor));
    times.step_factors.push_back(factor.get<double>());
  }
  return times;
}

}  // namespace lockstep
