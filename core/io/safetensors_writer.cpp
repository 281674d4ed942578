// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/base/error.h"
#include "core/io/safetensors.h"

namespace lockstep::io {

namespace {

constexpr std::size_t kHeaderAlignment = 8;  // of the data that follow

/// A file being written, which disappears unless finish() succeeds.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path) : path_(path) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail("cannot create");
    struct stat status {};
    is_file_ = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  }
  ~OutputFile() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    remove();
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t bytes) {
    const char* next = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = ::write(descriptor_, next, bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("cannot write");
      next += written;
      bytes -= std::size_t(written);
    }
  }

  void finish() {
    if (::fsync(descriptor_) != 0) fail("cannot flush to the disk");
    if (::close(std::exchange(descriptor_, -1)) != 0) {
      const int error = errno;
      remove();
      errno = error;
      fail("cannot close");
    }
  }

 private:
  void remove() const {
    if (is_file_) ::unlink(path_.c_str());  // a device stays
  }
  [[noreturn]] void fail(std::string_view what) const {
    throw EnvironmentError(fmt::format("{}: {}: {}", path_.string(), what, std::strerror(errno)),
                           "check the folder's permissions and the free space");
  }

  std::filesystem::path path_;
  int descriptor_ = -1;
  bool is_file_ = false;
};

void check(const std::string& file, const TensorView& tensor, std::set<std::string>& names) {
  LOCKSTEP_CHECK(tensor.name != "__metadata__" && names.insert(tensor.name).second,
                 DataError,
                 "{}: the name '{}' is taken",
                 file,
                 tensor.name);
  std::uint64_t bytes = size_in_bytes(tensor.type);
  for (std::int64_t extent : tensor.shape)
    LOCKSTEP_CHECK(extent >= 0 && !__builtin_mul_overflow(bytes, std::uint64_t(extent), &bytes),
                   DataError,
                   "{}: tensor '{}' has an impossible extent of {}",
                   file,
                   tensor.name,
                   extent);
  LOCKSTEP_CHECK(bytes == tensor.data.size(),
                 DataError,
                 "{}: tensor '{}' needs {} bytes by its shape, got {}",
                 file,
                 tensor.name,
                 bytes,
                 tensor.data.size());
}

std::string header_of(const std::string& file,
                      std::span<const TensorView* const> tensors,
                      const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorView* tensor : tensors) {
    const std::uint64_t end = offset + tensor->data.size();
    header[tensor->name] = {{"dtype", std::string(name_of(tensor->type))},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    throw DataError(fmt::format("{}: a name or metadata is not UTF-8: {}", file, error.what()));
  }
  text.append((kHeaderAlignment - text.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path,
                       std::span<const TensorView> tensors,
                       const Metadata& metadata) {
  const std::string file = path.string();
  std::set<std::string> names;
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : tensors) {
    check(file, tensor, names);
    order.push_back(&tensor);
  }
  std::stable_sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    return size_in_bytes(a->type) > size_in_bytes(b->type);
  });
  const std::string header = header_of(file, order, metadata);
  const std::uint64_t header_bytes = header.size();

  OutputFile out(path);
  out.write(&header_bytes, sizeof header_bytes);
  out.write(header.data(), header.size());
  for (const TensorView* tensor : order) out.write(tensor->data.data(), tensor->data.size());
  out.finish();
}

}  // namespace lockstep::io
