// SPDX-License-Identifier: Apache-2.0
#include "launcher/forecast.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "launcher/console.h"
#include "parallel/schedule.h"

namespace lockstep {
namespace {

std::vector<int> counts_up_to(int most) {
  std::vector<int> counts;
  for (int ranks = 1; ranks < most; ranks *= 2) counts.push_back(ranks);
  counts.push_back(most);
  return counts;
}

std::string time_words(double seconds) {
  return seconds >= 10 ? fmt::format("{:.5g} s", seconds) : fmt::format("{:.4g} ms", seconds * 1e3);
}

std::string link_words(const Link& link) {
  return fmt::format("{:g} us and {:g} GB/s", link.latency_s * 1e6, link.bytes_per_s * 1e-9);
}

nlohmann::ordered_json json_of(const StepCost& cost, double efficiency) {
  return {{"step_ms", cost.step_s() * 1e3},
          {"compute_ms", cost.compute_s * 1e3},
          {"communication_ms", cost.communication_s * 1e3},
          {"exposed_ms", cost.exposed_s * 1e3},
          {"efficiency", efficiency}};
}

nlohmann::ordered_json json_of(const Link& link) {
  return {{"latency_us", link.latency_s * 1e6}, {"bandwidth_GBps", link.bytes_per_s * 1e-9}};
}

}  // namespace

void make_shards_for(TrainOptions& options, int ranks) {
  if (options.shards == 0 && ranks > kDefaultShards) options.shards = ranks;
}

Forecast make_forecast(Backend& device, const PlanRequest& request, const ForecastRequest& asked) {
  const bool has_peaks = asked.peaks.fp32_flops > 0;
  if (!has_peaks && !asked.step_s)
    throw ConfigError("--network: no device is here whose speed could be measured",
                      "--step-ms MS: what one rank takes for a step of its share of the batch");
  const PlannedWork planned = plan_work(device, request, has_peaks ? asked.peaks : kUnknownPeaks);
  Forecast forecast;
  forecast.network = asked.network;
  CostParameters& parameters = forecast.parameters;
  const RankShare last = share_of(request.options, request.ranks);
  if (asked.step_s) {
    forecast.measured = true;
    forecast.compute = fmt::format(
        "--step-ms {:g} for {:g} samples on one rank", *asked.step_s * 1e3, last.samples);
    parameters.per_sample_s = *asked.step_s / last.samples;
  } else {
    forecast.compute = fmt::format(
        "the least that the peaks measured here allow ({}: {:.0f} GFLOP/s, {:.1f} GB/s)",
        asked.device,
        asked.peaks.fp32_flops * 1e-9,
        asked.peaks.bytes * 1e-9);
    parameters.per_sample_s = planned.per_sample_s;
    parameters.fixed_s = planned.fixed_s;
  }
  const Machine machine{.network = asked.network, .cores = 0, .on_gpus = !request.on_host};
  const auto cost = [&](const RankShare& share) {
    return predict(planned.work, machine, parameters, share);
  };
  const double weak_alone = cost({1, last.samples, 1}).step_s();
  for (const int ranks : counts_up_to(request.ranks)) {
    ForecastRow row;
    row.ranks = ranks;
    try {
      row.share = share_of(request.options, ranks);
    } catch (const ConfigError&) {
      continue;  // no whole batch-norm groups
    }
    row.strong = cost(row.share);
    row.weak = cost({ranks, last.samples, last.subtrees});
    const double alone = cost({1, double(request.options.global_batch), 1}).step_s();
    row.strong_efficiency = alone / (ranks * row.strong.step_s());
    row.weak_efficiency = weak_alone / row.weak.step_s();
    forecast.rows.push_back(row);
  }
  return forecast;
}

std::string to_text(const Forecast& forecast) {
  const Network& network = forecast.network;
  std::string text = fmt::format(
      "\nnetwork    {}: {}\n"
      "           assumed, not measured: inside a host {}; between hosts {} a host, {} ranks each\n"
      "compute    {}\n",
      network.name,
      network.words,
      link_words(network.inside),
      link_words(network.between),
      network.ranks_per_host,
      forecast.compute);
  const double last = forecast.rows.back().share.samples;
  text += fmt::format(
      "\n  {:>7}  {:^42}  {:^34}\n  {:>7}  {:>8} {:>11} {:>10} {:>10}  {:>11} {:>10} {:>10}\n",
      "",
      "the same global batch",
      fmt::format("{:g} samples a rank", last),
      "ranks",
      "samples",
      "step",
      "exposed",
      "efficiency",
      "step",
      "exposed",
      "efficiency");
  for (const ForecastRow& row : forecast.rows)
    text += fmt::format("  {:>7}  {:>8g} {:>11} {:>10} {:>9.1f}%  {:>11} {:>10} {:>9.1f}%\n",
                        row.ranks,
                        row.share.samples,
                        time_words(row.strong.step_s()),
                        time_words(row.strong.exposed_s),
                        row.strong_efficiency * 100,
                        time_words(row.weak.step_s()),
                        time_words(row.weak.exposed_s),
                        row.weak_efficiency * 100);
  return text + fmt::format(
                    "  predicted, not measured{}; samples: of the rank that has most; exposed: "
                    "communication that is not hidden\n",
                    forecast.measured ? "" : ": a real step takes longer than the peaks allow");
}

nlohmann::ordered_json to_json(const Forecast& forecast) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const ForecastRow& row : forecast.rows)
    rows.push_back({{"ranks", row.ranks},
                    {"samples_per_rank", row.share.samples},
                    {"strong", json_of(row.strong, row.strong_efficiency)},
                    {"weak", json_of(row.weak, row.weak_efficiency)}});
  const Network& network = forecast.network;
  return {{"network",
           {{"name", network.name},
            {"assumed", true},
            {"inside", json_of(network.inside)},
            {"between", json_of(network.between)},
            {"ranks_per_host", network.ranks_per_host}}},
          {"compute", forecast.compute},
          {"compute_measured", forecast.measured},
          {"rows", std::move(rows)}};
}

}  // namespace lockstep
