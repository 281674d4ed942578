// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/base/file_reader.h"
#include "core/base/parameter_names.h"
#include "core/data/content_sample.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/image_samples.h"
#include "core/data/images/image_workspace.h"
#include "core/data/images/pack_format.h"
#include "core/data/input_file.h"
#include "core/data/preprocessing.h"
#include "core/data/row_split.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {
namespace {

constexpr const char* kPackedHint = "write the file anew with lockstep pack";

/// A packed file whose header, names and index have been checked against its true size.
class PackFile {
 public:
  explicit PackFile(const std::string& name) : name_(name), file_(existing(name)) {
    check_header();
    check_names();
    check_index();
  }

  const std::string& name() const { return name_; }
  const PackHeader& header() const { return header_; }
  std::vector<std::string> class_names() const {
    std::vector<std::string> names;
    for (std::size_t at = 0; names.size() < header_.classes; at += names.back().size() + 1)
      names.emplace_back(names_.c_str() + at);
    return names;
  }
  const PackEntry& entry(std::int64_t i) const { return index_[std::size_t(i)]; }
  /// Whether each sample's pixels have a sum of their own.
  bool has_sums() const { return header_.version > 1; }
  /// The pixels of sample i, in `buffer`. Throws DataError: they cannot be read, or are not what
  /// was packed.
  const std::uint8_t* pixels(std::int64_t i, std::vector<std::byte>& buffer) const {
    const PackEntry& entry = index_[std::size_t(i)];
    buffer.resize(entry.bytes);
    file_.read(fmt::format("{}: byte {}: sample {}", name_, entry.offset, i), entry.offset, buffer);
    expect(!has_sums() || sum(buffer.data(), buffer.size()) == entry.hash,
           entry.offset,
           fmt::format(
               "the {} bytes of sample {} are damaged: their sum does not fit", entry.bytes, i));
    return reinterpret_cast<const std::uint8_t*>(buffer.data());
  }

 private:
  /// `name`, once it is known to be a file that can be read.
  static const std::string& existing(const std::string& name) {
    const std::uint64_t bytes = input_file_size(name, "lockstep pack writes such files");
    if (bytes == 0)
      throw DataError(fmt::format("{}: byte 0: the file is empty", as_written(name)), kPackedHint);
    return name;
  }

  void expect(bool good, std::uint64_t at, const std::string& what) const {
    if (good) return;
    throw DataError(fmt::format("{}: byte {}: {}", as_written(name()), at, what), kPackedHint);
  }

  void check_header() {
    const std::uint64_t bytes = file_.bytes();
    expect(bytes >= sizeof header_,
           bytes,
           fmt::format("the file ends within the header of {} bytes", sizeof header_));
    file_.read(name_, 0, std::as_writable_bytes(std::span(&header_, 1)));
    expect(std::memcmp(header_.magic, kPackMagic, sizeof kPackMagic) == 0,
           0,
           "expected the signature LOCKPACK: this is not a packed file");
    expect(header_.version >= 1 && header_.version <= kPackVersion,
           offsetof(PackHeader, version),
           fmt::format("expected version {} or less, got {}", kPackVersion, header_.version));
    expect(header_.header_hash == sum(&header_, offsetof(PackHeader, header_hash)),
           offsetof(PackHeader, header_hash),
           "the header is damaged: its sum does not fit");
    expect(header_.file_bytes == bytes,
           offsetof(PackHeader, file_bytes),
           fmt::format("expected {} bytes as the header says, got {}", header_.file_bytes, bytes));
    expect(header_.names_bytes <= bytes - sizeof header_,
           offsetof(PackHeader, names_bytes),
           fmt::format("class names of {} bytes do not fit", header_.names_bytes));
    const std::uint64_t pixels = sizeof header_ + header_.names_bytes;
    expect(header_.index_offset >= pixels && header_.index_offset <= bytes,
           offsetof(PackHeader, index_offset),
           fmt::format("an index at byte {} does not fit", header_.index_offset));
    const std::uint64_t entries = (bytes - header_.index_offset) / entry_bytes();
    expect((bytes - header_.index_offset) % entry_bytes() == 0 && header_.train_samples >= 1 &&
               header_.train_samples <= entries &&
               header_.validation_samples == entries - header_.train_samples,
           offsetof(PackHeader, train_samples),
           fmt::format("{} and {} samples do not fit an index of {} bytes",
                       header_.train_samples,
                       header_.validation_samples,
                       bytes - header_.index_offset));
  }

  void check_names() {
    names_.resize(header_.names_bytes);
    file_.read(name_, sizeof header_, std::as_writable_bytes(std::span(names_)));
    const bool closed = !names_.empty() && names_.back() == '\0';
    const auto count = std::uint64_t(std::ranges::count(names_, '\0'));
    expect(closed && count == header_.classes,
           sizeof header_,
           fmt::format("expected {} class names, got {}", header_.classes, count));
  }

  void check_index() {
    std::vector<std::byte> bytes(file_.bytes() - header_.index_offset);
    file_.read(name_, header_.index_offset, bytes);
    const std::uint64_t hash = sum(bytes.data(), bytes.size(), sum(names_.data(), names_.size()));
    expect(hash == header_.index_hash, header_.index_offset, "the index is damaged");
    index_.resize(bytes.size() / entry_bytes());
    for (std::size_t i = 0; i < index_.size(); ++i) {
      PackEntry& entry = index_[i];
      std::memcpy(&entry, bytes.data() + i * entry_bytes(), entry_bytes());
      const std::uint64_t pixels = std::uint64_t{entry.height} * entry.width;
      expect(pixels >= 1 && pixels <= std::uint64_t(kMaxMaxPixels) &&
                 entry.height <= std::uint64_t(kMaxMaxPixels) && entry.bytes == pixels * 3 &&
                 entry.label < header_.classes &&
                 entry.offset >= sizeof header_ + header_.names_bytes &&
                 entry.offset <= header_.index_offset &&
                 entry.bytes <= header_.index_offset - entry.offset,
             header_.index_offset + i * entry_bytes(),
             fmt::format("sample {}: {}x{} pixels of class {} in {} bytes at byte {} do not fit",
                         i,
                         entry.width,
                         entry.height,
                         entry.label,
                         entry.bytes,
                         entry.offset));
    }
  }

