// SPDX-License-Identifier: Apache-2.0
// Pickles as nobody honest writes them.
#include "core/io/torch/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/io/torch/state_dict.h"
#include "core/io/torch/torch_file.h"
#include "core/io/torch/zip_writer.h"
#include "tests/io/scratch_folder.h"

namespace lockstep::io::torch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_literals;

std::string repeat(std::string_view unit, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += unit;
  return text;
}

/// What() of the DataError that the pickle ends with; empty: none.
std::string refusal(const std::string& bytes) {
  try {
    const Pickle pickle("f.pth", bytes);
    (void)state_dict_of("f.pth", pickle);
    return {};
  } catch (const DataError& error) {
    return error.what();
  }
}

const std::string kStorage =
    "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"s + "0X\3\0\0\0cpuK\6tQ"s;
const std::string kRebuild = "ctorch._utils\n_rebuild_tensor_v2\n("s;
const std::string kRest = "\x89}tR"s;

/// A state dict of one tensor "a" that views a storage of six elements.
std::string dict_of(const std::string& place, const std::string& shape, const std::string& stride) {
  return "\x80\2}X\1\0\0\0a"s + kRebuild + kStorage + place + shape + stride + kRest + "s.";
}

TEST(Pickle, TensorIsAViewOfItsStorage) {
  const std::string bytes = dict_of("K\1", "K\2K\2\x86", "K\3K\1\x86");
  const Pickle pickle("f.pth", bytes);
  EXPECT_EQ(pickle.bytes(), bytes.size());
  const StateDict dict = state_dict_of("f.pth", pickle);
  ASSERT_EQ(dict.tensors.size(), 1u);
  EXPECT_EQ(dict.tensors[0].first, "a");
  EXPECT_EQ(dict.tensors[0].second->first, 1);
  EXPECT_THAT(dict.tensors[0].second->stride, ElementsAre(3, 1));
}

TEST(Pickle, ViewsThatLeaveTheirStorageAreRefused) {
  EXPECT_EQ(refusal(dict_of("K\0"s, "K\6\x85", "K\1\x85")), "");
  EXPECT_THAT(refusal(dict_of("K\1", "K\6\x85", "K\1\x85")), HasSubstr("leaves storage 0"));
  EXPECT_THAT(refusal(dict_of("K\7", ")", ")")), HasSubstr("leaves storage 0"));
  EXPECT_THAT(refusal(dict_of("J\xff\xff\xff\xff", ")", ")")), HasSubstr("malformed"));
  EXPECT_THAT(refusal(dict_of("K\0"s, "K\2\x85", "J\xff\xff\xff\xff\x85")), HasSubstr("negative"));
  EXPECT_THAT(refusal(dict_of("K\0"s, "K\2\x85", ")")), HasSubstr("malformed"));
  EXPECT_THAT(refusal(dict_of("K\0"s, "K\7\x85", "K\0\x85"s)), HasSubstr("repeats"));
  const std::string most = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f";
  EXPECT_THAT(refusal(dict_of("K\0"s, most + most + "\x86", most + most + "\x86")),
              HasSubstr("leaves storage 0"));
  EXPECT_THAT(refusal(dict_of(most, most + "\x85", "K\0\x85"s)), HasSubstr("leaves storage 0"));
  EXPECT_THAT(refusal(dict_of(most, "K\0\x85"s, "K\1\x85")), HasSubstr("leaves storage 0"));
}

TEST(Pickle, EveryOtherNameIsRefusedByItsName) {
  EXPECT_THAT(refusal("\x80\2cos\nsystem\nX\2\0\0\0idq\0\x85R."s),
              HasSubstr("f.pth: the pickle asks for os.system, which is not a tensor"));
  EXPECT_THAT(refusal("\x80\4\x8c\x08"s + "builtins\x8c\x04" + "eval\x93\x8c\x01" + "1\x85R."),
              HasSubstr("builtins.eval"));
  for (const std::string name : {"torch.storage\n_load_from_bytes",
                                 "torch.storage\nUntypedStorage",
                                 "torch.storage\nTypedStorage",
                                 "torch\nQInt8Storage",
                                 "numpy.core.multiarray\nscalar",
                                 "argparse\nNamespace",
                                 "torch._utils\n_rebuild_wrapper_subclass",
                                 "torch\nload"})
    EXPECT_THAT(
        refusal("\x80\2c" + name + "\n."),
        HasSubstr(name.substr(0, name.find('\n')) + "." + name.substr(name.find('\n') + 1)));
  for (const char opcode : {'\x81', '\x92', 'i', 'o', '\x82', '\x8f', '\x91', '\x96', '\x97'})
    EXPECT_THAT(refusal("\x80\2}"s + opcode), HasSubstr("asks for"));
  EXPECT_THAT(refusal("ca\x1b[31m\nb\n."), HasSubstr("a\\x1b[31m.b"));
}

