// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <iostream>

#include "core/base/parameter_names.h"
#include "core/io/load_weights.h"
#include "core/nn/trace.h"
#include "launcher/commands/commands.h"
#include "launcher/plan/plan_request.h"
#include "launcher/predict/data_of_run.h"
#include "launcher/predict/evaluation_report.h"
#include "launcher/predict/saved_run.h"
#include "launcher/predict/token_bytes.h"
#include "launcher/settings/open_data.h"
#include "lockstep/error.h"
#include "lockstep/job.h"
#include "lockstep/schedule.h"
#include "lockstep/trainer.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/batch/schedule.h"

namespace lockstep {
namespace {

struct EvaluateFlags {
  bool per_class = false, json = false;
};

/// Cuts the batch so that each of `ranks` has a part, where that of training has too few.
void make_batch_for(TrainOptions& options, int ranks) {
  if (try_plan_batch(options, ranks)) return;
  // The batch is none of an evaluation's: any will do.
  if (options.micro_batch == 0) options.micro_batch = default_micro_batch(options.global_batch);
  options.global_batch = options.micro_batch * ranks;
  options.shards = ranks > kDefaultShards ? ranks : 0;
}

TrainOptions evaluation_options(Job& job, const SavedRun& run) {
  TrainOptions options = training_options(run.flags);
  // What only training needs must not refuse an evaluation on another number of ranks: batch norm
  // uses the running statistics here.
  options.accumulation = 0;
  options.batch_norm = {};
  make_batch_for(options, job.size());
  options.recompute = Recompute::none;
  if (options.precision == Precision::tf32 && !job.backend().allow_tf32(true))
    options.precision = Precision::fp32;
  options.memory_limit = 0;
  options.algorithms = Algorithms::heuristic;
  options.algorithms_file.clear();
  options.ema = {};
  options.first_image_size = 0;
  options.distillation = {};
  options.repeated_augmentation = 1;
  options.groups.clear();
  options.layer_decay = 1;
  options.init = run.weights;
  options.init_skip.clear();
  return options;
}

/// Of weights that come without a run: whether they are those of a model with as many classes.
void require_fit(const SavedRun& run, const data::SampleSpec& spec) {
  const Graph graph = trace_prediction(model_of(run, spec), spec, {.micro_batch = 1});
  try {
    io::load_weights(run.weights, graph.parameters(), NamePatterns("`init_skip`", {}));
  } catch (const DataError& problem) {
    throw DataError(fmt::format("--init {} and --model {} with {} outputs, for --data {}: {}",
                                as_written(run.weights),
                                run.flags.model.name,
                                spec.classes > 0 ? spec.classes : spec.target.elems(),
                                as_written(run.flags.data),
                                as_written(problem.what())),
                    "the model's last layer has an output for each class: evaluate on data of the "
                    "classes that the weights were trained on");
  }
}

/// Those that opening the data skipped come before those that loading them did.
void count_skipped(const data::SkippedRecords& skipped, EvaluationRecord& record) {
  if (skipped.count == 0) return;
  record.skipped_samples += skipped.count;
  record.first_skipped = skipped.first[0];
}

/// Whether predictions are made in addition to loss and accuracy: where tables need them, always;
/// of classes, where asked for, since every sample is loaded and computed once more.
bool wants_metrics(data::Task task, const EvaluateFlags& flags) {
  if (task == data::Task::next_token) return false;
  return task != data::Task::classification || flags.per_class || flags.json;
}

void evaluate(Job& job, const SavedRun& run, const EvaluateFlags& flags) {
  job.open_device(run.device);
  const auto data = open_labelled(run);
  const data::SampleSpec& spec = data->spec();
  if (!run.is_trained_here) require_fit(run, spec);
  EvaluationReport report{.task = run.trained.task,
                          .samples = 0,
                          .record = {},
                          .metrics = {},
                          .per_class = flags.per_class,
                          .bits_per_byte = {}};
  {
    Trainer trainer(
        job, model_of(run, spec), make_loss(run.flags, spec), evaluation_options(job, run));
    report.record = trainer.evaluate({data, data});
    report.samples = report.record.samples;
  }
  count_skipped(data->skipped_records(), report.record);
  // Otherwise the loss is not the text's alone.
  if (run.flags.label_smoothing == 0 && run.flags.class_weights.empty())
    report.bits_per_byte = bits_per_byte(report.record.val_loss, *data, job.host_communicator());
  if (wants_metrics(report.task, flags))
    report.metrics = compute_metrics(run.trained, predict_labelled(job, run, data));
  if (job.rank() > 0) return;
  warn_of_skipped(*data);
  warn_of_slow_operators(job.backend());
  std::cout << (flags.json ? evaluation_json(report) : evaluation_text(report)) << std::flush;
}

}  // namespace

int evaluate_command(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Evaluates a saved run on the validation part of its data, or of --data; or weights of a "
      "file: --init FILE --model NAME --data SOURCE.",
      "lockstep evaluate");
  EvaluateFlags flags;
  app.add_flag("--per-class",
               flags.per_class,
               "samples, recall, precision and F1 of each class, and the classes that are confused "
               "most; makes a second pass over the data");
  app.add_flag("--json", flags.json, "one JSON object with all numbers, --per-class's too");
  const SavedRunRequest request = parse_saved_run(app, arguments, WeightsFile::allowed);
  if (request.help) return 0;
  return run_job(
      0,
      nullptr,
      [&](Job& job) { evaluate(job, open_saved_run(job, request), flags); },
      watch_limits(request));
}

}  // namespace lockstep
