// SPDX-License-Identifier: Apache-2.0
#include "core/data/content_sample.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "core/base/random.h"
#include "core/data/input_file.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kThreads = 8;

/// A file that is open for reading, where it exists. Throws DataError where reading fails.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : path_(path) {
    do {
      descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (descriptor_ < 0 && errno == EINTR);
    if (descriptor_ < 0 && errno != ENOENT) cannot_read(path_, errno);
    if (descriptor_ < 0 || fstat(descriptor_, &status_) == 0) return;
    const int code = errno;
    close(descriptor_);
    cannot_read(path_, code);
  }
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  bool exists() const { return descriptor_ >= 0; }
  std::uint64_t size() const { return std::uint64_t(status_.st_size); }
  std::int64_t written() const { return status_.st_mtim.tv_sec; }

  /// `hash` continued over the bytes from `first` on, as far as there are any.
  std::uint64_t hash(std::uint64_t first, std::uint64_t bytes, std::uint64_t hash) {
    buffer_.resize(kSampledBlockBytes);
    while (bytes > 0) {
      const std::size_t got = read(first, std::min<std::uint64_t>(bytes, buffer_.size()));
      if (got == 0) break;
      hash = content_hash(buffer_.data(), got, hash);
      first += got;
      bytes -= got;
    }
    return hash;
  }

 private:
  /// Fills the buffer, however many calls that takes: the hash depends on where its blocks end.
  std::size_t read(std::uint64_t first, std::size_t bytes) {
    std::size_t done = 0;
    while (done < bytes) {
      const ssize_t got =
          pread(descriptor_, buffer_.data() + done, bytes - done, off_t(first + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) cannot_read(path_, errno);
      if (got == 0) break;
      done += std::size_t(got);
    }
    return done;
  }

  std::string path_;
  int descriptor_ = -1;
  struct stat status_ {};
  std::vector<std::byte> buffer_;
};

/// `count` of the numbers below `all` in ascending order, some of them perhaps twice; all of them
/// where that is no more.
std::vector<std::int64_t> choose(std::int64_t count, std::int64_t all, std::uint64_t key) {
  std::vector<std::int64_t> chosen(std::size_t(std::min(count, all)));
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const RandomBlock words = philox(key, 0, i);
    const std::uint64_t random = (std::uint64_t{words[0]} << 32) | words[1];
    chosen[i] = count >= all ? std::int64_t(i) : std::int64_t(random % std::uint64_t(all));
  }
  std::ranges::sort(chosen);
  return chosen;
}

struct FileStatus {
  std::uint64_t bytes = 0;
  std::int64_t written = 0;
  int error = 0;
};

}  // namespace

ContentSample sample_file(const std::string& path, std::uint64_t seed) {
  OpenFile file(path);
  if (!file.exists()) return {};
  const std::uint64_t bytes = file.size();
  std::uint64_t hash = content_hash(&bytes, sizeof bytes);
  if (bytes <= kWholeSampleBytes) {
    hash = file.hash(0, bytes, hash);
  } else {
    const auto blocks = std::int64_t((bytes - 1) / kSampledBlockBytes + 1);
    std::vector<std::int64_t> chosen =
        choose(kSampledBlocks, blocks, random_key(seed, "content sample"));
    chosen.insert(chosen.begin(), 0);
    chosen.push_back(blocks - 1);
    for (const std::int64_t block : chosen)
      hash = file.hash(std::uint64_t(block) * kSampledBlockBytes, kSampledBlockBytes, hash);
  }
  return {hash, file.written()};
}

ContentSample sample_files(std::int64_t count,
                           const std::function<std::string(std::int64_t)>& path,
                           std::uint64_t seed) {
  const std::vector<std::int64_t> sized =
      choose(kSizedFiles, count, random_key(seed, "sized files"));
  std::vector<FileStatus> found(sized.size());
  const auto ask = [&](std::int64_t thread) {
    for (auto i = std::size_t(thread); i < sized.size(); i += std::size_t(kThreads)) {
      struct stat status {};
      if (stat(path(sized[i]).c_str(), &status) == 0)
        found[i] = {std::uint64_t(status.st_size), status.st_mtim.tv_sec};
      else if (errno != ENOENT)
        found[i].error = errno;
    }
  };
  {
    std::vector<std::jthread> threads;
    // Several, since each answer may come from a server.
    for (std::int64_t i = 1; i < kThreads; ++i) threads.emplace_back(ask, i);
    ask(0);
  }
  ContentSample result;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const FileStatus& status = found[i];
    if (status.error != 0) cannot_read(path(sized[i]), status.error);
    result.hash = content_hash(&status.bytes, sizeof status.bytes, result.hash);
    result.written = std::max(result.written, status.written);
  }
  for (const std::int64_t i : choose(kReadFiles, count, random_key(seed, "read files"))) {
    const std::uint64_t hash = sample_file(path(i), seed).hash;
    result.hash = content_hash(&hash, sizeof hash, result.hash);
  }
  return result;
}

}  // namespace lockstep::data
