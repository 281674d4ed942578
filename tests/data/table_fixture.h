// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/io/preprocessing_file.h"
#include "lockstep/data/preprocessing_file.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"

namespace lockstep::data {

/// The record as another process reads it from the run's folder.
inline Preprocessing kept(const Dataset& dataset) {
  return io::parse_preprocessing(io::to_json(dataset.preprocessing()), "kept");
}

/// Tables to train and evaluate on, written to files.
class TableFixture : public DataFixture {
 protected:
  std::shared_ptr<const Dataset> train(const std::string& text,
                                       const TableOptions& options = {}) const {
    return csv(write("table.csv", text), options).train;
  }
  template <class ErrorType>
  std::string refusal(const std::string& text, const TableOptions& options = {}) const {
    return error_of<ErrorType>([&] { train(text, options); });
  }
  std::shared_ptr<const Dataset> evaluate(const std::string& text,
                                          const Preprocessing& trained,
                                          const TableOptions& options = {}) const {
    const DataSplit split = csv(write("other.csv", text), options, 1.0, 1, &trained);
    EXPECT_EQ(split.train, nullptr);
    return split.validation;
  }
  std::string evaluation_refusal(const std::string& text, const Preprocessing& trained) const {
    return error_of<DataError>([&] { evaluate(text, trained); });
  }
};

}  // namespace lockstep::data
