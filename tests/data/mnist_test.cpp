// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <gtest/gtest.h>
#include <zlib.h>

#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"

namespace lockstep::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string idx(const std::vector<std::uint32_t>& dims, const std::string& data, char type = 8) {
  std::string bytes{'\0', '\0', type, char(dims.size())};
  for (const std::uint32_t dim : dims)
    for (const int shift : {24, 16, 8, 0}) bytes += char(dim >> shift & 0xff);
  return bytes + data;
}

std::string gzip(const std::string& content) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY);
  std::string result(deflateBound(&stream, content.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = unsigned(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = unsigned(result.size());
  deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

std::string pixels(int images) {
  std::string data;
  for (int i = 0; i < images * 784; ++i) data += char(i * 7 + i / 784);
  return data;
}

/// A whole small data set; each test damages one file.
class Mnist : public DataFixture {
 protected:
  Mnist() {
    write("train-images-idx3-ubyte", idx({5, 28, 28}, pixels(5)));
    write("train-labels-idx1-ubyte", idx({5}, std::string("\x03\x00\x09\x01\x05", 5)));
    write("t10k-images-idx3-ubyte.gz", gzip(idx({2, 28, 28}, pixels(2))));
    write("t10k-labels-idx1-ubyte.gz", gzip(idx({2}, std::string("\x07\x02", 2))));
  }
  std::string error() const {
    return error_of<DataError>([&] { mnist(folder_); });
  }
  std::string error_with(const std::string& name, const std::string& content) const {
    write(name, content);
    return error();
  }
};

TEST_F(Mnist, ReadsPlainAndCompressedFiles) {
  const DataSplit split = mnist(folder_);
  EXPECT_EQ(split.train->size(), 5);
  EXPECT_EQ(split.validation->size(), 2);
  EXPECT_EQ(split.train->spec().input.to_string(), "u8[28, 28, 1]");
  EXPECT_EQ(split.train->spec().classes, 10);
  EXPECT_EQ(label_of(*split.train, 0, 2), 9);
  EXPECT_EQ(label_of(*split.validation, 0, 0), 7);
  const auto bytes = sample_bytes(*split.train, 0, 4);
  const std::string expected = pixels(5).substr(4 * 784);
  EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), 784), 0);
  // A black and a white pixel become (0 - .1307) / .3081 and (1 - .1307) / .3081.
  const SampleSpec& spec = split.train->spec();
  EXPECT_NEAR(spec.shift[0], -0.42421, 1e-5);
  EXPECT_NEAR(255 * spec.scale[0] + spec.shift[0], 2.82149, 1e-5);
}

TEST_F(Mnist, CompressionIsToldByContentNotByName) {
  const std::uint64_t before = mnist(folder_).train->fingerprint();
  write("train-images-idx3-ubyte", gzip(idx({5, 28, 28}, pixels(5))));
  EXPECT_EQ(mnist(folder_).train->fingerprint(), before);
}

TEST_F(Mnist, FingerprintTellsContentsApart) {
  const std::uint64_t before = mnist(folder_).train->fingerprint();
  write("train-labels-idx1-ubyte", idx({5}, std::string("\x03\x00\x09\x01\x04", 5)));
  EXPECT_NE(mnist(folder_).train->fingerprint(), before);
}

TEST_F(Mnist, FolderAndFilesMustBeThere) {
  EXPECT_THAT(error_of<DataError>([&] { mnist(path("absent")); }),
              HasSubstr("absent: no such folder | expected the four"));
  EXPECT_THAT(error_of<DataError>([&] { mnist(path("train-images-idx3-ubyte")); }),
              HasSubstr("expected a folder, got a file"));
  std::filesystem::remove(path("t10k-labels-idx1-ubyte.gz"));
  EXPECT_THAT(error(),
              HasSubstr("t10k-labels-idx1-ubyte: neither this file nor t10k-labels-idx1-ubyte.gz"));
  std::filesystem::create_directory(path("t10k-labels-idx1-ubyte"));
  EXPECT_THAT(error(), HasSubstr("expected a file, got a folder"));
}

TEST_F(Mnist, HeaderMustBeIdxOfBytes) {
  const char* name = "train-images-idx3-ubyte";
  EXPECT_THAT(error_with(name, ""), AllOf(HasSubstr(name), HasSubstr("ends after 0 bytes")));
  EXPECT_THAT(error_with(name, std::string("\0\0\x08", 3)), HasSubstr("ends after 3 bytes"));
  EXPECT_THAT(error_with(name, std::string("\0\0\x08\x03\0\0", 6)),
              HasSubstr("ends inside the IDX header"));
  EXPECT_THAT(error_with(name, "<html>not found</html>"),
              HasSubstr("begins with bytes 00 00, got 3c 68"));
  EXPECT_THAT(error_with(name, idx({5, 28, 28}, pixels(5), 0x0d)),
              HasSubstr("type 08 (unsigned byte), got type 0d"));
  EXPECT_THAT(error_with(name, idx({5, 784}, pixels(5))),
              HasSubstr("IDX file of 3 dimensions, got 2"));
  EXPECT_THAT(error_with(name, idx({0, 28, 28}, "")), HasSubstr("IDX dimension 0 is 0"));
  EXPECT_THAT(error_with(name, idx({5, 14, 56}, pixels(5))),
              HasSubstr("expected images of 28x28, got 14x56"));
}

