// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/file_reader.h"
#include "core/base/parameter_names.h"
#include "core/base/text/printable.h"
#include "core/data/content_sample.h"
#include "core/data/images/image_header.h"
#include "core/data/images/image_samples.h"
#include "core/data/images/image_workspace.h"
#include "core/data/input_file.h"
#include "core/data/preprocessing.h"
#include "core/data/row_split.h"
#include "core/data/shards/shard_index.h"
#include "core/data/shards/shard_list.h"
#include "core/data/shards/tar_reader.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {
namespace {

/// Images of shards, read where they lie.
class ShardImages final : public Dataset {
 public:
  /// `rows` chooses samples.
  ShardImages(std::string source,
              std::shared_ptr<const ShardIndex> index,
              std::vector<std::int64_t> rows,
              const ShardClasses& classes,
              ImagePart part,
              const ImageOptions& options)
      : source_(std::move(source)),
        index_(std::move(index)),
        rows_(std::move(rows)),
        class_of_(classes.classes_of(*index_)),
        names_(classes.names),
        sampling_(options, part),
        max_pixels_(options.max_pixels),
        spec_(sampling_.spec(classes.count)) {
    const auto hash = [this](const void* data, std::size_t bytes) {
      content_ = content_hash(data, bytes, content_);
    };
    for (const ShardSample& sample : index_->samples) {
      hash(&sample.offset, sizeof sample.offset);
      hash(&sample.bytes, sizeof sample.bytes);
      hash(&class_of_[std::size_t(sample.label)], sizeof(std::int32_t));
    }
    hash(index_->shard_bytes.data(), index_->shard_bytes.size() * sizeof(std::uint64_t));
    hash(rows_.data(), rows_.size() * sizeof(std::int64_t));
  }
  /// `other` with samples of side `size`.
  ShardImages(const ShardImages& other, int size)
      : source_(other.source_),
        index_(other.index_),
        rows_(other.rows_),
        class_of_(other.class_of_),
        names_(other.names_),
        sampling_(other.sampling_.resized(size)),
        max_pixels_(other.max_pixels_),
        spec_(sampling_.spec(other.spec_.classes)),
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
    const WorkspacePool::Lease work(workspaces_);
    const std::int64_t row = rows_[std::size_t(index)];
    const std::string name = read(row, work->file);
    const auto file = std::span<const std::byte>(work->file).subspan(kTarBlockBytes);
    const ImageSize stored = work->decoder.open(name, file, max_pixels_);
    const ImageSize wanted = sampling_.size();
    const bool trains = sampling_.part == ImagePart::train;
    const DecodedCrop decoded =
        work->decoder.decode(sampling_.crop(epoch, index, copy, stored),
                             wanted,
                             trains ? DecodeScale::quick : DecodeScale::exact);
    work->resampler.run(decoded.view, decoded.box, wanted, reinterpret_cast<std::uint8_t*>(input));
    const std::int32_t label = class_of(row);
    std::memcpy(target, &label, sizeof label);
  }
  std::int32_t label(std::int64_t index) const override {
    return class_of(rows_[std::size_t(index)]);
  }
  std::string describe() const override {
    return fmt::format("webdataset:{}, {} samples of {} shard{} in {} classes, as {}x{}",
                       source_,
                       size(),
                       index_->shards.size(),
                       index_->shards.size() == 1 ? "" : "s",
                       spec_.classes,
                       sampling_.rule.width,
                       sampling_.rule.height);
  }
  std::vector<std::string> class_names() const override { return names_; }
  Preprocessing preprocessing() const override {
    return image_preprocessing(*this, "webdataset", sampling_.rule.short_side);
  }
  std::uint64_t fingerprint() const override { return sampling_.fold(content_); }
  std::shared_ptr<const Dataset> resized(int size) const override {
    return std::make_shared<ShardImages>(*this, size);
  }
  std::uint64_t decoding_bytes(int threads) const override {
    const auto place = [&](std::int64_t index) {
      const ShardSample& sample = at(rows_[std::size_t(index)]);
      return ImagePlace{index_->shards[sample.shard], sample.offset, sample.bytes};
    };
    std::call_once(looked_, [&] { largest_ = largest_decodings(size(), place, max_pixels_); });
    return sum_of_largest(largest_, threads);
  }
  ContentSample content_sample(std::uint64_t seed) const override {
    const auto path = [&](std::int64_t shard) { return index_->shards[std::size_t(shard)]; };
    return sample_files(std::int64_t(index_->shards.size()), path, seed);
  }

