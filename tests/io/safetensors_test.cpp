// SPDX-License-Identifier: Apache-2.0
#include "core/io/safetensors.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lockstep/error.h"
#include "lockstep/shape.h"

namespace lockstep::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Safetensors : public ::testing::Test {
 protected:
  Safetensors() {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep-io-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~Safetensors() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file(const std::string& name = "t.safetensors") const {
    return folder_ / name;
  }

  void write_raw(const std::string& header, const std::string& data) const {
    write_raw(header.size(), header, data);
  }
  void write_raw(std::uint64_t length, const std::string& header, const std::string& data) const {
    std::ofstream out(file(), std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << header << data;
  }

  /// What reading the file complains about; empty where it does not.
  std::string complaint() const {
    try {
      SafetensorsReader reader(file());
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr(file().string()));
      return error.what();
    }
    return "";
  }

  std::filesystem::path folder_;
};

template <typename T>
TensorView view(const std::string& name, std::vector<std::int64_t> shape, const std::vector<T>& v) {
  return {name, ElementTypeOf<T>::value, std::move(shape), std::as_bytes(std::span(v))};
}

std::string entry(const std::string& name,
                  const std::string& type,
                  const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}";
}

TEST_F(Safetensors, RoundTripOfEveryType) {
  const std::vector<float> f{1.5f, -0.0f, 3e38f, 1e-45f, 0, 7};
  const std::vector<double> d{0.1, -2e300};
  const std::vector<std::int32_t> i{-1, 1 << 30};
  const std::vector<std::int64_t> l{std::int64_t{1} << 62};
  const std::vector<std::uint8_t> u{255, 0, 3};
  const std::vector<float> nothing;
  const std::vector<TensorView> tensors{view("u", {3}, u),
                                        view("layer1.0.conv1.weight", {3, 1, 2}, f),
                                        view("d", {2}, d),
                                        view("i", {2, 1}, i),
                                        view("scalar", {}, l),
                                        view("nothing", {0, 5}, nothing)};
  write_safetensors(file(), tensors, {{"format", "pt"}});

  const SafetensorsReader reader(file());
  EXPECT_EQ(reader.entries().size(), tensors.size());
  EXPECT_EQ(reader.read<float>("layer1.0.conv1.weight"), f);
  EXPECT_THAT(reader.entry("layer1.0.conv1.weight").shape, ElementsAre(3, 1, 2));
  EXPECT_EQ(reader.read<double>("d"), d);
  EXPECT_EQ(reader.read<std::int32_t>("i"), i);
  EXPECT_EQ(reader.read<std::int64_t>("scalar"), l);
  EXPECT_TRUE(reader.entry("scalar").shape.empty());
  EXPECT_EQ(reader.read<std::uint8_t>("u"), u);
  EXPECT_TRUE(reader.read<float>("nothing").empty());
  EXPECT_EQ(reader.metadata().at("format"), "pt");
  for (const TensorEntry& e : reader.entries())
    EXPECT_EQ(e.offset_bytes % size_in_bytes(e.type), 0u) << e.name << " is misaligned";
}

