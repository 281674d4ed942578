// SPDX-License-Identifier: Apache-2.0
#include "lockstep/predictor.h"

#include "core/base/check.h"
#include "core/base/text/csv_field.h"
#include "core/data/images/image_reader.h"
#include "core/data/table/table_inputs.h"
#include "core/exec/answers.h"
#include "core/exec/batch_predictor.h"
#include "lockstep/data/preprocessing_file.h"

namespace lockstep {

class Predictor::State {
 public:
  State(Backend& backend,
        const ModelFunction& model,
        const std::string& folder,
        Precision precision)
      : record_(io::read_preprocessing(folder + "/" + io::kPreprocessingFile)),
        predictor_(backend, model, record_.samples, 1, precision, folder + "/model.safetensors") {
    if (record_.image) reader_ = std::make_unique<data::ImageReader>(*record_.image);
  }

  const data::Preprocessing& record() const { return record_; }

  std::vector<float> predict(const void* sample) {
    const std::vector<float>& outputs = predictor_.run(sample);
    const Shape& shape = predictor_.shape();  // [1, outputs], of tokens [1, context, vocabulary]
    const auto last = std::size_t(shape[shape.rank() - 1]);
    const std::vector<double> answers = answers_of(record_, std::span(outputs).last(last));
    return {answers.begin(), answers.end()};
  }

  std::vector<float> predict_image(const std::string& file) {
    LOCKSTEP_CHECK(reader_ != nullptr,
                   ConfigError,
                   "{}: the model was trained on {}, not on images",
                   file,
                   record_.source);
    std::vector<std::byte> sample(reader_->bytes());
    reader_->read(file, sample.data());
    return predict(sample.data());
  }

  std::vector<float> predict_row(const std::map<std::string, std::string>& row) {
    LOCKSTEP_CHECK(record_.table.has_value(),
                   ConfigError,
                   "the model was trained on {}, not on a table",
                   record_.source);
    std::string header, values;
    for (const auto& [column, value] : row) {
      const std::string separator = header.empty() ? "" : std::string(1, record_.table->separator);
      header += separator + quoted_csv_field(column);
      values += separator + quoted_csv_field(value);
    }
    const data::TableInputs inputs =
        data::read_table_inputs("row", header + "\n" + values + "\n", record_);
    if (!inputs.bad.empty()) throw DataError("row: " + inputs.bad.front().reason);
    LOCKSTEP_CHECK(!inputs.values.empty(), DataError, "row: there are no values in it");
    return predict(inputs.values.data());
  }

 private:
  data::Preprocessing record_;
  BatchPredictor predictor_;
  std::unique_ptr<data::ImageReader> reader_;
};

Predictor::Predictor(Backend& backend,
                     const ModelFunction& model,
                     const std::string& folder,
                     Precision precision)
    : state_(std::make_unique<State>(backend, model, folder, precision)) {}

Predictor::~Predictor() = default;

std::vector<float> Predictor::predict_image(const std::string& file) {
  return state_->predict_image(file);
}

std::vector<float> Predictor::predict_row(const std::map<std::string, std::string>& row) {
  return state_->predict_row(row);
}

std::vector<float> Predictor::predict(std::span<const std::byte> sample) {
  const std::size_t bytes = state_->record().samples.input.bytes();
  LOCKSTEP_CHECK(sample.size() == bytes,
                 ConfigError,
                 "a sample of {} has {} bytes, got {}",
                 state_->record().samples.input.to_string(),
                 bytes,
                 sample.size());
  return state_->predict(sample.data());
}

const data::Preprocessing& Predictor::record() const { return state_->record(); }

std::string Predictor::name(std::size_t index) const {
  return output_name(state_->record(), index);
}

}  // namespace lockstep
