// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/builder.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/precision.h"

namespace lockstep {

class Backend;

/// A trained model that is asked for one sample at a time:
///
///   lockstep::Predictor predictor(job.backend(), model, "runs/mnist");
///   const std::vector<float> probabilities = predictor.predict_image("seven.png");
///
/// Samples are made as the model's record of its training data says. Used by one thread at a time;
/// `backend`, the device of a Job, must outlive it.
///
/// Results: probabilities of the classes (they sum to 1) or of the labels (each in [0, 1]); numbers
/// in the units of the table; of tokens, the probabilities of the next one after the last.
class Predictor {
 public:
  /// `folder` holds model.safetensors and preprocessing.json: a run's, a checkpoint's, or
  /// Trainer::save()'s. `model` is the one that was trained; nn::make_model() of a zoo's.
  /// Throws DataError: a file is missing or damaged, or does not fit the model; OutOfMemory.
  Predictor(Backend& backend,
            const ModelFunction& model,
            const std::string& folder,
            Precision precision = Precision::fp32);
  ~Predictor();

  /// A JPEG or PNG file of any size. Throws DataError: it cannot be read or decoded; ConfigError:
  /// the model is not of images.
  std::vector<float> predict_image(const std::string& file);
  /// Values by the names of their columns; those that the model does not look at may be omitted,
  /// and a value it does look at may be empty where training knew missing ones. Throws DataError: a
  /// column is missing, or a value is none; ConfigError: the model is not of a table.
  std::vector<float> predict_row(const std::map<std::string, std::string>& row);
  /// A sample as a Dataset's load() writes it. Throws ConfigError: another number of bytes.
  std::vector<float> predict(std::span<const std::byte> sample);

  const data::Preprocessing& record() const;
  /// The class, label or target that result `index` is for.
  std::string name(std::size_t index) const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
