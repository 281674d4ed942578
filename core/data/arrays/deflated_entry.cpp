// SPDX-License-Identifier: Apache-2.0
#include "core/data/arrays/deflated_entry.h"

#include <algorithm>
#include <array>
#include <span>
#include <zlib.h>

#include "core/base/check.h"
#include "core/base/parameter_names.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kInflatedAtOnce = std::size_t{1} << 20;
/// Deflate's best case is 1032:1; an entry that claims more cannot be honest.
constexpr std::uint64_t kMaxDeflateRatio = 1040;

/// An entry of a zip file, inflated from its begin to its end.
class EntryInflater {
 public:
  EntryInflater(const std::string& name, const FileReader& file, const ZipEntry& entry)
      : name_(name), file_(file), entry_(entry), left_(entry.stored_bytes), at_(entry.offset) {
    LOCKSTEP_ASSERT(inflateInit2(&stream_, -MAX_WBITS) == Z_OK);
  }
  ~EntryInflater() { inflateEnd(&stream_); }
  EntryInflater(const EntryInflater&) = delete;
  EntryInflater& operator=(const EntryInflater&) = delete;

  /// All of it. Memory grows with what comes, whatever the directory claims.
  std::vector<std::byte> run() {
    require(entry_.bytes <= entry_.stored_bytes * kMaxDeflateRatio, "as many bytes as claimed");
    std::vector<std::byte> result;
    std::size_t got = 0;
    do {
      result.resize(std::min<std::uint64_t>(entry_.bytes, std::max(kInflatedAtOnce, 2 * got)));
      got += inflate_into(std::span(result).subspan(got));
    } while (got == result.size() && got < entry_.bytes);
    std::byte more{};
    require(got == entry_.bytes && inflate_into({&more, 1}) == 0, "as many bytes as claimed");
    const uLong sum =
        crc32_z(0, reinterpret_cast<const Bytef*>(result.data()), z_size_t(result.size()));
    require(entry_.crc32 == 0 || sum == entry_.crc32, "the checksum that the directory says");
    return result;
  }

 private:
  /// Fewer bytes than asked for: there are no more.
  std::size_t inflate_into(std::span<std::byte> to) {
    std::size_t done = 0;
    while (done < to.size() && !ended_) {
      if (stream_.avail_in == 0) refill();
      const std::size_t part = std::min(to.size() - done, kInflatedAtOnce);
      stream_.next_out = reinterpret_cast<Bytef*>(to.data() + done);
      stream_.avail_out = uInt(part);
      const bool is_starved = stream_.avail_in == 0;
      const int status = inflate(&stream_, Z_NO_FLUSH);
      require(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR, "deflated bytes");
      done += part - stream_.avail_out;
      ended_ = status == Z_STREAM_END;
      require(ended_ || !is_starved || stream_.avail_out < part, "deflated bytes that end");
    }
    return done;
  }

  void refill() {
    const auto bytes = std::size_t(std::min<std::uint64_t>(left_, input_.size()));
    file_.read(name_, at_, std::span(input_).first(bytes));
    at_ += bytes;
    left_ -= bytes;
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = uInt(bytes);
  }

  void require(bool holds, const char* expected) const {
    if (!holds)
      throw DataError(
          fmt::format("{}: damaged compression: expected {}", as_written(name_), expected),
          "copy or write the file again");
  }

  const std::string& name_;
  const FileReader& file_;
  ZipEntry entry_;
  std::uint64_t left_, at_;  // of the compressed bytes: how many, and where the next ones lie
  z_stream stream_{};
  bool ended_ = false;
  std::array<std::byte, 1 << 16> input_;
};

}  // namespace

std::vector<std::byte> inflate_entry(const std::string& name,
                                     const FileReader& file,
                                     const ZipEntry& entry) {
  return EntryInflater(name, file, entry).run();
}

}  // namespace lockstep::data
