// SPDX-License-Identifier: Apache-2.0
#include "core/data/idx.h"

#include <algorithm>
#include <array>
#include <fmt/ranges.h>
#include <memory>
#include <zlib.h>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/input_file.h"

namespace lockstep::data {
namespace {

constexpr std::uint8_t kUnsignedByte = 8;
/// Deflate's best case is 1032:1; a header that asks for more than this cannot be honest.
constexpr std::uint64_t kMaxCompression = 1040;
constexpr std::size_t kChunk = std::size_t{1} << 20;

/// A plain or compressed file, read front to back.
class Stream {
 public:
  explicit Stream(const std::string& file) : file_(file), handle_(gzopen(file.c_str(), "rb")) {
    LOCKSTEP_CHECK(handle_, DataError, "{}: cannot be opened", as_written(file));
  }

  /// Reads up to `bytes`; fewer at the end of the file.
  std::size_t read(void* target, std::size_t bytes) {
    std::size_t done = 0;
    while (done < bytes) {
      const auto part = unsigned(std::min(bytes - done, kChunk));
      const int got = gzread(handle_.get(), static_cast<char*>(target) + done, part);
      check_stream(got < 0);
      if (got == 0) break;
      done += std::size_t(got);
    }
    return done;
  }

  /// True where nothing follows; also verifies the checksum of a compressed file.
  bool at_end() {
    char extra = 0;
    return read(&extra, 1) == 0;
  }

  bool compressed() { return gzdirect(handle_.get()) == 0; }

 private:
  void check_stream(bool failed) {
    int code = Z_OK;
    const char* message = gzerror(handle_.get(), &code);
    if (!failed && code == Z_OK) return;
    throw DataError(
        fmt::format("{}: expected a whole gzip file, got damage: {}", as_written(file_), message),
        "download the file again");
  }

  struct Close {
    void operator()(gzFile handle) const { gzclose(handle); }
  };
  std::string file_;
  std::unique_ptr<gzFile_s, Close> handle_;
};

std::vector<std::int64_t> read_header(Stream& stream, const std::string& file, int rank) {
  std::array<std::uint8_t, 4> magic{};
  const std::size_t got = stream.read(magic.data(), magic.size());
  LOCKSTEP_CHECK(got == magic.size(),
                 DataError,
                 "{}: expected an IDX header, the file ends after {} bytes",
                 as_written(file),
                 got);
  LOCKSTEP_CHECK(magic[0] == 0 && magic[1] == 0,
                 DataError,
                 "{}: expected an IDX file, which begins with bytes 00 00, got {:02x} {:02x}",
                 as_written(file),
                 magic[0],
                 magic[1]);
  LOCKSTEP_CHECK(magic[2] == kUnsignedByte,
                 DataError,
                 "{}: expected IDX elements of type 08 (unsigned byte), got type {:02x}",
                 as_written(file),
                 magic[2]);
  LOCKSTEP_CHECK(magic[3] == rank,
                 DataError,
                 "{}: expected an IDX file of {} dimensions, got {}",
                 as_written(file),
                 rank,
                 magic[3]);
  std::vector<std::int64_t> dims;
  for (int i = 0; i < rank; ++i) {
    std::array<std::uint8_t, 4> word{};
    LOCKSTEP_CHECK(stream.read(word.data(), word.size()) == word.size(),
                   DataError,
                   "{}: the file ends inside the IDX header",
                   as_written(file));
    dims.push_back(std::int64_t{word[0]} << 24 | word[1] << 16 | word[2] << 8 | word[3]);
    LOCKSTEP_CHECK(dims.back() > 0, DataError, "{}: IDX dimension {} is 0", as_written(file), i);
  }
  return dims;
}

/// Bytes of the elements. Throws DataError where that exceeds kMaxFileBytes.
std::uint64_t payload_bytes(const std::string& file, const std::vector<std::int64_t>& dims) {
  std::uint64_t bytes = 1;
  for (const std::int64_t dim : dims) {
    LOCKSTEP_CHECK(std::uint64_t(dim) <= kMaxFileBytes / bytes,
                   DataError,
                   "{}: expected at most {} bytes, but the IDX header says {}",
                   as_written(file),
                   kMaxFileBytes,
                   fmt::join(dims, " x "));
    bytes *= std::uint64_t(dim);
  }
  return bytes;
}

}  // namespace

IdxFile read_idx(const std::string& file, int rank, const std::string& hint) {
  const std::uint64_t file_bytes = input_file_size(file, hint);
  Stream stream(file);
  IdxFile result;
  result.dims = read_header(stream, file, rank);
  const std::uint64_t bytes = payload_bytes(file, result.dims);
  const std::uint64_t header_bytes = 4 + 4 * std::uint64_t(rank);
  const std::uint64_t available =
      stream.compressed() ? file_bytes * kMaxCompression : file_bytes - header_bytes;
  const auto expect = [&](bool fits, const std::string& came) {
    LOCKSTEP_CHECK(fits,
                   DataError,
                   "{}: the IDX header says {} = {} bytes of data, got {}",
                   as_written(file),
                   fmt::join(result.dims, " x "),
                   bytes,
                   came);
  };
  expect(bytes <= available, fmt::format("at most {}", available));
  // Of a compressed file the header may promise what does not follow: memory grows with what comes.
  std::size_t got = 0;
  do {
    const std::size_t known = stream.compressed() ? std::max(kChunk, 2 * got) : bytes;
    result.data.resize(std::min<std::uint64_t>(bytes, known));
    got += stream.read(result.data.data() + got, result.data.size() - got);
  } while (got == result.data.size() && got < bytes);
  expect(got == bytes, fmt::format("{}", got));
  expect(stream.at_end(), "more");
  return result;
}

}  // namespace lockstep::data
