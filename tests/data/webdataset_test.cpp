// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>

#include "core/data/shards/shard_list.h"
#include "core/data/shards/tar_reader.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"
#include "tests/support/image_files.h"
#include "tests/support/tar_files.h"

namespace lockstep::data {
namespace {

using test::tar_end;
using test::tar_file;
using test::tar_member;
using test::TarNames;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Members = std::vector<std::pair<std::string, std::string>>;

std::string image_of(int number) {
  return test::png_file(test::photo_like(16, 16, std::uint64_t(number)));
}

/// Samples first to last - 1, of three classes; keys in a folder, as ImageNet's are.
Members samples(int first, int last) {
  Members members;
  for (int i = first; i < last; ++i) {
    members.emplace_back(fmt::format("n{}/{:05}.png", i % 3, i), image_of(i));
    members.emplace_back(fmt::format("n{}/{:05}.cls", i % 3, i), std::to_string(i % 3) + "\n");
  }
  return members;
}

const ImageOptions kSmall{.size = 16};

class Shards : public DataFixture {
 protected:
  std::string error_of_shard(const std::string& content) const {
    const std::string shard = write("a.tar", content);
    return error_of<DataError>([&] { webdataset(shard, kSmall); });
  }
};

TEST_F(Shards, SamplesAreThoseOfTheFilesInTheOrderOfTheShards) {
  write("s-000000.tar", tar_file(samples(0, 4)));
  write("s-000001.tar", tar_file(samples(4, 9)));
  const DataSplit split = webdataset(path("s-{000000..000001}.tar"), kSmall);
  ASSERT_EQ(split.train->size(), 9);
  EXPECT_EQ(split.validation, nullptr);
  EXPECT_EQ(split.train->spec().classes, 3);
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(label_of(*split.train, 0, i), i % 3) << i;
    EXPECT_EQ(split.train->label(i), i % 3) << i;
    const auto bytes = sample_bytes(*split.train, 0, i);
    const auto photo = test::photo_like(16, 16, std::uint64_t(i));
    EXPECT_EQ(std::memcmp(bytes.data(), photo.pixels.data(), photo.pixels.size()), 0) << i;
  }
  EXPECT_THAT(split.train->describe(), HasSubstr("9 samples of 2 shards in 3 classes, as 16x16"));
  EXPECT_NE(split.train->content_sample(1).hash, 0u);
  EXPECT_GT(split.train->decoding_bytes(1), 16u * 16u * 3u);
  EXPECT_EQ(webdataset(folder_, kSmall).train->fingerprint(), split.train->fingerprint());
}

TEST_F(Shards, FoldersAndNamesSayWhatIsForValidation) {
  for (const char* part : {"train", "val"}) {
    std::filesystem::create_directories(path(std::string("folders/") + part));
    write(fmt::format("folders/{}/0.tar", part), tar_file(samples(0, part[0] == 't' ? 6 : 3)));
  }
  const DataSplit folders = webdataset(path("folders"), kSmall);
  EXPECT_EQ(folders.train->size(), 6);
  EXPECT_EQ(folders.validation->size(), 3);
  std::filesystem::create_directory(path("names"));
  write("names/imagenet-train-0.tar", tar_file(samples(0, 6)));
  write("names/imagenet-val-0.tar", tar_file(samples(0, 3)));
  const DataSplit names = webdataset(path("names"), kSmall);
  EXPECT_EQ(names.train->fingerprint(), folders.train->fingerprint());
  EXPECT_EQ(names.validation->size(), 3);
  const std::string one = path("names/imagenet-train-0.tar");
  const DataSplit kept = webdataset(one, {.size = 16, .validation_fraction = 0.5});
  EXPECT_EQ(kept.train->size(), 3);
  EXPECT_EQ(kept.validation->size(), 3);
  const Preprocessing trained = names.train->preprocessing();
  const ImageOptions all{.validation_fraction = 1, .trained = &trained};
  EXPECT_EQ(webdataset(one, all).validation->size(), 6);
}

TEST_F(Shards, LongNamesOfGnuAndPaxAndOtherMembersAreRead) {
  const std::string deep(150, 'd');
  for (const TarNames names : {TarNames::gnu, TarNames::pax}) {
    Members members{{"README", "about"}, {".hidden.png", "x"}};
    for (int i = 0; i < 3; ++i) {
      members.emplace_back(fmt::format("{}/{}.cls", deep, i), i == 0 ? "cat" : "dog");
      members.emplace_back(fmt::format("{}/{}.txt", deep, i), "a caption");
      members.emplace_back(fmt::format("{}/{}.JPG", deep, i), image_of(i));
    }
    const std::string shard =
        write("long.tar", tar_member("folder/", "", '5') + tar_file(members, names));
    const DataSplit split = webdataset(shard, kSmall);
    ASSERT_EQ(split.train->size(), 3);
    EXPECT_THAT(split.train->class_names(), ElementsAre("cat", "dog"));
    EXPECT_EQ(label_of(*split.train, 0, 0), 0);
    EXPECT_EQ(label_of(*split.train, 0, 2), 1);
  }
}

TEST_F(Shards, JsonHoldsNumbersOrNames) {
  const auto with = [&](const std::string& first, const std::string& second) {
    return tar_file(
        {{"0.png", image_of(0)}, {"0.json", first}, {"1.png", image_of(1)}, {"1.json", second}});
  };
  const std::string numbers =
      write("n.tar", with(R"({"caption": "x", "label": 1})", R"({"cls": 0})"));
  EXPECT_EQ(label_of(*webdataset(numbers, kSmall).train, 0, 0), 1);
  const std::string names = write("t.tar", with(R"({"class": "b"})", R"({"class": "a"})"));
  const DataSplit named = webdataset(names, kSmall);
  EXPECT_EQ(label_of(*named.train, 0, 0), 1);
  for (const char* bad :
       {R"({"caption": "x"})", R"({"label": 1.5})", R"([1])", "{\"label\": 1", ""})
    EXPECT_THAT(error_of_shard(with(R"({"label": 1})", bad)),
                HasSubstr("a.tar: sample 1 (1): its .json is not an object"))
        << bad;
  EXPECT_THAT(error_of_shard(with(R"({"label": 1})", R"({"label": "cat"})")),
              HasSubstr("its class is 'cat', where others are numbers, as '1'"));
}

TEST_F(Shards, WhatIsWrongIsNamedWithShardAndSample) {
  const std::string whole = tar_file(samples(0, 3));
  EXPECT_THAT(error_of_shard(whole.substr(0, whole.size() - 1024)),
              HasSubstr("the file is cut off: expected another header or the end mark"));
  EXPECT_THAT(error_of_shard(whole.substr(0, 700)),
              HasSubstr("the file is cut off in n0/00000.png"));
  std::string damaged = whole;
  damaged[3] ^= 1;
  EXPECT_THAT(error_of_shard(damaged), HasSubstr("a.tar: byte 0: not a tar"));
  EXPECT_THAT(error_of_shard("\x1f\x8b" + whole),
              AllOf(HasSubstr("a tar compressed by gzip"), HasSubstr("gunzip ")));
  EXPECT_THAT(error_of_shard(""), HasSubstr("a.tar: the file is empty"));
  EXPECT_THAT(error_of_shard(tar_end()), HasSubstr("no sample in 1 shard"));
  const std::string image = image_of(0);
  EXPECT_THAT(error_of_shard(tar_file({{"a.png", image}, {"a.cls", "1"}, {"b.png", image}})),
              HasSubstr("a.tar: sample 1 (b): it has no .cls or .json"));
  EXPECT_THAT(error_of_shard(tar_file({{"a.cls", "1"}, {"b.png", image}})),
              HasSubstr("a.tar: sample 0 (a): it has no .jpg, .jpeg or .png"));
  EXPECT_THAT(error_of_shard(tar_file({{"a.png", image}, {"a.jpg", image}, {"a.cls", "1"}})),
              HasSubstr("it has an image twice: a.png and a.jpg"));
  EXPECT_THAT(
      error_of_shard(tar_file(
          {{"a.png", image}, {"a.cls", "1"}, {"b.png", image}, {"b.cls", "0"}, {"a.png", image}})),
      HasSubstr("a.tar: sample 2 (a): its key comes a second time in the shard"));
  EXPECT_THAT(error_of_shard(tar_file({{"a.png", image}, {"a.cls", " \n"}})),
              HasSubstr("its label is empty"));
  EXPECT_THAT(error_of_shard(tar_file({{"a.png", image}, {"a.cls", "-1"}})),
              HasSubstr("expected a class from 0 to"));
  EXPECT_THAT(error_of_shard(tar_file({{"a.png", image}, {"a.cls", "0"}})),
              HasSubstr("at least 2 classes"));
  EXPECT_THAT(error_of_shard(tar_member("a.png", "", '2') + tar_end()),
              HasSubstr("a.png is a link, expected a file"));
}

TEST_F(Shards, AnImageThatCannotBeDecodedIsNamed) {
  Members members = samples(0, 3);
  members[2].second = "no image";
  const DataSplit split = webdataset(write("a.tar", tar_file(members)), kSmall);
  EXPECT_THAT(error_of<DataError>([&] { sample_bytes(*split.train, 0, 1); }),
              HasSubstr("a.tar: sample 1 (n1/00001.png): expected a JPEG or PNG"));
  std::filesystem::resize_file(path("a.tar"), 1024);
  EXPECT_THAT(error_of<DataError>([&] { sample_bytes(*split.train, 0, 0); }),
              HasSubstr("bytes when it was indexed, and has 1024 now"));
}

TEST_F(Shards, ValidationHasTheClassesOfTraining) {
  std::filesystem::create_directories(path("d/train"));
  std::filesystem::create_directories(path("d/val"));
  write("d/train/0.tar", tar_file(samples(0, 6)));
  write("d/val/0.tar", tar_file({{"x.png", image_of(1)}, {"x.cls", "3"}}));
  EXPECT_THAT(error_of<DataError>([&] { webdataset(path("d"), kSmall); }),
              HasSubstr("d/val/0.tar: sample 0: class '3' is not one of the 3"));
}

TEST_F(Shards, PatternsExpand) {
  EXPECT_THAT(expand_braces("s-{008..010}.tar"),
              ElementsAre("s-008.tar", "s-009.tar", "s-010.tar"));
  EXPECT_THAT(expand_braces("{18446744073709551614..18446744073709551615}"),
              ElementsAre("18446744073709551614", "18446744073709551615"));
  EXPECT_THAT(expand_braces("{a,b}-{0..1}"), ElementsAre("a-0", "a-1", "b-0", "b-1"));
  for (const char* bad : {"s-{0..", "s-0}", "s-{5..2}", "s-{x}", "s-{{a,b}}", "{0..9999999}"})
    EXPECT_THAT(error_of<ConfigError>([&] { expand_braces(bad); }), HasSubstr(bad));
  EXPECT_THAT(error_of<DataError>([&] { webdataset(path("s-{0..1}.tar"), kSmall); }),
              HasSubstr("s-0.tar: no such file, which"));
  EXPECT_THAT(error_of<DataError>([&] { webdataset(folder_, kSmall); }),
              HasSubstr("there are no .tar files in it"));
}

}  // namespace
}  // namespace lockstep::data
