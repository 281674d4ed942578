// SPDX-License-Identifier: Apache-2.0
#include "launcher/scale/scale_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::string>;

const Cells kHead{"mode",
                  "ranks",
                  "global batch",
                  "samples/s",
                  "efficiency",
                  "range",
                  "step ms",
                  "range",
                  "exposed ms",
                  "predicted",
                  "off"};

std::string range_of(const Spread& spread, double scale, int digits) {
  return fmt::format("{:.{}f}..{:.{}f}", spread.least * scale, digits, spread.most * scale, digits);
}

double off(const ScalePoint& point) { return point.predicted->step_s() / point.step_s.median - 1; }

Cells row_of(const ScalePoint& point) {
  const Experiment& experiment = point.experiment;
  Cells cells{std::string(name_of(experiment.mode)),
              fmt::format("{}", experiment.ranks),
              fmt::format("{}", experiment.global_batch),
              fmt::format("{:.1f}", point.samples_per_s.median),
              fmt::format("{:.1f}%", point.efficiency.median * 100),
              range_of(point.efficiency, 100, 1) + "%",
              fmt::format("{:.3f}", point.step_s.median * 1e3),
              range_of(point.step_s, 1e3, 3),
              fmt::format("{:.3f}", point.exposed_s.median * 1e3)};
  if (point.predicted) {
    cells.push_back(fmt::format(
        "{:.3f}{}", point.predicted->step_s() * 1e3, point.held_out ? " held out" : ""));
    cells.push_back(fmt::format("{:+.1f}%", off(point) * 100));
  } else {
    cells.insert(cells.end(), {"-", "-"});
  }
  return cells;
}

std::vector<Cells> rows_of(const ScaleResult& result) {
  std::vector<Cells> rows;
  for (const ScalePoint& point : result.points) rows.push_back(row_of(point));
  return rows;
}

std::string format_subject(const ScaleSubject& subject) {
  return fmt::format("{} on {}, {}; medians of {} run{}",
                     subject.model,
                     subject.data,
                     subject.device,
                     subject.repeats,
                     subject.repeats == 1 ? "" : "s");
}

std::string format_link(const char* where, const Link& link, double slowness, bool fitted) {
  const std::string assumed =
      fmt::format("{:g} us, {:g} GB/s", link.latency_s * 1e6, link.bytes_per_s * 1e-9);
  return fitted ? fmt::format("{} {:.3g} times as slow as assumed ({})", where, slowness, assumed)
                : fmt::format("{} as assumed, not measured ({})", where, assumed);
}

std::string format_network(const ScaleResult& result) {
  const Network& network = result.machine.network;
  const CostParameters& model = *result.model;
  std::string words = "network " + network.name;
  if (network.ranks_per_host > 1)
    words +=
        format_link(" inside a host", network.inside, model.slowness_inside, result.fitted.inside);
  if (result.network_assumed)
    words += format_link(network.ranks_per_host > 1 ? ", between hosts" : " between hosts",
                         network.between,
                         model.slowness_between,
                         result.fitted.between);
  return words;
}

/// " (communication not fitted: ...)" after a prediction for which that holds.
std::string in_parentheses(const std::string& words) {
  return words.empty() ? words : fmt::format(" ({})", words);
}

