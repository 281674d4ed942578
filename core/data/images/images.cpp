// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <mutex>
#include <numeric>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/content_sample.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/image_header.h"
#include "core/data/images/image_samples.h"
#include "core/data/images/image_workspace.h"
#include "core/data/input_file.h"
#include "core/data/preprocessing.h"
#include "core/data/row_split.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {
namespace {

class Images final : public Dataset {
 public:
  /// `rows` chooses files; `label_of` renumbers classes.
  Images(std::shared_ptr<const ImageFolder> folder,
         std::vector<std::int64_t> rows,
         std::vector<std::int32_t> label_of,
         std::vector<std::string> classes,
         ImagePart part,
         const ImageOptions& options)
      : folder_(std::move(folder)),
        rows_(std::move(rows)),
        label_of_(std::move(label_of)),
        sampling_(options, part),
        max_pixels_(options.max_pixels),
        classes_(std::move(classes)),
        spec_(sampling_.spec(int(classes_.size()))) {
    content_ = data::fingerprint(*folder_);
    content_ = content_hash(rows_.data(), rows_.size() * sizeof(std::int64_t), content_);
  }
  /// `other` with samples of side `size`.
  Images(const Images& other, int size)
      : folder_(other.folder_),
        rows_(other.rows_),
        label_of_(other.label_of_),
        sampling_(other.sampling_.resized(size)),
        max_pixels_(other.max_pixels_),
        classes_(other.classes_),
        spec_(sampling_.spec(int(classes_.size()))),
        content_(other.content_) {}

  const SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return std::int64_t(rows_.size()); }
  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    load_copy(epoch, index, 0, input, target);
  }
  void load_copy(std::uint64_t epoch,
                 std::int64_t index,
                 int copy,
                 std::byte* input,
                 std::byte* target) const override {
    const std::int64_t row = rows_[std::size_t(index)];
    const std::string path = folder_->path(row);
    const WorkspacePool::Lease work(workspaces_);
    const auto file =
        read_bytes(path, work->file, "check the file's permissions, or `skip_bad_samples`");
    const ImageSize stored = work->decoder.open(path, file, max_pixels_);
    const ImageSize wanted = sampling_.size();
    const bool trains = sampling_.part == ImagePart::train;
    const DecodedCrop decoded =
        work->decoder.decode(sampling_.crop(epoch, index, copy, stored),
                             wanted,
                             trains ? DecodeScale::quick : DecodeScale::exact);
    work->resampler.run(decoded.view, decoded.box, wanted, reinterpret_cast<std::uint8_t*>(input));
    const std::int32_t label = label_of_[std::size_t(folder_->labels[std::size_t(row)])];
    std::memcpy(target, &label, sizeof label);
  }
  std::int32_t label(std::int64_t index) const override {
    const std::int64_t row = rows_[std::size_t(index)];
    return label_of_[std::size_t(folder_->labels[std::size_t(row)])];
  }
  std::string describe() const override {
    return fmt::format("images:{}, {} files in {} classes, as {}x{}",
                       folder_->root,
                       size(),
                       spec_.classes,
                       sampling_.rule.width,
                       sampling_.rule.height);
  }
  std::vector<std::string> class_names() const override { return classes_; }
  Preprocessing preprocessing() const override {
    return image_preprocessing(*this, "images", sampling_.rule.short_side);
  }
  std::uint64_t fingerprint() const override { return sampling_.fold(content_); }
  std::shared_ptr<const Dataset> resized(int size) const override {
    return std::make_shared<Images>(*this, size);
  }
  std::uint64_t decoding_bytes(int threads) const override {
    const auto place = [&](std::int64_t index) {
      return ImagePlace{folder_->path(rows_[std::size_t(index)])};
    };
    std::call_once(looked_, [&] { largest_ = largest_decodings(size(), place, max_pixels_); });
    return sum_of_largest(largest_, threads);
  }
  ContentSample content_sample(std::uint64_t seed) const override {
    const auto path = [&](std::int64_t index) { return folder_->path(rows_[std::size_t(index)]); };
    return sample_files(size(), path, seed);
  }

 private:
  std::shared_ptr<const ImageFolder> folder_;
  std::vector<std::int64_t> rows_;
  std::vector<std::int32_t> label_of_;
  ImageSampling sampling_;
  std::int64_t max_pixels_;
  std::vector<std::string> classes_;
  SampleSpec spec_;
  std::uint64_t content_ = 0;
  mutable WorkspacePool workspaces_;
  mutable std::once_flag looked_;
  mutable std::vector<std::uint64_t> largest_;  // of decodings, once asked for
};

std::vector<std::int64_t> counting(std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  return numbers;
}

/// Where the images of an evaluation lie below `folder`: in its validation part, or in itself.
std::shared_ptr<const ImageFolder> evaluated_folder(const std::string& folder) {
  if (has_validation_folder(folder)) return scan_validation_folder(folder);
  const ImageFolders folders = scan_image_folders(folder);
  return folders.train;
}

std::shared_ptr<const Dataset> evaluated_images(const std::string& folder,
                                                const ImageOptions& options) {
  const bool own_part = has_validation_folder(folder);
  const auto files = evaluated_folder(folder);
  const std::vector<std::string>& classes = options.trained->class_names;
  std::vector<std::int64_t> rows = counting(files->size());
  if (!own_part && options.validation_fraction == 0) return nullptr;
  if (!own_part && options.validation_fraction < 1)
    rows = split_rows(files->size(), options.validation_fraction, options.seed, folder).validation;
  return std::make_shared<Images>(files,
                                  std::move(rows),
                                  labels_among(*files, classes, "the run was not trained on"),
                                  classes,
                                  ImagePart::validation,
                                  options);
}

}  // namespace

DataSplit images(const std::string& folder, const ImageOptions& options) {
  check(options);
  if (options.trained) return {nullptr, evaluated_images(folder, options)};
  const ImageFolders folders = scan_image_folders(folder);
  const auto& classes = folders.train->classes;
  std::vector<std::int32_t> same(classes.size());
  std::iota(same.begin(), same.end(), 0);
  const auto part = [&](std::vector<std::int64_t> rows, ImagePart kind) {
    return std::make_shared<Images>(folders.train, std::move(rows), same, classes, kind, options);
  };
  if (folders.validation) {
    LOCKSTEP_CHECK(options.validation_fraction == 0,
                   ConfigError,
                   "data: {} has a validation folder, so a validation fraction ({}) cannot be "
                   "chosen",
                   as_written(folder),
                   options.validation_fraction);
    return {part(counting(folders.train->size()), ImagePart::train),
            std::make_shared<Images>(folders.validation,
                                     counting(folders.validation->size()),
                                     folders.validation_labels(),
                                     classes,
                                     ImagePart::validation,
                                     options)};
  }
  auto [train, validation] =
      split_rows(folders.train->size(), options.validation_fraction, options.seed, folder);
  DataSplit split;
  split.train = part(std::move(train), ImagePart::train);
  if (!validation.empty()) split.validation = part(std::move(validation), ImagePart::validation);
  return split;
}

}  // namespace lockstep::data
