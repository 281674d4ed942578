// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/forecast.h"

#include <cmath>
#include <fmt/format.h>

#include "lockstep/error.h"
#include "lockstep/schedule.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/batch/schedule.h"

namespace lockstep {
namespace {

std::vector<int> counts_up_to(int most) {
  std::vector<int> counts;
  for (int ranks = 1; ranks < most; ranks *= 2) counts.push_back(ranks);
  counts.push_back(most);
  return counts;
}

std::string format_time(double seconds) {
  return seconds >= 10 ? fmt::format("{:.5g} s", seconds) : fmt::format("{:.4g} ms", seconds * 1e3);
}

std::string format_link(const Link& link) {
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

/// With what operators' costs are weighed.
DevicePeaks peaks_for(const PlanRequest& request, const ForecastRequest& asked) {
  if (asked.step_s) return kUnknownPeaks;  // where shares of a step alone count
  if (asked.rate) return peaks_of(*asked.rate, request.options.precision);
  if (asked.peaks.fp32_flops > 0) return asked.peaks;
  throw ConfigError("--network: this machine has no device of the kind to measure",
                    "--device-rate A100, H100, H200, B200 or TFLOP/s; or --step-ms MS: what one "
                    "rank takes for a step of its share of the batch");
}

/// All but what is predicted.
Forecast forecast_of(const PlanRequest& request,
                     const ForecastRequest& asked,
                     const RankShare& last) {
  Forecast forecast;
  forecast.reduction = request.options.reduction;
  if (asked.step_s) {
    forecast.source = RateSource::step_ms;
    forecast.compute = fmt::format(
        "--step-ms {:g} for {:g} samples on one rank", *asked.step_s * 1e3, last.samples);
  } else if (asked.rate) {
    forecast.source = RateSource::device_rate;
    forecast.compute = format_rate(*asked.rate, request.options.precision);
    if (asked.rate->sheet) forecast.device = asked.rate->sheet->name;
  } else {
    forecast.device = asked.device;
    forecast.compute = fmt::format(
        "the least that the peaks measured here allow: {}, {:.0f} GFLOP/s, {:.1f} GB/s{}",
        asked.device,
        asked.peaks.fp32_flops * 1e-9,
        asked.peaks.bytes * 1e-9,
        request.on_host ? "; each rank has a processor like this one, and no GPU: for GPUs, "
                          "--device-rate A100, H100, H200 or B200"
                        : "");
  }
  return forecast;
}

/// With as many samples and shards for each rank as the run has on all of them.
RankShare weak_share(const PlanRequest& request,
                     const RankShare& last,
                     int ranks,
                     int ranks_per_host) {
  TrainOptions options = request.options;
  const BatchPlan batch = plan_batch(options, request.ranks);
  options.accumulation = 0;
  options.micro_batch = batch.micro_batch;
  options.global_batch = std::llround(last.samples) * ranks;
  options.shards = int((std::int64_t(batch.shards) * ranks - 1) / request.ranks + 1);
  const RankShare no_whole_groups{ranks, last.samples, last.subtrees};
  return try_share_of(options, ranks, ranks_per_host).value_or(no_whole_groups);
}

void add_rows(const PlanRequest& request,
              const ForecastModel& model,
              const RankShare& last,
              Forecast& forecast) {
  const auto cost = [&](const RankShare& share) {
    return predict(model.work, model.machine, model.parameters, share);
  };
  const int per_host = model.machine.network.ranks_per_host;
  const double weak_alone = cost({1, last.samples, 1}).step_s();
  for (const int ranks : counts_up_to(request.ranks)) {
    const auto share = try_share_of(request.options, ranks, per_host);
    if (!share) continue;  // no whole batch-norm groups
    ForecastRow row;
    row.ranks = ranks;
    row.share = *share;
    row.strong = cost(row.share);
    row.weak =
        ranks == request.ranks ? row.strong : cost(weak_share(request, last, ranks, per_host));
    row.strong_efficiency =
        strong_efficiency(model, row.share, double(request.options.global_batch));
    row.weak_efficiency = weak_alone / row.weak.step_s();
    forecast.rows.push_back(row);
  }
}

/// What the exchange does on the most ranks, and why.
std::string format_exchange(const Forecast& forecast) {
  const RankShare& share = forecast.rows.back().share;
  if (share.ranks == 1) return "none: one rank";
  if (forecast.reduction == Reduction::fast) return "fast: all-reduce of the library, as a ring";
  const bool hosts = share.ranks > forecast.network.ranks_per_host;
  std::string text = "reproducible: all-to-all and all-gather";
  if (share.two_levels)
    text += ", on two levels: the ranks of a host sum their shards first";
  else if (hosts && share.ranks % forecast.network.ranks_per_host != 0)
    text += ", on one level: the last host has fewer ranks than the others";
  if (share.subtrees > 1) text += fmt::format("; {:.3g} subtrees a rank", share.subtrees);
  if (share.two_levels && share.host_nodes > 1)
    text += fmt::format(", {:.3g} a host", share.host_nodes);
  return text;
}

std::string changes_text(const Forecast& forecast) {
  if (forecast.rows.back().ranks == 1) return {};
  if (forecast.changes.empty())
    return fmt::format(
        "\nchanges    none of --reduction, --shards, --global-batch, --bucket-mb, --overlap and "
        "--network is predicted to be {:.0f}% faster\n",
        100 * (kWorthwhileSpeedup - 1));
  std::string text = fmt::format("\nchanges    predicted for {} ranks, one at a time\n",
                                 forecast.rows.back().ranks);
  for (const ForecastChange& change : forecast.changes)
    text += fmt::format("  {:<24} step {}, efficiency {:.1f}%, {:.2f} times the samples/s{}\n",
                        change.flags,
                        format_time(change.cost.step_s()),
                        change.efficiency * 100,
                        change.speedup,
                        change.price.empty() ? "" : " (" + change.price + ")");
  return text;
}

std::string_view name_of(RateSource source) {
  return source == RateSource::step_ms       ? "step_ms"
         : source == RateSource::device_rate ? "device_rate"
                                             : "measured_peaks";
}

}  // namespace

void make_shards_for(TrainOptions& options, int ranks) {
  if (options.shards == 0 && ranks > kDefaultShards) options.shards = ranks;
}

Forecast make_forecast(Backend& device, const PlanRequest& request, const ForecastRequest& asked) {
  const DevicePeaks peaks = peaks_for(request, asked);
  const PlannedWork planned = plan_work(device, request, peaks);
  ForecastModel model{.work = planned.work, .machine = {}, .parameters = {}, .peaks = peaks};
  if (asked.rate) model.sheet = asked.rate->sheet;
  model.machine = {.network = with_links_of(model.sheet, asked.network),
                   .cores = 0,
                   .on_gpus = !request.on_host};
  const RankShare last =
      share_of(request.options, request.ranks, model.machine.network.ranks_per_host);
  Forecast forecast = forecast_of(request, asked, last);
  forecast.network = model.machine.network;
  if (asked.step_s) {
    forecast.parameters.per_sample_s = *asked.step_s / last.samples;
  } else {
    forecast.parameters.per_sample_s = planned.per_sample_s;
    forecast.parameters.fixed_s = planned.fixed_s;
  }
  model.parameters = forecast.parameters;
  add_rows(request, model, last, forecast);
  forecast.changes = find_changes(device, request, model);
  return forecast;
}

std::string to_text(const Forecast& forecast) {
  const Network& network = forecast.network;
  std::string text = fmt::format(
      "\nnetwork    {}: {}\n"
      "           assumed, not measured: inside a host {}; between hosts {} a host, {} ranks each\n"
      "compute    {}\n"
      "exchange   {}\n",
      network.name,
      network.words,
      format_link(network.inside),
      format_link(network.between),
      network.ranks_per_host,
      forecast.compute,
      format_exchange(forecast));
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
                        format_time(row.strong.step_s()),
                        format_time(row.strong.exposed_s),
                        row.strong_efficiency * 100,
                        format_time(row.weak.step_s()),
                        format_time(row.weak.exposed_s),
                        row.weak_efficiency * 100);
  return text +
         fmt::format(
             "  predicted, not measured{}; samples: of the rank that has most; exposed: "
             "communication that is not hidden\n",
             forecast.source == RateSource::measured_peaks
                 ? ": a real step takes longer than the peaks allow"
                 : "") +
         changes_text(forecast);
}

nlohmann::ordered_json to_json(const Forecast& forecast) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const ForecastRow& row : forecast.rows)
    rows.push_back({{"ranks", row.ranks},
                    {"samples_per_rank", row.share.samples},
                    {"levels", row.share.two_levels ? 2 : 1},
                    {"strong", json_of(row.strong, row.strong_efficiency)},
                    {"weak", json_of(row.weak, row.weak_efficiency)}});
  Json changes = Json::array();
  for (const ForecastChange& change : forecast.changes) {
    Json json = json_of(change.cost, change.efficiency);
    json["flags"] = change.flags;
    json["speedup"] = change.speedup;
    changes.push_back(std::move(json));
  }
  const Network& network = forecast.network;
  Json json = {{"predicted", true},
               {"network",
                {{"name", network.name},
                 {"assumed", true},
                 {"inside", json_of(network.inside)},
                 {"between", json_of(network.between)},
                 {"ranks_per_host", network.ranks_per_host}}},
               {"compute", forecast.compute},
               {"compute_measured", forecast.source == RateSource::step_ms},
               {"rate_source", name_of(forecast.source)},
               {"rate_device", forecast.device},
               {"rows", std::move(rows)},
               {"changes", std::move(changes)}};
  if (forecast.device.empty()) json.erase("rate_device");
  return json;
}

}  // namespace lockstep
