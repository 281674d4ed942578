// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/pack.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/images/image_crop.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/image_workspace.h"
#include "core/data/images/pack_format.h"
#include "core/data/input_file.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxShortSide = 4096;
constexpr int kMaxThreads = 256;
constexpr std::int64_t kSamplesPerThread = 16;  // decoded before they are written

/// A file that becomes visible under its name only when it is complete.
class NewFile {
 public:
  explicit NewFile(std::string name)
      : name_(std::move(name)), temporary_(fmt::format("{}.tmp-{}", name_, getpid())) {
    do {
      descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (descriptor_ < 0 && errno == EINTR);
    if (descriptor_ < 0) fail("cannot create");
  }
  ~NewFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!complete_) ::unlink(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const void* data, std::size_t bytes) {
    write_at(data, bytes, position_);
    position_ += bytes;
  }
  void write_at(const void* data, std::size_t bytes, std::uint64_t offset) {
    const auto* from = static_cast<const std::byte*>(data);
    while (bytes > 0) {
      const ssize_t done = ::pwrite(descriptor_, from, bytes, off_t(offset));
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) fail("cannot write");
      from += done;
      offset += std::uint64_t(done);
      bytes -= std::size_t(done);
    }
  }
  std::uint64_t position() const { return position_; }

  void publish() {
    if (sync(descriptor_) != 0) fail("cannot write");
    if (::rename(temporary_.c_str(), name_.c_str()) != 0) fail("cannot create");
    complete_ = true;
    // The name is on disk when its folder is; some file systems cannot say, and need not.
    const fs::path parent = fs::path(name_).parent_path();
    const int folder = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_CLOEXEC);
    if (folder < 0) return;
    const int code = sync(folder) == 0 ? 0 : errno;
    ::close(folder);
    errno = code;
    if (code == EIO || code == ENOSPC || code == EDQUOT) fail("cannot flush to the disk");
  }

 private:
  static int sync(int descriptor) {
    int result = 0;
    do {
      result = ::fsync(descriptor);
    } while (result != 0 && errno == EINTR);
    return result;
  }
  [[noreturn]] void fail(const char* what) {
    const int error = errno;  // the destructor removes what is not complete
    throw EnvironmentError(fmt::format("{} {}: {}", what, as_written(name_), std::strerror(error)),
                           "choose a writable place with enough space");
  }

  std::string name_, temporary_;
  int descriptor_ = -1;
  bool complete_ = false;
  std::uint64_t position_ = 0;
};

/// One decoded sample on its way into the file.
struct Shrunk {
  ImageSize size;
  std::vector<std::uint8_t> pixels;
  std::exception_ptr error;
};

std::uint64_t sum(const void* data, std::size_t bytes, std::uint64_t seed = 0) {
  return pack_sum(kPackVersion, data, bytes, seed);
}

void decode(const std::string& path, const PackOptions& options, ImageWorkspace& work, Shrunk& to) {
  to.error = nullptr;
  try {
    const auto file = read_bytes(path, work.file, "check the file's permissions");
    const ImageSize stored = work.decoder.open(path, file, options.max_pixels);
    to.size = shrunk(stored, options.short_side);
    const DecodedCrop decoded = work.decoder.decode(whole(stored), to.size, DecodeScale::quick);
    to.pixels.resize(std::size_t(to.size.width) * std::size_t(to.size.height) * 3);
    work.resampler.run(decoded.view, decoded.box, to.size, to.pixels.data());
  } catch (...) {
    to.error = std::current_exception();
  }
}

class Packer {
 public:
  Packer(const std::string& file, const PackOptions& options)
      : options_(options),
        file_(file),
        work_(std::size_t(options.threads)),
        block_(std::size_t(options.threads * kSamplesPerThread)) {}