TEST_F(Mnist, LengthMustBeWhatTheHeaderSays) {
  const char* name = "train-images-idx3-ubyte";
  const std::string whole = idx({5, 28, 28}, pixels(5));
  EXPECT_THAT(
      error_with(name, whole.substr(0, whole.size() - 1)),
      AllOf(HasSubstr(name), HasSubstr("says 5 x 28 x 28 = 3920 bytes of data, got at most 3919")));
  EXPECT_THAT(error_with(name, whole + "x"), HasSubstr("3920 bytes of data, got more"));
  EXPECT_THAT(error_with(name, gzip(whole.substr(0, 2000))),
              HasSubstr("3920 bytes of data, got 1984"));
  EXPECT_THAT(error_with(name, gzip(whole + "x")), HasSubstr("3920 bytes of data, got more"));
}

TEST_F(Mnist, LyingHeadersAllocateNothing) {
  const char* name = "train-images-idx3-ubyte";
  // Would overflow 64 bits; more than 1 GiB; less than 1 GiB but more than the file can hold.
  EXPECT_THAT(error_with(name, idx({0xffffffff, 0xffffffff, 0xffffffff}, "x")),
              HasSubstr("at most 1073741824 bytes"));
  EXPECT_THAT(error_with(name, idx({2000000, 28, 28}, "x")), HasSubstr("at most 1073741824 bytes"));
  EXPECT_THAT(error_with(name, idx({1000000, 28, 28}, "x")), HasSubstr("got at most 1"));
  EXPECT_THAT(error_with(name, gzip(idx({1000000, 28, 28}, "x"))),
              HasSubstr("784000000 bytes of data, got at most"));
}

TEST_F(Mnist, CompressionBombIsNotUnpacked) {
  const std::string zeros(std::size_t{64} << 20, '\0');
  EXPECT_THAT(error_with("train-images-idx3-ubyte", gzip(idx({5, 28, 28}, zeros))),
              HasSubstr("3920 bytes of data, got more"));
}

TEST_F(Mnist, DamagedCompressionIsNamed) {
  const char* name = "t10k-images-idx3-ubyte.gz";
  const std::string whole = gzip(idx({2, 28, 28}, pixels(2)));
  EXPECT_THAT(error_with(name, whole.substr(0, whole.size() / 2)),
              AllOf(HasSubstr(name), HasSubstr("whole gzip file")));
  EXPECT_THAT(error_with(name, whole.substr(0, whole.size() - 4)), HasSubstr("whole gzip file"));
  std::string flipped = whole;
  flipped[flipped.size() - 6] ^= 1;  // of the checksum
  EXPECT_THAT(error_with(name, flipped),
              AllOf(HasSubstr("whole gzip file"), HasSubstr("download")));
}

TEST_F(Mnist, LabelsMustFitTheImages) {
  const char* name = "train-labels-idx1-ubyte";
  EXPECT_THAT(error_with(name, idx({4}, "\1\2\3\4")),
              AllOf(HasSubstr(name), HasSubstr("expected 5 labels"), HasSubstr("got 4")));
  EXPECT_THAT(error_with(name, idx({5}, "\1\2\3\4\n")),
              HasSubstr("expected labels 0 to 9, got 10 for image 4"));
}

TEST(RealMnist, HasItsKnownSizesAndStatistics) {
  const char* given = std::getenv("LOCKSTEP_TEST_DATA");
  const std::string folder =
      (given != nullptr ? std::string(given) : LOCKSTEP_SOURCE_DIR "/../shared/data") + "/mnist";
  ASSERT_TRUE(given == nullptr || std::filesystem::exists(folder))
      << "LOCKSTEP_TEST_DATA is set, but there is no " << folder;
  if (!std::filesystem::exists(folder))
    GTEST_SKIP() << "no MNIST at " << folder
                 << "; set LOCKSTEP_TEST_DATA to the folder above mnist";
  const DataSplit split = mnist(folder);
  ASSERT_EQ(split.train->size(), 60000);
  ASSERT_EQ(split.validation->size(), 10000);
  const SampleSpec& spec = split.train->spec();
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < 60000; ++i) {
    const auto bytes = sample_bytes(*split.train, 0, i);
    for (std::size_t p = 0; p < 784; ++p) {
      const double x =
          double(std::uint8_t(bytes[p])) * double(spec.scale[0]) + double(spec.shift[0]);
      sum += x;
      squares += x * x;
    }
  }
  // The constants are rounded to 4 digits: half a unit of the last over the deviation.
  EXPECT_NEAR(sum / (60000.0 * 784), 0.0, 0.00005 / 0.3081);
  EXPECT_NEAR(std::sqrt(squares / (60000.0 * 784)), 1.0, 2 * 0.00005 / 0.3081);
  EXPECT_EQ(label_of(*split.train, 0, 0), 5);
  EXPECT_EQ(label_of(*split.validation, 0, 0), 7);
}

}  // namespace
}  // namespace lockstep::data