  std::uint64_t sum(const void* data, std::size_t bytes, std::uint64_t seed = 0) const {
    return pack_sum(header_.version, data, bytes, seed);
  }
  std::size_t entry_bytes() const { return has_sums() ? sizeof(PackEntry) : kFirstEntryBytes; }

  std::string name_;
  FileReader file_;
  PackHeader header_{};
  std::string names_;  // each ends with a zero byte
  std::vector<PackEntry> index_;
};

class Packed final : public Dataset {
 public:
  Packed(std::shared_ptr<const PackFile> file,
         std::vector<std::int64_t> rows,
         ImagePart part,
         const ImageOptions& options)
      : file_(std::move(file)),
        rows_(std::move(rows)),
        sampling_(options, part),
        classes_(options.trained ? options.trained->class_names : file_->class_names()),
        label_of_(labels_among(
            file_->class_names(), classes_, file_->name() + ": ", "the run was not trained on")),
        spec_(sampling_.spec(int(classes_.size()))) {
    content_ = content_hash(
        rows_.data(), rows_.size() * sizeof(std::int64_t), file_->header().content_hash);
  }
  /// `other` with samples of side `size`.
  Packed(const Packed& other, int size)
      : file_(other.file_),
        rows_(other.rows_),
        sampling_(other.sampling_.resized(size)),
        classes_(other.classes_),
        label_of_(other.label_of_),
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
    const PackEntry& entry = file_->entry(row);
    const ImageSize stored{int(entry.width), int(entry.height)};
    const ImageSize wanted = sampling_.size();
    const Crop crop = sampling_.crop(epoch, index, copy, stored);
    const PixelRect& part = crop.limit;
    const std::int64_t stride = std::int64_t{stored.width} * 3;
    const WorkspacePool::Lease work(workspaces_);
    const ImageView view{
        file_->pixels(row, work->file) + part.y * stride + std::int64_t{part.x} * 3,
        stride,
        part.width,
        part.height};
    const Box box{crop.box.x - part.x, crop.box.y - part.y, crop.box.width, crop.box.height};
    work->resampler.run(view, box, wanted, reinterpret_cast<std::uint8_t*>(input));
    const std::int32_t label = label_of_[entry.label];
    std::memcpy(target, &label, sizeof label);
  }
  std::int32_t label(std::int64_t index) const override {
    return label_of_[file_->entry(rows_[std::size_t(index)]).label];
  }
  std::string describe() const override {
    return fmt::format("packed:{}, {} images in {} classes, as {}x{}",
                       file_->name(),
                       size(),
                       spec_.classes,
                       sampling_.rule.width,
                       sampling_.rule.height);
  }
  std::vector<std::string> class_names() const override { return classes_; }
  Preprocessing preprocessing() const override {
    return image_preprocessing(*this, "packed", sampling_.rule.short_side);
  }
  std::uint64_t fingerprint() const override { return sampling_.fold(content_); }
  std::shared_ptr<const Dataset> resized(int size) const override {
    return std::make_shared<Packed>(*this, size);
  }
  ContentSample content_sample(std::uint64_t seed) const override {
    return file_->has_sums() ? ContentSample{} : sample_file(file_->name(), seed);
  }

 private:
  std::shared_ptr<const PackFile> file_;
  std::vector<std::int64_t> rows_;
  ImageSampling sampling_;
  std::vector<std::string> classes_;
  std::vector<std::int32_t> label_of_;  // of the file's classes, among `classes_`
  SampleSpec spec_;
  std::uint64_t content_ = 0;
  mutable WorkspacePool workspaces_;
};

}  // namespace

DataSplit packed(const std::string& file, const ImageOptions& options) {
  check(options);
  const auto pack = std::make_shared<PackFile>(file);
  const auto train = std::int64_t(pack->header().train_samples),
             validation = std::int64_t(pack->header().validation_samples);
  const auto part = [&](std::vector<std::int64_t> rows, ImagePart kind) {
    return std::make_shared<Packed>(pack, std::move(rows), kind, options);
  };
  RowSplit rows;
  if (validation > 0) {
    LOCKSTEP_CHECK(options.validation_fraction == 0 || options.trained,
                   ConfigError,
                   "data: {} has a validation part, so a validation fraction ({}) cannot be chosen",
                   as_written(file),
                   options.validation_fraction);
    rows = split_rows(train, 0, options.seed, file);
    rows.validation.resize(std::size_t(validation));
    std::iota(rows.validation.begin(), rows.validation.end(), train);
  } else if (options.trained && options.validation_fraction == 1) {
    rows.validation = split_rows(train, 0, options.seed, file).train;
  } else {
    rows = split_rows(train, options.validation_fraction, options.seed, file);
  }
  DataSplit split;
  if (!options.trained) split.train = part(std::move(rows.train), ImagePart::train);
  if (!rows.validation.empty())
    split.validation = part(std::move(rows.validation), ImagePart::validation);
  return split;
}

}  // namespace lockstep::data
