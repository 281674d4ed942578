// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// A fresh folder that goes with the test.
class DataFixture : public testing::Test {
 protected:
  DataFixture() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "lockstep_data_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~DataFixture() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

  std::string folder_;
};

/// What `action` throws as `ErrorType`, its message and hint; "" where it throws nothing.
template <class ErrorType, class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const ErrorType& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "";
}

/// The bytes of input and target of one sample.
inline std::vector<std::byte> sample_bytes(const Dataset& dataset,
                                           std::uint64_t epoch,
                                           std::int64_t index) {
  const std::size_t input = dataset.spec().input.bytes();
  std::vector<std::byte> bytes(input + dataset.spec().target.bytes());
  dataset.load(epoch, index, bytes.data(), bytes.data() + input);
  return bytes;
}

inline std::int32_t label_of(const Dataset& dataset, std::uint64_t epoch, std::int64_t index) {
  const std::vector<std::byte> bytes = sample_bytes(dataset, epoch, index);
  std::int32_t label = 0;
  std::memcpy(&label, bytes.data() + dataset.spec().input.bytes(), sizeof label);
  return label;
}

inline std::vector<float> features_of(const Dataset& dataset, std::int64_t index) {
  const std::vector<std::byte> bytes = sample_bytes(dataset, 0, index);
  std::vector<float> features(std::size_t(dataset.spec().input.elems()));
  std::memcpy(features.data(), bytes.data(), features.size() * sizeof(float));
  return features;
}

}  // namespace lockstep::data
