// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>

#include "core/base/text/number_format.h"
#include "launcher/report/sections.h"

namespace lockstep::report {
namespace {

using Categories = std::vector<std::pair<std::string, double>>;

/// Older runs have sums alone.
Categories categories_of(const Summary& summary) {
  if (!summary.memory.empty()) return summary.memory;
  const double planned = summary.number("memory_planned_bytes").value_or(0);
  const double arena = summary.number("activation_bytes").value_or(0);
  if (planned <= 0 || arena > planned) return {};
  return {{"activations and workspace", arena}, {"all else that was planned", planned - arena}};
}

Json category_bars(const RunView& run, const std::string& title) {
  Categories categories = categories_of(*run->summary);
  std::erase_if(categories, [](const auto& category) { return category.second <= 0; });
  std::stable_sort(categories.begin(), categories.end(), [](const auto& a, const auto& b) {
    return a.second > b.second;
  });
  double sum = 0;
  for (const auto& [name, bytes] : categories) sum += bytes;
  BarChart chart{
      .id = fmt::format("memory-{}", run.style),
      .title = title,
      .description = fmt::format("{} by category; together {}", title, format_bytes(sum)),
      .x_label = "bytes of rank 0",
      .parts = {{"bytes", 0}},
      .bars = {},
      .unit = Unit::bytes,
      .row_name = "category"};
  for (auto& [name, bytes] : categories) {
    std::replace(name.begin(), name.end(), '_', ' ');
    chart.bars.push_back(
        {name, {bytes}, fmt::format("{}, {}", format_bytes(bytes), format_percent(bytes / sum))});
  }
  return chart_json(chart);
}

/// The arena over the operators of one micro-batch; the description is for all readers.
AreaChart over_one_step(const RunView& run, const std::string& title) {
  const ArenaCurve& memory = *run->step_memory;
  AreaChart chart{.id = fmt::format("step-memory-{}", run.style),
                  .title = title,
                  .y_label = "live bytes of the arena",
                  .steps = {},
                  .layers = {{"live", memory.live_bytes, 0}},
                  .unit = Unit::bytes,
                  .x_label = "operator, in the order in which they run"};
  const auto fullest = std::max_element(memory.live_bytes.begin(), memory.live_bytes.end());
  const auto at = std::size_t(fullest - memory.live_bytes.begin());
  for (std::size_t i = 0; i < memory.live_bytes.size(); ++i)
    chart.steps.push_back(double(i) * double(memory.joined));
  chart.description = fmt::format(
      "What is live of the arena while one micro-batch{} is computed: at most {}{}",
      memory.micro_batch > 0 ? fmt::format(" of {}", memory.micro_batch) : std::string(),
      format_bytes(*fullest),
      memory.nodes.empty() ? std::string() : ", at " + memory.nodes[at]);
  if (memory.first_backward > 0)
    chart.description += fmt::format("; from operator {} on, backward", memory.first_backward);
  return chart;
}

std::string format_measured(const Summary& summary) {
  const auto peak = summary.number("peak_memory_bytes");
  const auto planned = summary.number("memory_planned_bytes");
  if (!peak || *peak <= 0 || !planned) return {};
  const double baseline = summary.number("memory_baseline_bytes").value_or(0);
  std::string text = fmt::format("planned {}", format_bytes(*planned));
  if (baseline > 0)
    text += fmt::format(" in addition to {} of the program itself", format_bytes(baseline));
  return text + fmt::format("; rank 0's process had {} at most", format_bytes(*peak));
}

}  // namespace

Json memory_section(const Runs& runs) {
  Json charts = Json::array(), blocks = Json::array(), descriptions = Json::array();
  for (const RunView& run : runs) {
    const std::string of = runs.size() > 1 ? ": " + run.label : "";
    if (run->summary) {
      append(charts, category_bars(run, "Memory by category" + of));
      const std::string measured = format_measured(*run->summary);
      if (!measured.empty())
        append(blocks, paragraph(runs.size() > 1 ? run.label + ": " + measured : measured));
    }
    if (run->step_memory) {
      const AreaChart chart = over_one_step(run, "Memory over one step" + of);
      append(charts, chart_json(chart));
      append(descriptions, paragraph(fmt::format("{}: {}.", chart.title, chart.description)));
    }
  }
  append(blocks, charts_block(std::move(charts)));
  append(blocks, std::move(descriptions));
  return blocks;
}

}  // namespace lockstep::report
