// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "core/base/error.h"
#include "launcher/commands.h"
#include "launcher/open_data.h"
#include "launcher/plan_request.h"
#include "launcher/run_job.h"
#include "launcher/saved_run.h"
#include "parallel/trainer.h"

namespace lockstep {
namespace {

void print(const EvaluationRecord& record, std::int64_t samples) {
  std::string line = fmt::format("loss {:.6f}", record.val_loss);
  if (record.val_accuracy >= 0)
    line += fmt::format("  accuracy {:.2f}%", record.val_accuracy * 100);
  std::cout << line
            << fmt::format(
                   "  ({} samples, {:.0f} samples/s)", samples, double(samples) / record.seconds)
            << std::endl;
  if (record.skipped_samples > 0)
    std::cout << fmt::format("left out   {} samples that cannot be read; the first: {}",
                             record.skipped_samples,
                             record.first_skipped)
              << std::endl;
}

}  // namespace

int evaluate_command(const std::vector<std::string>& arguments) {
  CLI::App app("Evaluates a saved run on the validation part of its data, or of --data.",
               "lockstep evaluate");
  const SavedRun run = open_saved_run(app, arguments);
  if (run.weights.empty()) return 0;
  const auto evaluate = [&](Job& job) {
    job.open_device(run.device);
    const data::DataSplit data = open_data(run.flags);
    LOCKSTEP_CHECK(data.validation != nullptr,
                   ConfigError,
                   "--data {} has no validation part; --val-fraction makes one",
                   run.flags.data);
    check_classes(run, *data.train);
    const data::SampleSpec& spec = data.train->spec();
    TrainOptions options = training_options(run.flags);
    // What only training needs must not refuse an evaluation on another number of ranks: batch norm
    // uses the running statistics here.
    options.accumulation = 0;
    options.batch_norm = {};
    options.recompute = Recompute::none;
    if (options.precision == Precision::tf32 && !job.backend().allow_tf32(true))
      options.precision = Precision::fp32;
    options.memory_limit = 0;
    options.init = run.weights;
    options.init_skip.clear();
    Trainer trainer(job, model_of(run, spec), make_loss(run.flags, spec), options);
    const EvaluationRecord record = trainer.evaluate(data);
    if (job.rank() > 0) return;
    warn_of_slow_operators(job.backend());
    print(record, data.validation->size());
  };
  return run_job(0, nullptr, evaluate, run.flags.watch);
}

}  // namespace lockstep
