// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/plan_report.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/text/number_format.h"
#include "core/base/text/printable.h"
#include "launcher/advice/balance_format.h"
#include "launcher/plan/plan_request.h"
#include "launcher/settings/lr_scaling_format.h"
#include "parallel/batch/batch_plan.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

/// Without the device, what its libraries want comes on top.
std::string at_least(const PlanReport& report) {
  return report.subject.complete ? "" : "at least ";
}

std::string format_flops(double flops) {
  constexpr const char* kUnits[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"};
  std::size_t unit = 0;
  for (; flops >= 1000 && unit + 1 < std::size(kUnits); ++unit) flops /= 1000;
  return fmt::format("{:.3g} {}", flops, kUnits[unit]);
}

std::string head(const PlanReport& report) {
  const TrainFlags& flags = report.flags;
  const MemoryPlan& plan = report.plan;
  std::string text = fmt::format(
      "model      {}, {} parameters{}\n",
      flags.model.name,
      format_count(double(plan.parameters)),
      plan.frozen == 0 ? ""
                       : fmt::format(", {} of them frozen", format_count(double(plan.frozen))));
  text +=
      fmt::format("data       {}{}\n",
                  report.data,
                  flags.placeholder ? " (no --data: placeholder of the model's own shape)" : "");
  text += fmt::format("batch      {}\n", plan.batch.to_string());
  text += fmt::format("optimizer  {}\n", to_string(flags.options.optimizer));
  if (const std::string scaled = format_lr_scaling(flags.options); !scaled.empty())
    text += fmt::format("           {}\n", scaled);
  for (const ParameterGroupUse& group : plan.groups)
    text += fmt::format("group      {}\n", printable(to_string(group)));
  text += fmt::format("engine     --precision {} --recompute {}{}{}\n",
                      name_of(flags.options.precision),
                      name_of(flags.options.recompute),
                      flags.options.sharding == Sharding::none
                          ? ""
                          : fmt::format(" --shard {}", name_of(flags.options.sharding)),
                      report.fits_nothing ? ", which fits nothing: what comes closest" : "");
  text += fmt::format("device     {}\n", report.device);
  if (!report.note.empty()) text += fmt::format("           {}\n", report.note);
  return text;
}

std::string table_text(const PlanReport& report) {
  const MemoryPlan& plan = report.plan;
  const double least = std::max(1.0, double(plan.arena_lower_bound));
  return "\nmemory of rank 0\n" +
         format_memory_table(
             plan.table,
             report.subject,
             fmt::format("  arena {}, {:.2f}% above the least that this order allows",
                         format_bytes(double(plan.table.arena_bytes)),
                         100 * (double(plan.table.arena_bytes) / least - 1)));
}

std::string snapshots_text(const PlanReport& report) {
  if (!report.flags.snapshots) return {};
  return fmt::format(
      "  snapshots: under lockstep run, two of {} in the memory of each host (/dev/shm)\n",
      format_bytes(double(report.plan.state_bytes)));
}

std::string layers_text(const MemoryPlan& plan) {
  std::string text = fmt::format("\n  {:<32} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}\n",
                                 "layer",
                                 "parameters",
                                 "gradients",
                                 "optimizer",
                                 "packed",
                                 "activations",
                                 "workspace",
                                 "FLOPs");
  for (const LayerMemory& row : plan.layers) {
    const auto cell = [](std::uint64_t bytes) {
      return bytes == 0 ? std::string("-") : format_bytes(double(bytes));
    };
    text += fmt::format("  {:<32} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}\n",
                        row.layer,
                        cell(row.parameters),
                        cell(row.gradients),
                        cell(row.optimizer_state),
                        cell(row.packed_copies),
                        cell(row.activations + row.input),
                        cell(row.workspace),
                        row.flops == 0 ? "-" : format_flops(row.flops));
  }
  return text +
         "  activations and workspace as they lie in the arena when most is live; FLOPs of "
         "one micro-batch\n";
}

/// The last size is what everything else is said of.
std::string image_sizes_text(const MemoryPlan& plan) {
  std::vector<std::string> sizes;
  for (const ImageSizeUse& use : plan.other_image_sizes)
    sizes.insert(sizes.begin(),
                 fmt::format("{} ({} a micro-batch, arena {})",
                             use.side,
                             format_flops(use.flops),
                             format_bytes(double(use.arena_bytes))));
  return fmt::format("sizes      images grow over the epochs: {}, and what is said of the last\n",
                     fmt::join(sizes, ", "));
}

std::string step_text(const MemoryPlan& plan) {
  std::string text = fmt::format("\nstep       {} over all ranks; {} sent by rank 0\n",
                                 format_flops(plan.flops_per_step),
                                 plan.exchange_bytes_per_step == 0
                                     ? std::string("nothing")
                                     : format_bytes(double(plan.exchange_bytes_per_step)));
  if (plan.gradient_window_bytes > 0)
    text += fmt::format("gradients  of one shard are in {} for the buckets under way\n",
                        format_bytes(double(plan.gradient_window_bytes)));
  if (!plan.why_whole_gradients.empty())
    text += fmt::format("gradients  of one shard are whole on each rank: {}\n",
                        plan.why_whole_gradients);
  if (!plan.other_image_sizes.empty()) text += image_sizes_text(plan);
  if (!plan.hidden_matrices.empty())
    text += fmt::format(
        "matrices   {} between hidden layers, of {} elements, are orthogonalized: {} on rank 0; "
        "AdamW updates the other {}\n",
        plan.hidden_matrices.size(),
        format_count(double(plan.hidden_elems)),
        format_flops(plan.orthogonalizing_flops),
        format_count(double(plan.parameters - plan.frozen - plan.hidden_elems)));
  return text;
}

/// How ranks share the work, and what their hosts send each other.
std::string ranks_text(const PlanReport& report) {
  const BatchPlan& batch = report.plan.batch;
  if (batch.ranks == 1) return {};
  std::string text = fmt::format("ranks      {}\n", format_balance(batch));
  if (const std::string remedy = format_balance_remedy(batch); !remedy.empty())
    text += fmt::format("           {}\n", remedy);
  text +=
      fmt::format("           {}\n", format_balanced_ranks(training_options(report.flags), batch));
  if (!report.traffic) return text;
  const HostTraffic& traffic = *report.traffic;
  const int last = batch.ranks % report.ranks_per_host;
  text +=
      fmt::format("hosts      {} with {} ranks each{}",
                  traffic.hosts,
                  std::min(batch.ranks, report.ranks_per_host),
                  traffic.hosts > 1 && last != 0 ? fmt::format(", the last with {}", last) : "");
  if (traffic.hosts > 1)
    text += fmt::format("; {} between them a step, {} through the busiest one's adapter, on {}",
                        format_bytes(traffic.all),
                        format_bytes(traffic.busiest),
                        traffic.levels == 2 ? "two levels" : "one level");
  return text + "\n";
}

std::string rows_text(const PlanReport& report) {
  const std::uint64_t limit = report.flags.options.memory_limit;
  std::string text =
      fmt::format("\n  {:>11}  {:>24}  {:>24}\n  {:>11}  {:>11} {:>12}  {:>11} {:>12}\n",
                  "",
                  "--recompute none",
                  "--recompute all",
                  "micro-batch",
                  "arena",
                  "device",
                  "arena",
                  "device");
  const auto cell = [&](std::size_t bytes) {
    return format_bytes(double(bytes)) + (limit > 0 && bytes > limit ? "*" : "");
  };
  for (const MicroBatchRow& row : report.rows)
    text += fmt::format("  {:>11}  {:>11} {:>12}  {:>11} {:>12}\n",
                        row.micro_batch,
                        format_bytes(double(row.none.arena_bytes)),
                        cell(row.none.limited_bytes),
                        format_bytes(double(row.all.arena_bytes)),
                        cell(row.all.limited_bytes));
  text += fmt::format("  device: {}all that is reserved there, which --memory-limit limits{}\n",
                      at_least(report),
                      limit > 0 ? "; * does not fit" : "");
  return text;
}

std::string format_largest(const PlanReport& report,
                           const LargestMicroBatch& largest,
                           const std::optional<MinMemory>& least) {
  if (largest.micro_batch == 0)
    return fmt::format("none (a micro-batch of {}, which takes the least, takes {}{})",
                       least->micro_batch,
                       at_least(report),
                       format_bytes(double(least->needed)));
  return fmt::format("{}{} ({}{}{})",
                     report.subject.complete ? "" : "at most ",
                     largest.micro_batch,
                     at_least(report),
                     format_bytes(double(largest.bytes)),
                     largest.limited ? "" : "; the batch has no larger one");
}

std::string limit_text(const PlanReport& report) {
  const TrainOptions& options = report.flags.options;
  const double limit = double(options.memory_limit), needed = double(report.plan.limited_bytes);
  std::string text =
      fmt::format("\nlimit      {}: micro-batch {} takes {}{}, {}\n",
                  format_bytes(limit),
                  report.plan.batch.micro_batch,
                  at_least(report),
                  format_bytes(needed),
                  needed > limit ? fmt::format("{} too much", format_bytes(needed - limit))
                  : report.subject.complete ? std::string("and fits")
                                            : std::string("and may fit"));
  text += fmt::format("largest    micro-batch with --recompute {}: {}\n",
                      name_of(options.recompute),
                      format_largest(report, *report.largest, report.least));
  if (options.recompute != Recompute::automatic)
    text +=
        fmt::format("           micro-batch with --recompute auto: {}\n",
                    format_largest(report, *report.largest_recomputing, report.min_recomputing));
  if (report.advice && report.advice->fix)
    text += fmt::format("so         {}\n",
                        format_memory_fix(*report.advice->fix, options.global_batch, true));
  return text;
}

Json json_of(const std::optional<std::uint64_t>& bytes) {
  return bytes ? Json(*bytes) : Json(nullptr);
}

Json json_of(const MicroBatchMemory& memory) {
  return {{"arena_bytes", memory.arena_bytes}, {"limited_bytes", memory.limited_bytes}};
}

Json json_of(const LayerMemory& row) {
  return {{"layer", row.layer},
          {"parameters", row.parameters},
          {"gradients", row.gradients},
          {"optimizer_state", row.optimizer_state},
          {"packed_copies", row.packed_copies},
          {"activations", row.activations},
          {"workspace", row.workspace},
          {"input", row.input},
          {"flops", row.flops}};
}

}  // namespace

