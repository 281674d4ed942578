// SPDX-License-Identifier: Apache-2.0
// Files that PyTorch wrote (tests/reference/make_torch_files.py), and their damaged copies.
#include "core/io/torch/torch_file.h"

#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <iterator>

#include "core/base/zip/zip_format.h"
#include "core/io/load_weights.h"
#include "core/io/open_weights.h"
#include "core/io/torch/torch_writer.h"
#include "lockstep/error.h"
#include "tests/io/scratch_folder.h"

namespace lockstep::io::torch {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

std::string torch_path(const std::string& name) {
  return std::string(LOCKSTEP_IO_FILES) + "/" + name;
}

std::string content_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::size_t index_of(const WeightSource& file, const std::string& name) {
  for (std::size_t i = 0; i < file.entries().size(); ++i)
    if (file.entries()[i].name == name) return i;
  throw InternalError("no tensor " + name);
}

template <typename T>
std::vector<T> raw_values(const WeightSource& file, const std::string& name) {
  const std::size_t index = index_of(file, name);
  std::vector<T> values(file.entries()[index].bytes / sizeof(T));
  file.read(index, std::as_writable_bytes(std::span<T>(values)));
  return values;
}

std::vector<std::int64_t> shape_of(const WeightSource& file, const std::string& name) {
  return file.entries()[index_of(file, name)].shape;
}

ElementType type_of(const WeightSource& file, const std::string& name) {
  return file.entries()[index_of(file, name)].type;
}

/// What() of the DataError that opening and reading all of `path` ends with; empty: none.
std::string error_of(const std::string& path) {
  try {
    const std::unique_ptr<WeightSource> file = open_weights(path);
    for (std::size_t i = 0; i < file->entries().size(); ++i) {
      std::vector<std::byte> bytes(file->entries()[i].bytes);
      file->read(i, bytes);
    }
    return {};
  } catch (const DataError& error) {
    return error.what();
  }
}

class TorchStateDict : public ::testing::TestWithParam<const char*> {};

TEST_P(TorchStateDict, EveryTypeAndView) {
  const TorchFile file(torch_path(GetParam()));
  EXPECT_EQ(file.entries().size(), 17u);
  std::vector<float> table(12);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = float(i);
  EXPECT_THAT(raw_values<float>(file, "f32"), ElementsAreArray(table));
  EXPECT_THAT(shape_of(file, "transposed"), ElementsAre(4, 3));
  EXPECT_THAT(raw_values<float>(file, "transposed"),
              ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
  EXPECT_THAT(raw_values<float>(file, "column"), ElementsAre(1, 5, 9));
  EXPECT_THAT(raw_values<float>(file, "tail"), ElementsAre(20, 21, 22, 23));
  EXPECT_THAT(raw_values<float>(file, "steps"), ElementsAre(1, 6, 11, 16, 21));
  EXPECT_THAT(raw_values<double>(file, "f64"), ElementsAre(0, 0.25, 0.5));
  EXPECT_EQ(type_of(file, "f16"), ElementType::f16);
  EXPECT_THAT(raw_values<std::uint16_t>(file, "f16"), ElementsAre(0, 0x3400, 0x3800, 0x3a00));
  EXPECT_EQ(type_of(file, "bf16"), ElementType::bf16);
  EXPECT_THAT(raw_values<std::uint16_t>(file, "bf16"), ElementsAre(0, 0x3e80, 0x3f00, 0x3f40));
  EXPECT_THAT(raw_values<std::int64_t>(file, "i64"), ElementsAre(7));
  EXPECT_THAT(shape_of(file, "i64"), ElementsAre());
  EXPECT_THAT(raw_values<std::int32_t>(file, "i32"), ElementsAre(0, 1));
  EXPECT_EQ(type_of(file, "i16"), ElementType::i16);
  EXPECT_EQ(type_of(file, "i8"), ElementType::i8);
  EXPECT_EQ(type_of(file, "u8"), ElementType::u8);
  EXPECT_THAT(raw_values<std::uint8_t>(file, "bool"), ElementsAre(1, 0));
  EXPECT_THAT(shape_of(file, "empty"), ElementsAre(0, 3));
  EXPECT_THAT(raw_values<float>(file, "empty"), ElementsAre());
  EXPECT_THAT(raw_values<float>(file, "parameter"), ElementsAre(1, 1));
  const std::vector<float> images = raw_values<float>(file, "images");  // channels last in storage
  for (std::size_t i = 0; i < images.size(); ++i) EXPECT_EQ(images[i], float(i));
}

INSTANTIATE_TEST_SUITE_P(Formats,
                         TorchStateDict,
                         ::testing::Values("zip.pth", "legacy.pth", "protocol5.pt"));

Parameter named(const std::string& name, const Shape& shape) {
  Parameter p;
  p.name = name;
  p.shape = shape;
  p.file_layout = {shape, {}, shape};
  return p;
}

TEST(TorchFile, CheckpointIsUnwrappedAndPrefixesAreStripped) {
  LoadReport report;
  const std::string path = torch_path("checkpoint.pth");
  const auto tensors = load_weights(path,
                                    {named("0.weight", {3, 2}),
                                     named("0.bias", {3}),
                                     named("1.weight", {3}),
                                     named("1.bias", {3}),
                                     named("1.running_mean", {3}),
                                     named("1.running_var", {3})},
                                    NamePatterns("init-skip", {"^0.bias"}),
                                    &report);
  ASSERT_EQ(tensors.size(), 5u);
  EXPECT_THAT(tensors[1].values, ElementsAre(2, 2, 2));
  EXPECT_THAT(tensors[4].values, ElementsAre(5, 5, 5));
  EXPECT_EQ(report.to_string(),
            path +
                " (under 'model'): 5 tensors loaded, 2 skipped (0.bias, 1 num_batches_tracked), "
                "1 new");
}

TEST(TorchFile, OtherPicklesAreRefusedByName) {
  EXPECT_THAT(error_of(torch_path("module.pth")),
              HasSubstr("the pickle asks for torch.nn.modules.linear.Linear"));
  EXPECT_THAT(error_of(torch_path("script.pt")), HasSubstr("TorchScript"));
  const ScratchFolder folder;
  EXPECT_THAT(error_of(folder.write("a.pth", "no zip")), HasSubstr("a.pth"));
  EXPECT_THAT(error_of(folder.write("b.pt", "")), HasSubstr("b.pt"));
  EXPECT_THAT(error_of(folder.file("none.pth")), HasSubstr("none.pth"));
}

TEST(TorchFile, EveryTruncationIsAnError) {
  const ScratchFolder folder;
  for (const std::string name : {"zip.pth", "legacy.pth"}) {
    const std::string whole = content_of(torch_path(name));
    ASSERT_FALSE(whole.empty());
    for (std::size_t bytes = 0; bytes < whole.size(); bytes += 1 + bytes / 16)
      EXPECT_NE(error_of(folder.write(name, std::string_view(whole).substr(0, bytes))), "")
          << name << " of " << bytes << " bytes";
  }
}

/// Any byte may be another one: an error, or other values; never more than the file has.
TEST(TorchFile, ChangedBytesNeverCrash) {
  const ScratchFolder folder;
  int refused = 0;
  for (const std::string name : {"zip.pth", "legacy.pth"}) {
    const std::string whole = content_of(torch_path(name));
    for (std::size_t at = 0; at < whole.size(); at += 7)
      for (const char other : {'\xff', char(whole[at] ^ 1)}) {
        std::string changed = whole;
        changed[at] = other;
        refused += error_of(folder.write(name, changed)).empty() ? 0 : 1;
      }
  }
  EXPECT_GT(refused, 100);
}

template <typename T>
T number_in(const std::string& bytes, std::size_t at) {
  return number_at<T>(std::as_bytes(std::span(bytes)), at);
}

template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// The same archive with every number that may be in 64 bits there, as in files of 4 GiB and more.
std::string as_zip64(const std::string& zip) {
  const std::size_t end = zip.rfind("PK\5\6");
  const auto count = number_in<std::uint16_t>(zip, end + 10);
  const auto start = number_in<std::uint32_t>(zip, end + 16);
  std::string result = zip.substr(0, start);
  std::size_t at = start;
  for (int i = 0; i < count; ++i) {
    const std::size_t name = number_in<std::uint16_t>(zip, at + 28);
    const std::uint64_t bytes = number_in<std::uint32_t>(zip, at + 24);
    const std::uint64_t header = number_in<std::uint32_t>(zip, at + 42);
    std::string entry = zip.substr(at, 46 + name);
    entry.replace(20, 8, std::string(8, '\xff'));
    entry.replace(30, 2, bytes_of(std::uint16_t(28)));
    entry.replace(42, 4, std::string(4, '\xff'));
    result += entry + bytes_of(std::uint16_t(1)) + bytes_of(std::uint16_t(24)) + bytes_of(bytes) +
              bytes_of(bytes) + bytes_of(header);
    at += 46 + name + number_in<std::uint16_t>(zip, at + 30);
  }
  const std::uint64_t record = result.size(), directory = record - start, entries = count;
  result += "PK\6\6" + bytes_of(std::uint64_t(44)) + std::string(12, '\0') + bytes_of(entries) +
            bytes_of(entries) + bytes_of(directory) + bytes_of(std::uint64_t(start));
  result += "PK\6\7" + std::string(4, '\0') + bytes_of(record) + bytes_of(std::uint32_t(1));
  return result + "PK\5\6" + std::string(4, '\0') + std::string(12, '\xff') + std::string(2, '\0');
}

TEST(TorchFile, NumbersOf64Bits) {
  const ScratchFolder folder;
  const std::string zip = content_of(torch_path("zip.pth"));
  const std::string wide = as_zip64(zip);
  ASSERT_GT(wide.size(), zip.size());
  const TorchFile file(folder.write("a.pth", wide));
  EXPECT_THAT(raw_values<float>(file, "steps"), ElementsAre(1, 6, 11, 16, 21));
  std::string far = wide;  // offsets and sizes at the other end of 64 bits
  far.replace(far.rfind("PK\6\6") + 48, 8, std::string(8, '\xfe'));
  EXPECT_THAT(error_of(folder.write("a.pth", far)), HasSubstr("after the end of the file"));
  far = wide;
  far.replace(far.rfind("PK\6\7") + 8, 8, std::string(8, '\xfe'));
  EXPECT_THAT(error_of(folder.write("a.pth", far)), HasSubstr("after the end of the file"));
  far = wide;
  far.replace(far.rfind("PK\6\6") + 32, 8, std::string(8, '\x7e'));
  EXPECT_THAT(error_of(folder.write("a.pth", far)), HasSubstr("entries"));
}

std::vector<TensorView> views(const std::vector<float>& values,
                              const std::vector<std::int64_t>& count) {
  return {{"w", ElementType::f32, {2, 3}, std::as_bytes(std::span(values)).first(24)},
          {"b.x", ElementType::f32, {1}, std::as_bytes(std::span(values)).subspan(24, 4)},
          {"none", ElementType::f32, {0, 2}, {}},
          {"count", ElementType::i64, {}, std::as_bytes(std::span(count))}};
}

TEST(TorchFile, WhatIsWrittenIsReadAgain) {
  const ScratchFolder folder;
  const std::vector<float> values{1, -2, 3, -4, 5, NAN, INFINITY};
  const std::vector<std::int64_t> count{-9};
  const std::string path = folder.file("a.pth");
  write_state_dict(path, views(values, count));
  const TorchFile file(path);
  EXPECT_EQ(file.entries().size(), 4u);
  const std::vector<float> w = raw_values<float>(file, "w");
  EXPECT_EQ(std::memcmp(w.data(), values.data(), 24), 0);
  EXPECT_THAT(shape_of(file, "w"), ElementsAre(2, 3));
  EXPECT_THAT(raw_values<float>(file, "b.x"), ElementsAre(INFINITY));
  EXPECT_THAT(shape_of(file, "none"), ElementsAre(0, 2));
  EXPECT_THAT(raw_values<std::int64_t>(file, "count"), ElementsAre(-9));
  const std::string bytes = content_of(path);
  EXPECT_EQ(bytes.find(std::string_view(reinterpret_cast<const char*>(values.data()), 24)) % 64,
            0u);
  write_state_dict(path, views(values, count));
  EXPECT_EQ(content_of(path), bytes) << "the same tensors are the same bytes";
  std::vector<TensorView> twice = views(values, count);
  twice.push_back(twice[0]);
  EXPECT_THROW(write_state_dict(folder.file("b.pth"), twice), DataError);
  EXPECT_FALSE(std::filesystem::exists(folder.file("b.pth")));
}

}  // namespace
}  // namespace lockstep::io::torch
