// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/advised_progress.h"

#include <utility>

#include "launcher/advice/advice_words.h"
#include "launcher/advice/gpu_words.h"

namespace lockstep {

std::vector<std::string> AdvisedProgress::closing_lines(const TrainSummary& summary) const {
  std::vector<std::string> lines;
  if (const std::string graphs = graph_use_words(summary.graph_use); !graphs.empty())
    lines.push_back("graphs                 " + graphs);
  for (std::string& line : gpu_lines(summary.gpus)) lines.push_back(std::move(line));
  if (summary.device_steps > 0)
    lines.push_back(gpu_phases_line(summary.device_times, summary.device_steps));
  for (std::string& line : advice_lines(summary.advice)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace lockstep
