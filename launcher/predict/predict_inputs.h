// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launcher/predict/named_files.h"
#include "launcher/predict/prediction_writer.h"
#include "launcher/predict/saved_run.h"

namespace lockstep {

/// Samples that predict() runs at once. Predictions of one do not depend on the others.
inline constexpr std::int64_t kPredictedAtOnce = 32;

/// Keeps account of inputs that nothing could be predicted for, so that one does not stop the
/// others.
class PredictedInputs {
 public:
  /// `alone`: there is but one input, and what is wrong with it is the whole error.
  explicit PredictedInputs(bool alone) : alone_(alone) {}

  /// Runs `predict` for one input; a DataError of it is named on standard error and counted.
  void attempt(const std::function<void()>& predict);
  void add_bad(const std::string& problem);
  void add_good(std::int64_t count) { good_ += count; }
  /// Throws DataError where there were bad inputs, with their number.
  void finish() const;

 private:
  bool alone_;
  std::int64_t good_ = 0, bad_ = 0;
};

/// What the parts below work with.
struct PredictionJob {
  const SavedRun& run;
  Backend& backend;
  const std::vector<NamedFile>& files;
  PredictionWriter& writer;
  PredictedInputs& inputs;
};

/// Images of any size, read one at a time.
void predict_images(const PredictionJob& job);
/// Rows of .npy files, of a run whose samples are images of floats; other runs on images and tables
/// take such files too.
void predict_arrays(const PredictionJob& job);
/// Rows of tables, with or without label columns.
void predict_rows(const PredictionJob& job);
/// Texts and files of tokens: loss, and the likeliest next tokens.
void predict_texts(const PredictionJob& job);

/// Writes a line to standard output for each of `files`, or of their rows, as the run's record says
/// what they are. Bad ones are named on standard error, and the others predicted. Throws DataError:
/// some were bad; ConfigError: files of any kind are nothing for this run.
void predict_files(const SavedRun& run,
                   const std::vector<std::string>& files,
                   const PredictionStyle& style);

}  // namespace lockstep
