// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/predict_samples.h"

#include <algorithm>
#include <cstring>
#include <fmt/ranges.h>
#include <iostream>

#include "core/base/check.h"
#include "core/base/text/printable.h"
#include "core/exec/answers.h"
#include "core/exec/batch_predictor.h"
#include "launcher/output/standard_output.h"
#include "launcher/predict/data_of_run.h"
#include "launcher/predict/predict_inputs.h"
#include "lockstep/job.h"
#include "lockstep/zoo.h"
#include "parallel/session/error_report.h"

namespace lockstep {
namespace {

std::string numbers_line(std::span<const float> outputs,
                         const std::byte* target,
                         const data::Preprocessing& trained) {
  const std::span expected(reinterpret_cast<const float*>(target), outputs.size());
  const bool labels = trained.task == data::Task::multi_label;
  return fmt::format("expected {:.6g}  predicted {:.6g}",
                     fmt::join(labels ? std::vector<double>(expected.begin(), expected.end())
                                      : answers_of(trained, expected),
                               " "),
                     fmt::join(answers_of(trained, outputs), " "));
}

std::string class_line(std::span<const float> outputs,
                       const std::byte* target,
                       std::size_t top,
                       const data::Preprocessing& trained) {
  std::int32_t label = 0;
  std::memcpy(&label, target, sizeof label);
  const std::vector<double> answers = softmax(outputs);
  const std::vector<std::size_t> ranking = largest(answers, top);
  const bool right = label >= 0 && ranking.front() == std::size_t(label);
  return fmt::format("{}  {}  {}",
                     label < 0 ? "ignored" : printable(output_name(trained, std::size_t(label))),
                     label < 0 ? "-"
                     : right   ? "right"
                               : "wrong",
                     answers_text(trained, answers, ranking));
}

/// Samples of labelled data with what the model predicts of them.
class LabelledBatch {
 public:
  LabelledBatch(const SavedRun& run, Backend& backend, const data::Dataset& data, std::int64_t size)
      : run_(run),
        data_(data),
        predictor_(backend,
                   model_of(run, data.spec()),
                   data.spec(),
                   size,
                   run.flags.options.precision,
                   run.weights,
                   run.mirrors()),
        input_(std::size_t(size) * data.spec().input.bytes()),
        target_(std::size_t(size) * data.spec().target.bytes()),
        readable_(static_cast<std::size_t>(size)) {}

  std::int64_t size() const { return std::int64_t(readable_.size()); }

  /// Prints the samples [first, end), at most size(). Rows that are not filled hold what was there
  /// before, which no prediction depends on.
  void print(std::int64_t first, std::int64_t end, std::size_t top) {
    for (std::int64_t i = first; i < end; ++i)
      readable_[std::size_t(i - first)] = load(i, i - first);
    const std::vector<float>& result = predictor_.run(input_.data());
    const std::size_t outputs = result.size() / readable_.size();
    for (auto i = std::size_t(0); i < std::size_t(end - first); ++i) {
      if (!readable_[i]) continue;
      const std::span own = std::span(result).subspan(i * outputs, outputs);
      const std::byte* const target = target_.data() + i * data_.spec().target.bytes();
      std::cout << first + std::int64_t(i) << "  "
                << (run_.trained.samples.classes == 0 ? numbers_line(own, target, run_.trained)
                                                      : class_line(own, target, top, run_.trained))
                << "\n";
    }
    flush_output();
  }

 private:
  bool load(std::int64_t index, std::int64_t slot) {
    try {
      data_.load(0,
                 index,
                 input_.data() + std::size_t(slot) * data_.spec().input.bytes(),
                 target_.data() + std::size_t(slot) * data_.spec().target.bytes());
      return true;
    } catch (const DataError& problem) {
      if (!run_.flags.options.skip_bad_samples) throw;
      print_warning(fmt::format("sample {} is skipped: {}", index, printable(problem.what(), 1000)),
                    0);
      return false;
    }
  }

  const SavedRun& run_;
  const data::Dataset& data_;
  BatchPredictor predictor_;
  std::vector<std::byte> input_, target_;
  std::vector<char> readable_;  // of the batch
};

}  // namespace

void predict_samples(const SavedRun& run, std::int64_t count, std::size_t top) {
  if (nn::reads_tokens(run.flags.model.name))
    throw ConfigError("of a language model's data single samples cannot be predicted",
                      "name a text, as in lockstep predict --from DIR FILE, where - is standard "
                      "input; lockstep generate continues one");
  Job job(0, nullptr);
  job.open_device(run.device);
  LOCKSTEP_CHECK(
      job.size() == 1, ConfigError, "lockstep predict runs on one rank, not {}", job.size());
  const auto data = open_labelled(run);
  const std::int64_t all = count == 0 ? data->size() : std::min(count, data->size());
  LabelledBatch batch(run, job.backend(), *data, std::min(kPredictedAtOnce, all));
  warn_of_skipped(*data);
  warn_of_slow_operators(job.backend());
  for (std::int64_t first = 0; first < all; first += batch.size())
    batch.print(first, std::min(first + batch.size(), all), top);
}

}  // namespace lockstep