/// Lines about the cost model, without a mark before them.
std::vector<std::string> model_lines(const ScaleResult& result) {
  if (!result.model) return {fmt::format("no cost model: {}", result.no_model)};
  const CostParameters& model = *result.model;
  std::vector<std::string> lines{fmt::format(
      "cost model: {:.4g} ms a step and {:.4g} ms a sample of one rank, {:.2f} times as much on a "
      "full host; {}; of the communication that "
      "backward could hide {:.0f}% is; {:.1f}% of compute more is waiting for the slowest rank",
      model.fixed_s * 1e3,
      model.per_sample_s * 1e3,
      model.contention,
      format_network(result),
      model.overlap * 100,
      model.imbalance * 100)};
  for (const ScalePoint& point : result.points)
    if (point.held_out && point.predicted)
      lines.push_back(fmt::format(
          "held out: {} {} ranks: predicted {:.3f} ms ({:.3f} exposed), measured {:.3f} ms ({:.3f} "
          "exposed), {:+.1f}%{}",
          name_of(point.experiment.mode),
          point.experiment.ranks,
          point.predicted->step_s() * 1e3,
          point.predicted->exposed_s * 1e3,
          point.step_s.median * 1e3,
          point.exposed_s.median * 1e3,
          off(point) * 100,
          in_parentheses(explain_missing_fit(result, point.experiment.ranks))));
  for (const ScaleForecast& forecast : result.forecasts)
    lines.push_back(fmt::format(
        "predicted, not measured: {} {} ranks: {:.3f} ms ({:.3f} exposed), efficiency {:.1f}%{}",
        name_of(forecast.experiment.mode),
        forecast.experiment.ranks,
        forecast.cost.step_s() * 1e3,
        forecast.cost.exposed_s * 1e3,
        forecast.efficiency * 100,
        in_parentheses(explain_missing_fit(result, forecast.experiment.ranks))));
  for (const Unpredicted& one : result.unpredicted)
    lines.push_back(fmt::format("{} {} ranks cannot be predicted: {}",
                                name_of(one.experiment.mode),
                                one.experiment.ranks,
                                one.reason));
  return lines;
}

Json json_of(const Spread& spread, double scale = 1) {
  return {{"median", spread.median * scale},
          {"min", spread.least * scale},
          {"max", spread.most * scale}};
}

Json json_of(const Experiment& experiment) {
  return {{"mode", name_of(experiment.mode)},
          {"ranks", experiment.ranks},
          {"global_batch", experiment.global_batch}};
}

Json json_of(const StepCost& cost) {
  return {{"step_ms", cost.step_s() * 1e3},
          {"compute_ms", cost.compute_s * 1e3},
          {"communication_ms", cost.communication_s * 1e3},
          {"exposed_ms", cost.exposed_s * 1e3}};
}

Json json_of(const ScalePoint& point) {
  Json json = json_of(point.experiment);
  json["samples_per_rank"] = point.share.samples;
  json["repeats"] = point.repeats;
  json["samples_per_s"] = json_of(point.samples_per_s);
  json["efficiency"] = json_of(point.efficiency);
  json["step_ms"] = json_of(point.step_s, 1e3);
  json["exposed_ms"] = json_of(point.exposed_s, 1e3);
  json["held_out"] = point.held_out;
  json["predicted"] = point.predicted ? json_of(*point.predicted) : Json(nullptr);
  return json;
}

Json json_of(const ScaleRun& run) {
  Json json{{"experiment", run.experiment},
            {"repeat", run.repeat},
            {"folder", run.folder},
            {"log", run.log}};
  if (run.error.empty()) {
    json["step_ms"] = run.times.step_s * 1e3;
    json["exposed_ms"] = run.times.exposed_s * 1e3;
  } else {
    json["error"] = run.error;
  }
  return json;
}

Json json_of(const Link& link) {
  return {{"latency_us", link.latency_s * 1e6}, {"bandwidth_GBps", link.bytes_per_s * 1e-9}};
}

Json model_json(const ScaleResult& result) {
  if (!result.model) return nullptr;
  const CostParameters& model = *result.model;
  return {{"fixed_ms", model.fixed_s * 1e3},
          {"per_sample_ms", model.per_sample_s * 1e3},
          {"contention", model.contention},
          {"slowness_inside", model.slowness_inside},
          {"slowness_between", model.slowness_between},
          {"fitted_inside", result.fitted.inside},
          {"fitted_between", result.fitted.between},
          {"overlap", model.overlap},
          {"imbalance", model.imbalance},
          {"on_gpus", result.machine.on_gpus},
          {"cores_per_host", result.machine.cores},
          {"network",
           {{"name", result.machine.network.name},
            {"ranks_per_host",
             result.network_assumed ? Json(result.machine.network.ranks_per_host) : Json(nullptr)},
            {"inside", json_of(result.machine.network.inside)},
            {"between", json_of(result.machine.network.between)}}}};
}

}  // namespace