std::string to_text(const PlanReport& report, bool layers) {
  std::string text = head(report) + table_text(report) + snapshots_text(report);
  if (layers) text += layers_text(report.plan);
  text += step_text(report.plan) + ranks_text(report) + rows_text(report);
  if (report.largest) text += limit_text(report);
  if (report.forecast) text += to_text(*report.forecast);
  return text;
}

std::string to_json(const PlanReport& report, bool layers) {
  const TrainOptions& options = report.flags.options;
  const MemoryPlan& plan = report.plan;
  Json categories = Json::object();
  for (std::size_t i = 0; i < kMemoryCategories; ++i)
    categories[std::string(name_of(MemoryCategory(i)))] = json_of(plan.table.bytes[i]);
  Json rows = Json::array();
  for (const MicroBatchRow& row : report.rows)
    rows.push_back(
        {{"micro_batch", row.micro_batch}, {"none", json_of(row.none)}, {"all", json_of(row.all)}});
  Json json{{"model", report.flags.model.name},
            {"parameters", plan.parameters},
            {"data", report.data},
            {"device", report.device},
            {"note", report.note},
            {"precision", name_of(options.precision)},
            {"recompute", name_of(options.recompute)},
            {"shard", name_of(options.sharding)},
            {"global_batch", plan.batch.global_batch},
            {"micro_batch", plan.batch.micro_batch},
            {"ranks", plan.batch.ranks},
            {"shards", plan.batch.shards},
            {"arena_bytes", plan.table.arena_bytes},
            {"arena_lower_bound_bytes", plan.arena_lower_bound},
            {"categories", std::move(categories)},
            {"planned_bytes", plan.table.planned()},
            {"total_bytes", plan.table.total()},
            {"limited_bytes", plan.limited_bytes},
            {"fixed_bytes", plan.fixed_bytes},
            {"state_bytes", plan.state_bytes},
            {"complete", report.subject.complete}};
  json["memory_limit"] = options.memory_limit > 0 ? Json(options.memory_limit) : Json(nullptr);
  json["largest_micro_batch"] = report.largest ? Json(report.largest->micro_batch) : Json(nullptr);
  json["largest_micro_batch_recompute"] =
      report.largest_recomputing ? Json(report.largest_recomputing->micro_batch) : Json(nullptr);
  json["flops_per_step"] = plan.flops_per_step;
  if (!plan.other_image_sizes.empty()) {
    Json sizes = Json::array();
    for (const ImageSizeUse& use : plan.other_image_sizes)
      sizes.push_back({{"side", use.side}, {"arena_bytes", use.arena_bytes}, {"flops", use.flops}});
    json["other_image_sizes"] = std::move(sizes);
  }
  json["hidden_matrices"] = plan.hidden_matrices;
  json["gradient_window_bytes"] = plan.gradient_window_bytes;
  if (!plan.why_whole_gradients.empty()) json["why_whole_gradients"] = plan.why_whole_gradients;
  json["exchange_bytes_per_step"] = plan.exchange_bytes_per_step;
  json["balance"] = rank_balance(plan.batch);
  if (report.traffic)
    json["hosts"] = {{"count", report.traffic->hosts},
                     {"ranks_per_host", std::min(plan.batch.ranks, report.ranks_per_host)},
                     {"levels", report.traffic->levels},
                     {"bytes_per_step", std::llround(report.traffic->all)},
                     {"busiest_bytes_per_step", std::llround(report.traffic->busiest)}};
  json["micro_batches"] = std::move(rows);
  if (report.forecast) json["forecast"] = to_json(*report.forecast);
  if (layers) {
    Json list = Json::array();
    for (const LayerMemory& row : plan.layers) list.push_back(json_of(row));
    json["layers"] = std::move(list);
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep
