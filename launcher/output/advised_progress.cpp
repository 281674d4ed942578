// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/advised_progress.h"

#include <utility>

#include "launcher/advice/advice_format.h"
#include "launcher/advice/gpu_usage_format.h"

namespace lockstep {

std::vector<std::string> AdvisedProgress::closing_lines(const TrainSummary& summary) const {
  std::vector<std::string> lines;
  if (const std::string graphs = format_graph_use(summary.graph_use); !graphs.empty())
    lines.push_back("graphs                 " + graphs);
  for (std::string& line : format_gpu_usage(summary.gpus)) lines.push_back(std::move(line));
  if (summary.device_steps > 0)
    lines.push_back(format_gpu_phases(summary.device_times, summary.device_steps));
  for (std::string& line : format_advice(summary.advice)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace lockstep