TEST(Pickle, WhatIsNoStateDictIsRefused) {
  EXPECT_THAT(refusal("\x80\2]."), HasSubstr("no dict"));
  EXPECT_THAT(refusal("\x80\2}X\3\0\0\0netK\1s."s), HasSubstr("net; expected a state dict"));
  EXPECT_EQ(refusal("\x80\2}."), "") << "an empty one has no tensor, and none that is wrong";
  EXPECT_THAT(refusal("\x80\6}."), HasSubstr("protocol 6"));
  for (const std::string calls : {"K\1)R",
                                  "ctorch\nFloatStorage\n)R",
                                  "ctorch\nfloat32\n)R",
                                  "ccollections\nOrderedDict\nK\1R",
                                  "ccollections\nOrderedDict\nK\1\x85R",
                                  "ctorch\nSize\nK\1\x85R",
                                  "ctorch._utils\n_rebuild_parameter\n)R",
                                  "ctorch._utils\n_rebuild_tensor_v2\n)R",
                                  "K\1Q",
                                  "K\1K\1b",
                                  "K\1K\1a",
                                  "K\1(K\1u",
                                  "}K\1e",
                                  "h\5",
                                  "t",
                                  "0",
                                  "e",
                                  "s",
                                  "R",
                                  "\x93",
                                  "q\1",
                                  "p",
                                  "I1\n",
                                  "F1\n",
                                  "P1\n",
                                  "V1\n"})
    EXPECT_NE(refusal("\x80\2" + calls + "."), "") << calls;
}

TEST(Pickle, EndIsMissedEverywhere) {
  const std::string whole = dict_of("K\1", "K\2K\2\x86", "K\3K\1\x86");
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_THROW(Pickle("f.pth", whole.substr(0, bytes)), PickleCutOff) << bytes;
  for (const std::string& claim : {"X\xff\xff\xff\xff"s,
                                   "\x8d\xff\xff\xff\xff\xff\xff\xff\xff"s,
                                   "\x8a\xff"s,
                                   "B\xff\xff\xff\xff"s,
                                   "T\xff\xff\xff\x7f"s,
                                   "\x95"s})
    EXPECT_THROW(Pickle("f.pth", claim), PickleCutOff);
}

/// What takes many times its bytes is refused, deep values and circles are not a problem, and what
/// would be walked again and again is not.
TEST(Pickle, BombsGoOff) {
  constexpr std::size_t kMany = 1'000'000;
  EXPECT_THAT(refusal(repeat("]", kMany)), HasSubstr("too many values"));
  EXPECT_THAT(refusal(repeat("(", 4 * kMany)), HasSubstr("too many values"));
  EXPECT_THAT(refusal("]" + repeat("\x94", kMany)), HasSubstr("too many values"));
  EXPECT_THAT(refusal("]q\1" + repeat("h\1", 4 * kMany)), HasSubstr("too many values"));
  const std::string deep = repeat("]", 100'000) + repeat("a", 99'999) + ".";
  EXPECT_THAT(refusal(deep), HasSubstr("no dict"));
  std::string doubling = "]q\1";  // 2^1000 lists, if they were copied
  for (int i = 0; i < 1000; ++i) doubling += "(h\1h\1tq\1";
  EXPECT_THAT(refusal(doubling + "."), HasSubstr("no dict"));
  EXPECT_EQ(
      refusal("}q\1X\5\0\0\0modelh\1sX\1\0\0\0x"s + kRebuild + kStorage + "K\0))"s + kRest + "s."),
      "")
      << "a dict that holds itself";
  const std::string large = "(" + repeat("N", 100'000) + "tq\1" + "0ccollections\nOrderedDict\nq\2";
  EXPECT_THAT(refusal(large + repeat("0h\2h\1R", kMany)), HasSubstr("malformed"));
}

TEST(TorchArchive, StoragesAreWhatTheDirectorySays) {
  const ScratchFolder folder;
  const std::string pickle = dict_of("K\0"s, "K\6\x85", "K\1\x85");
  const auto error_with = [&](const std::vector<std::pair<std::string, std::string>>& entries) {
    OutputFile out(folder.file("a.pth"));
    ZipWriter zip(out);
    for (const auto& [name, data] : entries) zip.add(name, std::as_bytes(std::span(data)));
    zip.finish();
    out.finish();
    try {
      const TorchFile file(folder.file("a.pth"));
      return std::string();
    } catch (const DataError& error) {
      return std::string(error.what());
    }
  };
  const std::string six(24, 'x');
  EXPECT_EQ(error_with({{"a/data.pkl", pickle}, {"a/data/0", six}}), "");
  EXPECT_THAT(error_with({{"a/data.pkl", pickle}}), HasSubstr("a/data/0 is missing"));
  EXPECT_THAT(error_with({{"a/data.pkl", pickle}, {"a/data/0", six.substr(1)}}),
              HasSubstr("has 23 bytes, expected 6 elements of F32"));
  EXPECT_THAT(error_with({{"a/data.pkl", pickle}, {"a/data/0", six}, {"a/byteorder", "big"}}),
              HasSubstr("'big', expected little"));
  EXPECT_THAT(error_with({{"a/data.pkl", pickle}, {"b/data.pkl", pickle}}),
              HasSubstr("b/data.pkl"));
  EXPECT_THAT(error_with({{"a/data.pkl", pickle}, {"a/data.pkl", pickle}}), HasSubstr("same name"));
  EXPECT_THAT(error_with({{"a/b/data.pkl", pickle}}), HasSubstr("without data.pkl"));
}

}  // namespace
}  // namespace lockstep::io::torch
