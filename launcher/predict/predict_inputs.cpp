// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/predict_inputs.h"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <optional>

#include "core/base/check.h"
#include "core/base/text/printable.h"
#include "core/data/arrays/array_inputs.h"
#include "core/data/images/image_reader.h"
#include "core/data/table/table_inputs.h"
#include "core/exec/batch_predictor.h"
#include "launcher/output/standard_output.h"
#include "lockstep/job.h"
#include "parallel/session/error_report.h"

namespace lockstep {
namespace {

/// Collects samples, runs the model on a batch of them, and writes what it says.
class SampleBatch {
 public:
  /// `samples`: how many will come, at most.
  SampleBatch(const PredictionJob& job, std::int64_t samples)
      : job_(job),
        batch_(std::clamp<std::int64_t>(samples, 1, kPredictedAtOnce)),
        predictor_(job.backend,
                   model_of(job.run, job.run.trained.samples),
                   job.run.trained.samples,
                   batch_,
                   job.run.flags.options.precision,
                   job.run.weights,
                   job.run.mirrors()),
        stride_(job.run.trained.samples.input.bytes()),
        input_(std::size_t(batch_) * stride_) {
    warn_of_slow_operators(job.backend);
  }

  /// Where the next sample belongs, which counts once add() is called.
  std::byte* slot() { return input_.data() + sources_.size() * stride_; }
  void add(PredictionSource source) {
    sources_.push_back(std::move(source));
    if (std::int64_t(sources_.size()) == batch_) run();
  }
  /// What is left over; the rest of the batch holds samples of before.
  void run() {
    if (sources_.empty()) return;
    const std::vector<float>& result = predictor_.run(input_.data());
    const std::size_t outputs = result.size() / std::size_t(batch_);
    for (std::size_t i = 0; i < sources_.size(); ++i)
      job_.writer.write(sources_[i], std::span(result).subspan(i * outputs, outputs));
    job_.inputs.add_good(std::int64_t(sources_.size()));
    sources_.clear();
    flush_output();
  }

 private:
  const PredictionJob& job_;
  std::int64_t batch_;
  BatchPredictor predictor_;
  std::size_t stride_;
  std::vector<std::byte> input_;
  std::vector<PredictionSource> sources_;
};

void require_found(const NamedFile& file) {
  if (!file.problem.empty())
    throw DataError(fmt::format("{}: {}", file.path, file.problem), "check the name");
}

bool is_array(const NamedFile& file) { return file.path.ends_with(".npy"); }

/// Each row of an array is a sample; bad ones are named, and the others predicted.
void predict_array(const PredictionJob& job, const NamedFile& file, SampleBatch& batch) {
  const data::ArrayInputs samples(data::NpyArray::open(file.path), job.run.trained);
  for (std::int64_t row = 0; row < samples.size(); ++row) {
    try {
      samples.load(row, batch.slot());
    } catch (const DataError& problem) {
      job.inputs.add_bad(problem.what());
      continue;
    }
    batch.add({samples.place(row), 0, {}});
  }
  batch.run();
}

/// `batch` is made for the first table that has rows.
void predict_table(const PredictionJob& job,
                   const NamedFile& file,
                   std::optional<SampleBatch>& batch) {
  require_found(file);
  if (is_array(file)) {
    if (!batch) batch.emplace(job, kPredictedAtOnce);
    return predict_array(job, file, *batch);
  }
  const std::string name = file.path == "-" ? "standard input" : file.path;
  const data::TableInputs table =
      data::read_table_inputs(name, read_named(file.path), job.run.trained);
  for (const data::TableInputs::BadRow& row : table.bad)
    job.inputs.add_bad(fmt::format("{}: line {}: {}", name, row.line, row.reason));
  if (table.lines.empty()) return;
  const std::size_t features = table.values.size() / table.lines.size();
  if (!batch) batch.emplace(job, std::int64_t(table.lines.size()));
  for (std::size_t i = 0; i < table.lines.size(); ++i) {
    std::memcpy(batch->slot(), table.values.data() + i * features, features * sizeof(float));
    batch->add({file.path, table.lines[i], table.ids.empty() ? std::string() : table.ids[i]});
  }
  batch->run();
}

}  // namespace

void PredictedInputs::attempt(const std::function<void()>& predict) {
  if (alone_) return predict();
  try {
    predict();
  } catch (const DataError& problem) {
    add_bad(problem.what());
  }
}

void PredictedInputs::add_bad(const std::string& problem) {
  constexpr std::size_t kMaxBytes = 1000;
  ++bad_;
  print_warning(printable(problem, kMaxBytes), 0);
}

void PredictedInputs::finish() const {
  if (bad_ > 0)
    throw DataError(fmt::format("{} of {} inputs could not be predicted", bad_, bad_ + good_),
                    "the warnings above name them");
}

void predict_images(const PredictionJob& job) {
  data::ImageReader reader(*job.run.trained.image, job.run.flags.max_pixels);
  const bool has_array = std::ranges::any_of(job.files, is_array);
  SampleBatch batch(job, has_array ? kPredictedAtOnce : std::int64_t(job.files.size()));
  for (const NamedFile& file : job.files)
    job.inputs.attempt([&] {
      require_found(file);
      if (is_array(file)) return predict_array(job, file, batch);
      reader.read(file.path, batch.slot());
      batch.add({file.path, 0, {}});
    });
  batch.run();
}

void predict_arrays(const PredictionJob& job) {
  SampleBatch batch(job, kPredictedAtOnce);
  for (const NamedFile& file : job.files)
    job.inputs.attempt([&] {
      require_found(file);
      predict_array(job, file, batch);
    });
}

void predict_rows(const PredictionJob& job) {
  std::optional<SampleBatch> batch;
  for (const NamedFile& file : job.files)
    job.inputs.attempt([&] { predict_table(job, file, batch); });
}

void predict_files(const SavedRun& run,
                   const std::vector<std::string>& files,
                   const PredictionStyle& style) {
  const data::Preprocessing& trained = run.trained;
  const bool tokens = trained.task == data::Task::next_token;
  const bool arrays = trained.source == "numpy" && !trained.table && !trained.image;
  if (!trained.table && !trained.image && !tokens && !arrays)
    throw ConfigError(
        fmt::format("the run was trained on {}, and a file cannot be converted into its samples",
                    run.flags.data),
        run.flags.data.starts_with("synthetic")
            ? "synthetic samples are noise, for measuring speed"
            : "lockstep predict --data SOURCE takes samples of such a source");
  LOCKSTEP_CHECK(!tokens || !style.logits,
                 ConfigError,
                 "--logits cannot be combined with a gpt, which has {} of them",
                 trained.samples.classes);
  if (trained.image && std::ranges::find(files, "-") != files.end())
    throw ConfigError("an image cannot come from standard input",
                      "name files, as in lockstep predict --from DIR FILE");
  const std::vector<NamedFile> found = find_files(files);
  Job job(0, nullptr);
  job.open_device(run.device);
  LOCKSTEP_CHECK(
      job.size() == 1, ConfigError, "lockstep predict runs on one rank, not {}", job.size());
  PredictionWriter writer(trained, style, std::cout);
  PredictedInputs inputs(found.size() == 1);
  const PredictionJob work{run, job.backend(), found, writer, inputs};
  if (trained.table) {
    predict_rows(work);
  } else if (trained.image) {
    predict_images(work);
  } else if (arrays) {
    predict_arrays(work);
  } else {
    predict_texts(work);
  }
  inputs.finish();
}

}  // namespace lockstep
