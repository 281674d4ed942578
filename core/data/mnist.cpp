// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <filesystem>

#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"
#include "core/data/idx.h"
#include "core/data/input_file.h"
#include "core/data/normalisation.h"
#include "core/data/preprocessing.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMnistSize = 28;
constexpr int kMnistClasses = 10;

constexpr const char* kMnistHint =
    "expected the four MNIST files train-images-idx3-ubyte, train-labels-idx1-ubyte, "
    "t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, plain or .gz, in one folder";

class Mnist final : public Dataset {
 public:
  Mnist(const std::string& folder, IdxFile images, IdxFile labels)
      : folder_(folder), images_(std::move(images)), labels_(std::move(labels)) {
    spec_.input = {{kMnistSize, kMnistSize, 1}, DType::u8};
    spec_.target = {{}, DType::i32};
    spec_.classes = kMnistClasses;
    normalise(spec_, kMnistMean, kMnistDeviation);
    hash_ = content_hash(images_.data.data(), images_.data.size());
    hash_ = content_hash(labels_.data.data(), labels_.data.size(), hash_);
  }

  const SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return images_.dims[0]; }
  void load(std::uint64_t /*epoch*/,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    constexpr std::int64_t kBytes = kMnistSize * kMnistSize;
    std::memcpy(input, images_.data.data() + index * kBytes, std::size_t(kBytes));
    const auto label = std::int32_t(labels_.data[std::size_t(index)]);
    std::memcpy(target, &label, sizeof label);
  }
  std::string describe() const override {
    return fmt::format("mnist:{}, {} images of 28x28x1 in 10 classes", folder_, size());
  }
  Preprocessing preprocessing() const override {
    return image_preprocessing(*this, "mnist", int(kMnistSize));
  }
  std::uint64_t fingerprint() const override { return hash_; }

 private:
  std::string folder_;
  IdxFile images_;  // [N, 28, 28]
  IdxFile labels_;  // [N]
  SampleSpec spec_;
  std::uint64_t hash_ = 0;
};

/// `stem` or `stem`.gz, whichever is there; the plain one where both are.
std::string find(const std::string& folder, const std::string& stem) {
  const fs::path plain = fs::path(folder) / stem;
  for (const std::string& candidate : {plain.string(), plain.string() + ".gz"})
    if (is_there(candidate)) return candidate;
  throw DataError(
      fmt::format("{}: neither this file nor {}.gz is there", as_written(plain.string()), stem),
      kMnistHint);
}

std::shared_ptr<const Dataset> part(const std::string& folder, const std::string& name) {
  const std::string image_file = find(folder, name + "-images-idx3-ubyte");
  const std::string label_file = find(folder, name + "-labels-idx1-ubyte");
  IdxFile images = read_idx(image_file, 3, kMnistHint);
  LOCKSTEP_CHECK(images.dims[1] == kMnistSize && images.dims[2] == kMnistSize,
                 DataError,
                 "{}: expected images of 28x28, got {}x{}",
                 as_written(image_file),
                 images.dims[1],
                 images.dims[2]);
  IdxFile labels = read_idx(label_file, 1, kMnistHint);
  LOCKSTEP_CHECK(labels.dims[0] == images.dims[0],
                 DataError,
                 "{}: expected {} labels, one for each image of {}, got {}",
                 as_written(label_file),
                 images.dims[0],
                 as_written(image_file),
                 labels.dims[0]);
  for (std::size_t i = 0; i < labels.data.size(); ++i)
    LOCKSTEP_CHECK(int(labels.data[i]) < kMnistClasses,
                   DataError,
                   "{}: expected labels 0 to 9, got {} for image {}",
                   as_written(label_file),
                   int(labels.data[i]),
                   i);
  return std::make_shared<Mnist>(folder, std::move(images), std::move(labels));
}

}  // namespace

DataSplit mnist(const std::string& folder) {
  if (!is_there(folder))
    throw DataError(fmt::format("{}: no such folder", as_written(folder)), kMnistHint);
  if (!is_folder(folder))
    throw DataError(fmt::format("{}: expected a folder, got a file", as_written(folder)),
                    kMnistHint);
  return {part(folder, "train"), part(folder, "t10k")};
}

}  // namespace lockstep::data