 private:
  const ShardSample& at(std::int64_t row) const { return index_->samples[std::size_t(row)]; }
  std::int32_t class_of(std::int64_t row) const { return class_of_[std::size_t(at(row).label)]; }

  /// Reads the image with the header in front of it, which has its name, for messages.
  std::string read(std::int64_t row, std::vector<std::byte>& buffer) const {
    const ShardSample& sample = at(row);
    const std::string place = index_->place(row);
    const FileReader shard(index_->shards[sample.shard]);
    LOCKSTEP_CHECK(shard.bytes() == index_->shard_bytes[sample.shard],
                   DataError,
                   "{}: the shard had {} bytes when it was indexed, and has {} now",
                   as_written(place),
                   index_->shard_bytes[sample.shard],
                   shard.bytes());
    buffer.resize(kTarBlockBytes + sample.bytes);
    shard.read(place, sample.offset - kTarBlockBytes, buffer);
    const auto header = std::span<const std::byte>(buffer).first(kTarBlockBytes);
    return fmt::format("{} ({})", place, printable(tar_header_name(header)));
  }

  std::string source_;
  std::shared_ptr<const ShardIndex> index_;
  std::vector<std::int64_t> rows_;
  std::vector<std::int32_t> class_of_;  // of each of the index's labels
  std::vector<std::string> names_;
  ImageSampling sampling_;
  std::int64_t max_pixels_;
  SampleSpec spec_;
  std::uint64_t content_ = 0;
  mutable WorkspacePool workspaces_;
  mutable std::once_flag looked_;
  mutable std::vector<std::uint64_t> largest_;  // of decodings, once asked for
};

std::vector<std::int64_t> every_row(const ShardIndex& index) {
  std::vector<std::int64_t> rows(std::size_t(index.size()));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

std::shared_ptr<const ShardIndex> indexed(const std::vector<std::string>& shards) {
  return std::make_shared<const ShardIndex>(index_shards(shards));
}

std::shared_ptr<const Dataset> evaluated_shards(const std::string& source,
                                                const ShardList& shards,
                                                const ImageOptions& options) {
  const bool own_part = !shards.validation.empty();
  if (!own_part && options.validation_fraction == 0) return nullptr;
  const auto index = indexed(own_part ? shards.validation : shards.train);
  const ShardClasses classes{options.trained->class_names, options.trained->samples.classes};
  const bool all = own_part || options.validation_fraction == 1;
  return std::make_shared<ShardImages>(
      source,
      index,
      all ? every_row(*index)
          : split_rows(index->size(), options.validation_fraction, options.seed, source).validation,
      classes,
      ImagePart::validation,
      options);
}

}  // namespace

DataSplit webdataset(const std::string& source, const ImageOptions& options) {
  check(options);
  const ShardList shards = find_shards(source);
  if (options.trained) return {nullptr, evaluated_shards(source, shards, options)};
  LOCKSTEP_CHECK(shards.validation.empty() || options.validation_fraction == 0,
                 ConfigError,
                 "data: {} has validation shards, so a validation fraction ({}) cannot be chosen",
                 as_written(source),
                 options.validation_fraction);
  const auto index = indexed(shards.train);
  const ShardClasses classes = find_shard_classes(*index);
  auto [train, kept] = split_rows(index->size(), options.validation_fraction, options.seed, source);
  DataSplit split;
  split.train = std::make_shared<ShardImages>(
      source, index, std::move(train), classes, ImagePart::train, options);
  if (!shards.validation.empty()) {
    const auto other = indexed(shards.validation);
    split.validation = std::make_shared<ShardImages>(
        source, other, every_row(*other), classes, ImagePart::validation, options);
  } else if (!kept.empty()) {
    split.validation = std::make_shared<ShardImages>(
        source, index, std::move(kept), classes, ImagePart::validation, options);
  }
  return split;
}

}  // namespace lockstep::data