TEST_F(Safetensors, EqualTensorsGiveEqualBytes) {
  const std::vector<float> f{1, 2};
  const std::vector<TensorView> tensors{view("b", {2}, f), view("a", {1, 2}, f)};
  write_safetensors(file("one"), tensors, {{"k", "v"}, {"a", "b"}});
  write_safetensors(file("two"), tensors, {{"a", "b"}, {"k", "v"}});
  const auto content = [](const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_EQ(content(file("one")), content(file("two")));
}

TEST_F(Safetensors, ReadsWhatOthersWrite) {
  // Header padded with spaces, entries not in the order of the data.
  write_raw(
      "{" + entry("b", "U8", "[2]", "[4,6]") + ", " + entry("a", "F32", "[1]", "[0,4]") + "}   ",
      std::string("\0\0\x80\x3f\x07\x08", 6));
  const SafetensorsReader reader(file());
  EXPECT_THAT(reader.read<float>("a"), ElementsAre(1.0f));
  EXPECT_THAT(reader.read<std::uint8_t>("b"), ElementsAre(7, 8));
}

TEST_F(Safetensors, MissingFileAndFolder) {
  EXPECT_THAT(complaint(), HasSubstr("No such file"));
  std::filesystem::create_directory(file());
  EXPECT_THAT(complaint(), HasSubstr("not a file"));
}

TEST_F(Safetensors, LyingLengths) {
  std::ofstream(file()) << "short";
  EXPECT_THAT(complaint(), HasSubstr("too short"));
  write_raw(3, "{}", "");
  EXPECT_THAT(complaint(), HasSubstr("claims a header of 3 bytes"));
  write_raw(~std::uint64_t{0}, "{}", "");
  EXPECT_THAT(complaint(), HasSubstr("claims a header"));
  write_raw(100'000'001, "{}", "");
  std::filesystem::resize_file(file(), 200'000'000);  // sparse
  EXPECT_THAT(complaint(), HasSubstr("at most 100000000"));
}

TEST_F(Safetensors, MalformedHeaders) {
  for (const char* header : {"", "[1]", "{", R"({"a":1})", R"({"a":{"dtype":"F32"}})", "{}x"}) {
    write_raw(header, "");
    EXPECT_NE(complaint(), "") << header;
  }
  write_raw(R"({"__metadata__":{"a":1}})", "");
  EXPECT_THAT(complaint(), HasSubstr("not a string"));
  write_raw("{\"a\":" + std::string(100'000, '['), "");
  EXPECT_THAT(complaint(), HasSubstr("too deeply"));
  write_raw("{\"\xff\":{}}", "");
  EXPECT_THAT(complaint(), HasSubstr("not valid JSON"));
}

TEST_F(Safetensors, EntryAtFaultIsNamed) {
  const struct {
    std::string type, shape, offsets, expected;
  } cases[] = {
      {"C64", "[2]", "[0,4]", "\"C64\" is not supported"},
      {"F32", "[1,-1]", "[0,4]", "whole number"},
      {"F32", "[1.0]", "[0,4]", "whole number"},
      {"F32", "[18446744073709551616]", "[0,4]", "whole number"},
      {"F32", "[4294967296,4294967296]", "[0,4]", "more than 2^63"},
      {"F32", "[2]", "[0,4]", "need 8 bytes"},
      {"F32", "[1]", "[4,0]", "run backwards"},
      {"F32", "[1]", "[0]", "two numbers"},
      {"F32", "1", "[0,4]", "must be a list"},
      {"F32", "[2]", "[0,8]", "truncated"},
      {"F32", "[1]", "[4,8]", "hole"},
  };
  for (const auto& c : cases) {
    write_raw("{" + entry("conv1.weight", c.type, c.shape, c.offsets) + "}", "1234");
    EXPECT_THAT(complaint(), ::testing::AllOf(HasSubstr("'conv1.weight'"), HasSubstr(c.expected)));
  }
}

TEST_F(Safetensors, TensorsFillTheFile) {
  const std::string a = entry("a", "U8", "[4]", "[0,4]");
  write_raw("{" + a + "," + entry("b", "U8", "[4]", "[2,6]") + "}", "123456");
  EXPECT_THAT(complaint(), HasSubstr("overlap"));
  write_raw("{" + a + "," + entry("b", "U8", "[1]", "[5,6]") + "}", "123456");
  EXPECT_THAT(complaint(), HasSubstr("hole"));
  write_raw("{" + a + "}", "123456");
  EXPECT_THAT(complaint(), HasSubstr("2 bytes after the last tensor"));
  write_raw("{" + a + "," + entry("a", "U8", "[2]", "[4,6]") + "}", "123456");
  EXPECT_THAT(complaint(), HasSubstr("'a' appears twice"));
}

TEST_F(Safetensors, WrongRequestsAreNamed) {
  const std::vector<float> f{1};
  write_safetensors(file(), std::vector<TensorView>{view("a", {1}, f)});
  const SafetensorsReader reader(file());
  EXPECT_TRUE(reader.contains("a"));
  EXPECT_FALSE(reader.contains("b"));
  EXPECT_THROW(reader.entry("b"), DataError);
  EXPECT_THROW(reader.read<double>("a"), DataError);
  std::filesystem::resize_file(file(), std::filesystem::file_size(file()) - 1);
  EXPECT_THROW(reader.read<float>("a"), DataError);
}

TEST_F(Safetensors, WriterRefusesWhatItCouldNotReadBack) {
  const std::vector<float> f{1, 2};
  const auto write = [&](const std::vector<TensorView>& tensors) {
    write_safetensors(file(), tensors);
  };
  EXPECT_THROW(write({view("a", {2}, f), view("a", {2}, f)}), DataError);
  EXPECT_THROW(write({view("__metadata__", {2}, f)}), DataError);
  EXPECT_THROW(write({view("a", {3}, f)}), DataError);
  EXPECT_THROW(write({view("a", {-2, -1}, f)}), DataError);
  EXPECT_THROW(write({view("\xff", {2}, f)}), DataError);
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_THROW(write_safetensors(file() / "below", {}), EnvironmentError);
  // What cannot be written to is not removed, as it was there before.
  EXPECT_THROW(write_safetensors("/dev/full", std::vector<TensorView>{view("a", {2}, f)}),
               EnvironmentError);
  EXPECT_TRUE(std::filesystem::exists("/dev/full"));
}

}  // namespace
}  // namespace lockstep::io