std::string scale_text(const ScaleSubject& subject, const ScaleResult& result) {
  std::vector<Cells> rows = rows_of(result);
  rows.insert(rows.begin(), kHead);
  std::vector<std::size_t> widths(kHead.size());
  for (const Cells& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text = format_subject(subject) + "\n\n";
  for (const Cells& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) text += fmt::format("  {:>{}}", row[i], widths[i]);
    text += "\n";
  }
  text += "\n";
  for (const std::string& line : scale_notes(subject, result)) text += line + "\n";
  return text;
}

report::Table scale_table(const ScaleSubject& subject, const ScaleResult& result) {
  return {format_subject(subject), kHead, rows_of(result)};
}

std::vector<std::string> scale_notes(const ScaleSubject& subject, const ScaleResult& result) {
  std::vector<std::string> notes = model_lines(result);
  for (const ScaleRun& run : subject.runs)
    if (!run.error.empty()) notes.push_back("failed: " + run.error);
  if (!subject.complete) notes.emplace_back("not all runs are done");
  return notes;
}

std::string scale_markdown(const ScaleSubject& subject, const ScaleResult& result) {
  const auto line = [](const Cells& cells) {
    return fmt::format("| {} |\n", fmt::join(cells, " | "));
  };
  std::string text = format_subject(subject) + ".\n\n" + line(kHead);
  text += line(Cells(kHead.size(), "---:"));
  for (const Cells& row : rows_of(result)) text += line(row);
  text += "\n";
  for (const std::string& words : model_lines(result)) text += fmt::format("- {}\n", words);
  if (!subject.complete) text += "- not all runs are done\n";
  return text;
}

std::string scale_csv(const ScaleResult& result) {
  std::string text =
      "mode,ranks,global_batch,samples_per_rank,repeats,samples_per_s,efficiency,efficiency_min,"
      "efficiency_max,step_ms,step_ms_min,step_ms_max,exposed_ms,predicted_step_ms,"
      "predicted_exposed_ms,held_out\n";
  for (const ScalePoint& p : result.points) {
    text += fmt::format("{},{},{},{:g},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},",
                        name_of(p.experiment.mode),
                        p.experiment.ranks,
                        p.experiment.global_batch,
                        p.share.samples,
                        p.repeats,
                        p.samples_per_s.median,
                        p.efficiency.median,
                        p.efficiency.least,
                        p.efficiency.most,
                        p.step_s.median * 1e3,
                        p.step_s.least * 1e3,
                        p.step_s.most * 1e3,
                        p.exposed_s.median * 1e3);
    if (p.predicted)
      text +=
          fmt::format("{:.6g},{:.6g}", p.predicted->step_s() * 1e3, p.predicted->exposed_s * 1e3);
    else
      text += ",";
    text += fmt::format(",{}\n", p.held_out ? 1 : 0);
  }
  return text;
}

std::string scale_json(const ScaleSubject& subject, const ScaleResult& result) {
  Json points = Json::array(), runs = Json::array(), forecasts = Json::array();
  Json unpredicted = Json::array();
  for (const ScalePoint& point : result.points) points.push_back(json_of(point));
  for (const ScaleRun& run : subject.runs) runs.push_back(json_of(run));
  for (const ScaleForecast& forecast : result.forecasts) {
    Json json = json_of(forecast.experiment);
    json.update(json_of(forecast.cost));
    json["efficiency"] = forecast.efficiency;
    forecasts.push_back(std::move(json));
  }
  for (const Unpredicted& one : result.unpredicted) {
    Json json = json_of(one.experiment);
    json["reason"] = one.reason;
    unpredicted.push_back(std::move(json));
  }
  const Json json{
      {"version", 1},
      {"complete", subject.complete},
      {"model", subject.model},
      {"data", subject.data},
      {"device", subject.device},
      {"repeats", subject.repeats},
      {"points", std::move(points)},
      {"cost_model", model_json(result)},
      {"no_cost_model", result.no_model.empty() ? Json(nullptr) : Json(result.no_model)},
      {"predictions", std::move(forecasts)},
      {"unpredicted", std::move(unpredicted)},
      {"runs", std::move(runs)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep
