// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

#include "launcher/report/sections.h"
#include "lockstep/time_breakdown.h"

namespace lockstep::report {
namespace {

using Parts = std::array<double, kParts>;

constexpr std::size_t kBreakdownSteps = 100;
constexpr std::size_t kMaxBreakdownCharts = 4;  // beyond, the bars alone
constexpr std::size_t kMaxRanks = 32, kSlowestShown = 24;

double total(const Parts& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

bool is_known(const RunRecord& run, Part part) {
  return !run[quantity_of(part)].empty() || part == Part::other;
}

/// Mean milliseconds a step. Of what an older run did not measure, the rest is `other`.
Parts mean_parts(const RunRecord& run) {
  Parts parts{};
  for (std::size_t i = 0; i < kParts; ++i) {
    const Series& series = run[quantity_of(Part(i))];
    if (!series.empty()) parts[i] = std::max(0.0, series.mean());
  }
  if (run[Quantity::other_ms].empty() && !run[Quantity::step_ms].empty())
    parts[std::size_t(Part::other)] = std::max(0.0, run[Quantity::step_ms].mean() - total(parts));
  return parts;
}

AreaChart breakdown_over_time(const RunView& run, const std::string& title) {
  const Series& whole = (*run)[Quantity::step_ms];
  AreaChart chart{.id = fmt::format("ledger-{}", run.style),
                  .title = title,
                  .description = {},
                  .y_label = "milliseconds a step, rank 0",
                  .steps = {},
                  .layers = {}};
  if (whole.empty()) return chart;
  for (std::size_t i = 0; i < kParts; ++i)
    if (is_known(*run, Part(i))) chart.layers.push_back({std::string(words_of(Part(i))), {}, i});
  const double first = whole.first_step() - 1, last = whole.last_step();
  const double width = std::max(1.0, std::ceil((last - first) / double(kBreakdownSteps)));
  for (double after = first; after < last; after += width) {
    const double until = std::min(last, after + width);
    const auto mean = whole.mean_between(after, until);
    if (!mean) continue;
    chart.steps.push_back(until);
    double sum = 0;
    for (AreaChart::Layer& layer : chart.layers) {
      const auto part = Part(layer.style);
      const auto known = (*run)[quantity_of(part)].mean_between(after, until);
      const double rest = part == Part::other && !known ? *mean - sum : 0;
      layer.values.push_back(std::max(0.0, known.value_or(rest)));
      sum += layer.values.back();
    }
  }
  std::erase_if(chart.layers, [](const AreaChart::Layer& layer) {
    return std::all_of(layer.values.begin(), layer.values.end(), [](double v) { return v <= 0; });
  });
  if (chart.steps.size() == 1) {  // one point has no area
    chart.steps.insert(chart.steps.begin(), first);
    for (AreaChart::Layer& layer : chart.layers) layer.values.push_back(layer.values[0]);
  }
  const Parts means = mean_parts(*run);
  chart.description = "Parts of a step's time over the steps, on one another.";
  for (std::size_t i = 0; i < kParts; ++i)
    if (means[i] > 0)
      chart.description += fmt::format(
          " {}: {} of the time.", words_of(Part(i)), format_percent(means[i] / total(means)));
  return chart;
}

Json totals_table(const Runs& runs) {
  Table table{"Where a step's time goes: mean milliseconds a step, and its share", {"part"}, {}};
  std::vector<Parts> means;
  for (const RunView& run : runs) {
    means.push_back(mean_parts(*run));
    table.header.push_back(runs.size() > 1 ? run.label : "ms");
    table.header.emplace_back("share");
  }
  std::vector<std::string> sums{"whole step"};
  for (const Parts& parts : means) {
    sums.push_back(format_number(total(parts)));
    sums.push_back(total(parts) > 0 ? "100%" : "");
  }
  for (std::size_t i = 0; i < kParts; ++i) {
    std::vector<std::string> row{std::string(words_of(Part(i)))};
    bool any = false;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const bool known = is_known(*runs[r], Part(i)) && total(means[r]) > 0;
      any = any || known;
      row.push_back(known ? format_number(means[r][i]) : "");
      row.push_back(known ? format_percent(means[r][i] / total(means[r])) : "");
    }
    if (any) table.rows.push_back(std::move(row));
  }
  table.rows.push_back(std::move(sums));
  return block_of(table);
}

BarChart breakdown_bars(const std::string& id,
                        const std::string& title,
                        const std::string& x_label) {
  BarChart chart{
      .id = id, .title = title, .description = title, .x_label = x_label, .parts = {}, .bars = {}};
  for (std::size_t i = 0; i < kParts; ++i)
    chart.parts.push_back({std::string(words_of(Part(i))), i});
  return chart;
}

/// A legend shows what is there.
void leave_out_empty(BarChart& chart) {
  for (std::size_t i = chart.parts.size(); i-- > 0;) {
    const auto is_zero = [i](const BarChart::Bar& bar) { return bar.values[i] <= 0; };
    if (!std::all_of(chart.bars.begin(), chart.bars.end(), is_zero)) continue;
    chart.parts.erase(chart.parts.begin() + std::ptrdiff_t(i));
    for (BarChart::Bar& bar : chart.bars) bar.values.erase(bar.values.begin() + std::ptrdiff_t(i));
  }
}

Json bars_by_run(const Runs& runs) {
  BarChart chart =
      breakdown_bars("ledger-runs", "A step's time by run", "milliseconds a step, rank 0");
  chart.row_name = "run";
  for (const RunView& run : runs) {
    const Parts parts = mean_parts(*run);
    if (total(parts) <= 0) continue;
    chart.bars.push_back({run.label,
                          {parts.begin(), parts.end()},
                          fmt::format("{} ms", format_number(total(parts)))});
  }
  leave_out_empty(chart);
  return chart_json(chart);
}

/// What a rank does itself: others wait for it in exposed communication.
double own_work(const RankTimeBreakdown& rank) {
  return total(rank.parts) - rank.parts[std::size_t(Part::comm_exposed)];
}

std::string format_slowest(const RunRecord& run) {
  if (!run.summary) return {};
  const auto rank = run.summary->number("slowest_rank");
  const auto score = run.summary->number("slowest_rank_score");
  const std::string phase = run.summary->text("slowest_rank_phase");
  std::string host;
  for (const RankTimeBreakdown& row : run.summary->breakdown)
    if (rank && double(row.rank) == *rank) host = row.host;
  if (!rank || *rank < 0 || !score) return {};
  const std::string name = fmt::format("rank {:.0f}{}", *rank, host.empty() ? "" : " on " + host);
  constexpr double kEven = 1.05;
  if (*score < kEven)
    return fmt::format(
        "The ranks are even: the slowest, {}, takes {:.2f} times as long for its own "
        "work as the median rank.",
        name,
        *score);
  return fmt::format(
      "The slowest is {}: it takes {:.2f} times as long for its own work as the median rank{}.",
      name,
      *score,
      phase.empty() ? "" : ", and loses most of it in " + phase);
}

Json balance_of(const RunView& run, bool alone) {
  Json blocks = Json::array();
  if (!alone) append(blocks, heading(run.label));
  const std::string slowest = format_slowest(*run);
  if (!slowest.empty()) append(blocks, paragraph(slowest));
  std::vector<RankTimeBreakdown> ranks =
      run->summary ? run->summary->breakdown : std::vector<RankTimeBreakdown>();
  BarChart chart = breakdown_bars(fmt::format("balance-{}", run.style), "Time by rank", "seconds");
  chart.row_name = "rank";
  if (ranks.size() > kMaxRanks) {
    std::stable_sort(
        ranks.begin(), ranks.end(), [](const RankTimeBreakdown& a, const RankTimeBreakdown& b) {
          return own_work(a) > own_work(b);
        });
    append(
        blocks,
        paragraph(fmt::format("Of {} ranks, the {} that work longest and the {} that work least.",
                              ranks.size(),
                              kSlowestShown,
                              kMaxRanks - kSlowestShown)));
    ranks.erase(ranks.begin() + kSlowestShown, ranks.end() - (kMaxRanks - kSlowestShown));
  }
  for (const RankTimeBreakdown& rank : ranks)
    chart.bars.push_back(
        {fmt::format("rank {}{}", rank.rank, rank.host.empty() ? "" : " on " + rank.host),
         {rank.parts.begin(), rank.parts.end()},
         fmt::format("{:.3g} s of its own, {:.3g} s waiting for others",
                     own_work(rank),
                     total(rank.parts) - own_work(rank))});
  leave_out_empty(chart);
  Json charts = Json::array();
  append(charts, chart_json(chart));
  append(blocks, charts_block(std::move(charts)));
  return blocks;
}

}  // namespace

Json time_breakdown_section(const Runs& runs) {
  Json blocks = Json::array(), charts = Json::array();
  const auto has_steps = [](const RunView& run) { return !(*run)[Quantity::step_ms].empty(); };
  if (std::none_of(runs.begin(), runs.end(), has_steps)) return blocks;
  if (runs.size() > 1) append(charts, bars_by_run(runs));
  if (runs.size() <= kMaxBreakdownCharts)
    for (const RunView& run : runs)
      append(charts,
             chart_json(breakdown_over_time(
                 run, runs.size() > 1 ? "Over time: " + run.label : "Over time")));
  append(blocks, charts_block(std::move(charts)));
  append(blocks, totals_table(runs));
  for (const RunView& run : runs)
    if (has_steps(run) && (*run)[Quantity::other_ms].empty())
      append(blocks,
             paragraph(fmt::format("{}: an older version wrote no more than five parts; the rest "
                                   "of the step is called other.",
                                   run.label),
                       "quiet"));
  return blocks;
}

Json balance_section(const Runs& runs) {
  Json blocks = Json::array();
  for (const RunView& run : runs) {
    const bool several = run->summary && run->summary->breakdown.size() > 1;
    if (several || !format_slowest(*run).empty()) append(blocks, balance_of(run, runs.size() == 1));
  }
  return blocks;
}

}  // namespace lockstep::report
