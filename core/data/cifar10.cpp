// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <filesystem>
#include <span>
#include <vector>

#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/base/file_reader.h"
#include "core/base/parameter_names.h"
#include "core/data/input_file.h"
#include "core/data/normalisation.h"
#include "core/data/preprocessing.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kCifarSize = 32;
constexpr std::int64_t kPlane = kCifarSize * kCifarSize;
constexpr std::int64_t kRecord = 1 + 3 * kPlane;  // bytes: label, red, green, blue
constexpr int kCifarClasses = 10;
// Mean and deviation of the training pixels in [0, 1], as everyone rounds them.
constexpr float kCifar10Mean[] = {0.4914f, 0.4822f, 0.4465f};
constexpr float kCifar10Deviation[] = {0.2470f, 0.2435f, 0.2616f};

constexpr const char* kCifar10Hint =
    "expected the binary version of CIFAR-10: data_batch_1.bin to data_batch_5.bin and "
    "test_batch.bin in one folder";

class Cifar10 final : public Dataset {
 public:
  Cifar10(std::string folder, const std::vector<std::string>& names) : folder_(std::move(folder)) {
    std::vector<std::byte> buffer;
    for (const std::string& name : names) {
      const std::string path = (std::filesystem::path(folder_) / name).string();
      check_size(path, std::int64_t(input_file_size(path, kCifar10Hint)));
      files_.emplace_back(path);
      const std::span<const std::byte> bytes = read_bytes(path, buffer, kCifar10Hint);
      check_size(path, std::int64_t(bytes.size()));
      for (std::int64_t at = 0; at < std::int64_t(bytes.size()); at += kRecord)
        check_label(path, std::to_integer<int>(bytes[std::size_t(at)]), at / kRecord);
      ends_.push_back(size() + std::int64_t(bytes.size()) / kRecord);
      hash_ = content_hash(bytes.data(), bytes.size(), hash_);
    }
    spec_.input = {{kCifarSize, kCifarSize, 3}, DType::u8};
    spec_.target = {{}, DType::i32};
    spec_.classes = kCifarClasses;
    normalise(spec_, kCifar10Mean, kCifar10Deviation);
  }

  const SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  void load(std::uint64_t /*epoch*/,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    std::size_t file = 0;
    while (index >= ends_[file]) ++file;
    if (file > 0) index -= ends_[file - 1];
    std::array<std::byte, kRecord> record;
    const std::string path = files_[file].path().string();
    files_[file].read(path, std::uint64_t(index * kRecord), record);
    const std::int32_t label = std::to_integer<std::int32_t>(record[0]);
    check_label(path, label, index);
    std::memcpy(target, &label, sizeof label);
    const std::byte* red = record.data() + 1;
    for (std::int64_t i = 0; i < kPlane; ++i) {
      input[3 * i] = red[i];
      input[3 * i + 1] = red[i + kPlane];
      input[3 * i + 2] = red[i + 2 * kPlane];
    }
  }
  std::string describe() const override {
    return fmt::format("cifar10:{}, {} images of 32x32x3 in 10 classes", folder_, size());
  }
  std::vector<std::string> class_names() const override {
    return {
        "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  }
  Preprocessing preprocessing() const override {
    return image_preprocessing(*this, "cifar10", int(kCifarSize));
  }
  std::uint64_t fingerprint() const override { return hash_; }

 private:
  static void check_size(const std::string& path, std::int64_t bytes) {
    if (bytes == 0 || bytes % kRecord != 0)
      throw DataError(fmt::format("{}: expected records of {} bytes, got {} bytes, which is {} "
                                  "records and {} bytes",
                                  as_written(path),
                                  kRecord,
                                  bytes,
                                  bytes / kRecord,
                                  bytes % kRecord),
                      kCifar10Hint);
  }

  static void check_label(const std::string& path, int label, std::int64_t record) {
    LOCKSTEP_CHECK(label < kCifarClasses,
                   DataError,
                   "{}: expected a label of 0 to 9 at byte {}, record {}, got {}",
                   as_written(path),
                   record * kRecord,
                   record,
                   label);
  }

  std::string folder_;
  std::vector<FileReader> files_;
  std::vector<std::int64_t> ends_;  // samples up to and with each file
  SampleSpec spec_;
  std::uint64_t hash_ = 0;
};

}  // namespace

DataSplit cifar10(const std::string& folder) {
  if (!is_there(folder))
    throw DataError(fmt::format("{}: no such folder", as_written(folder)), kCifar10Hint);
  if (!is_folder(folder))
    throw DataError(fmt::format("{}: expected a folder, got a file", as_written(folder)),
                    kCifar10Hint);
  std::vector<std::string> train;
  for (int i = 1; i <= 5; ++i) train.push_back(fmt::format("data_batch_{}.bin", i));
  return {std::make_shared<Cifar10>(folder, train),
          std::make_shared<Cifar10>(folder, std::vector<std::string>{"test_batch.bin"})};
}

}  // namespace lockstep::data