  PackReport run(const ImageFolders& folders) {
    const std::vector<std::string>& classes = folders.train->classes;
    std::string names;
    for (const std::string& name : classes) names += name + '\0';
    PackHeader header{};
    file_.write(&header, sizeof header);  // for its place; the true one comes last
    add_to_file(names.data(), names.size());
    std::uint64_t index_hash = sum(names.data(), names.size());
    total_ = folders.train->size() + (folders.validation ? folders.validation->size() : 0);
    std::vector<std::int32_t> labels(classes.size());
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = std::int32_t(i);
    report_.train_samples = add_part(*folders.train, labels);
    if (folders.validation)
      report_.validation_samples = add_part(*folders.validation, folders.validation_labels());

    std::memcpy(header.magic, kPackMagic, sizeof kPackMagic);
    header.version = kPackVersion;
    header.classes = std::uint32_t(classes.size());
    header.train_samples = std::uint64_t(report_.train_samples);
    header.validation_samples = std::uint64_t(report_.validation_samples);
    header.names_bytes = names.size();
    header.short_side = std::uint32_t(options_.short_side);
    header.index_offset = file_.position();
    const std::size_t index_bytes = index_.size() * sizeof(PackEntry);
    header.index_hash = sum(index_.data(), index_bytes, index_hash);
    add_to_file(index_.data(), index_bytes);
    header.content_hash = hash_;
    header.file_bytes = file_.position();
    header.header_hash = sum(&header, offsetof(PackHeader, header_hash));
    file_.write_at(&header, sizeof header, 0);
    file_.publish();
    report_.classes = int(classes.size());
    report_.bytes = header.file_bytes;
    return report_;
  }

 private:
  std::int64_t add_part(const ImageFolder& folder, const std::vector<std::int32_t>& labels) {
    std::int64_t added = 0;
    const auto most = std::int64_t(block_.size());
    for (std::int64_t first = 0; first < folder.size(); first += most) {
      const std::int64_t count = std::min(most, folder.size() - first);
      decode_block(folder, first, count);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int32_t label = labels[std::size_t(folder.labels[std::size_t(first + i)])];
        added += add(block_[std::size_t(i)], label);
      }
      done_ += count;
      if (options_.progress) options_.progress(done_, total_);
    }
    LOCKSTEP_CHECK(
        added > 0, DataError, "{}: not one of the files could be decoded", as_written(folder.root));
    return added;
  }

  /// Thread t decodes samples t, t + threads, ... of the block.
  void decode_block(const ImageFolder& folder, std::int64_t first, std::int64_t count) {
    const auto part = [&](int thread) {
      for (std::int64_t i = thread; i < count; i += options_.threads)
        decode(
            folder.path(first + i), options_, work_[std::size_t(thread)], block_[std::size_t(i)]);
    };
    std::vector<std::jthread> helpers;
    for (int t = 1; t < options_.threads; ++t) helpers.emplace_back(part, t);
    part(0);
  }

  bool add(const Shrunk& sample, std::int32_t label) {
    if (sample.error) {
      try {
        std::rethrow_exception(sample.error);
      } catch (const DataError& error) {
        if (!options_.skip_bad_samples) throw;
        if (report_.skipped++ == 0) report_.first_skipped = error.what();
        return false;
      }
    }
    index_.push_back({file_.position(),
                      std::uint32_t(sample.pixels.size()),
                      std::uint32_t(label),
                      std::uint32_t(sample.size.height),
                      std::uint32_t(sample.size.width),
                      sum(sample.pixels.data(), sample.pixels.size())});
    add_to_file(sample.pixels.data(), sample.pixels.size());
    return true;
  }

  void add_to_file(const void* data, std::size_t bytes) {
    hash_ = sum(data, bytes, hash_);
    file_.write(data, bytes);
  }

  const PackOptions& options_;
  NewFile file_;
  std::vector<ImageWorkspace> work_;
  std::vector<Shrunk> block_;
  std::vector<PackEntry> index_;
  std::uint64_t hash_ = 0;
  std::int64_t done_ = 0, total_ = 0;
  PackReport report_;
};

}  // namespace

PackReport pack_images(const std::string& folder,
                       const std::string& file,
                       const PackOptions& options) {
  LOCKSTEP_CHECK(options.short_side >= 1 && options.short_side <= kMaxShortSide,
                 ConfigError,
                 "pack: expected a short side of 1 to {} pixels, got {}",
                 kMaxShortSide,
                 options.short_side);
  LOCKSTEP_CHECK(options.threads >= 1 && options.threads <= kMaxThreads,
                 ConfigError,
                 "pack: expected 1 to {} threads, got {}",
                 kMaxThreads,
                 options.threads);
  LOCKSTEP_CHECK(options.max_pixels >= 1 && options.max_pixels <= kMaxMaxPixels,
                 ConfigError,
                 "pack: expected a limit of 1 to {} pixels, got {}",
                 kMaxMaxPixels,
                 options.max_pixels);
  const ImageFolders folders = scan_image_folders(folder);
  return Packer(file, options).run(folders);
}

}  // namespace lockstep::data
