// SPDX-License-Identifier: Apache-2.0
#include "launcher/commands/class_results.h"

#include <algorithm>
#include <cstdint>
#include <iostream>

#include "core/exec/agreement.h"
#include "launcher/output/run_json.h"
#include "launcher/predict/evaluation_report.h"
#include "launcher/predict/saved_run.h"
#include "lockstep/error.h"
#include "parallel/session/error_report.h"

namespace lockstep {

void require_class_results(const data::DataSplit& data) {
  if (!data.validation)
    throw ConfigError("--per-class: the data have no validation part to look at",
                      "keep one with --val-fraction, or leave --per-class out");
}

bool all_done(Job& job, int code) { return all_ranks(job.host_communicator(), code == 0); }

int write_class_results(Job& job,
                        const TrainFlags& flags,
                        const data::DataSplit& data,
                        const std::string& path,
                        const TrainSummary& summary,
                        RunFolder* folder) {
  SavedRun run;
  run.flags = flags;
  run.weights = path + "/model.safetensors";
  run.trained = data.train->preprocessing();
  EvaluationReport report{
      .task = run.trained.task,
      .samples = data.validation->size(),
      .record = {},
      .metrics = compute_metrics(run.trained, predict_labelled(job, run, data.validation)),
      .per_class = true,
      .bits_per_byte = {}};
  if (folder == nullptr) return 0;
  if (!report.metrics->classes.empty()) std::cout << class_table(report) << std::flush;
  folder->write_file("summary.json", to_json(summary, metrics_json(report.task, *report.metrics)));
  const std::vector<std::string> errors = folder->finish();
  for (const std::string& error : errors) print_warning("could not write " + error, 0);
  return int(errors.empty() ? ExitCode::done : ExitCode::error);
}

}  // namespace lockstep
