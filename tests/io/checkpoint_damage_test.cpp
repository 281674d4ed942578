// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>

#include "core/base/sha256.h"
#include "core/io/checkpoint/manifest.h"
#include "core/io/safetensors.h"
#include "lockstep/error.h"
#include "tests/io/checkpoint_fixture.h"

namespace lockstep::io {
namespace {

namespace fs = std::filesystem;
using lockstep::testing::content_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kFiles[] = {
    "model.safetensors", "optimizer.safetensors", "state.json", "config.toml", "manifest.json"};

/// Two checkpoints, of which the newer is damaged.
class CheckpointDamage : public CheckpointTest {
 protected:
  CheckpointDamage() : older_(save(1)), newer_(save(2)) {}

  /// What a reader is told of byte `offset` of a file: the tensor, or "header".
  std::string place(const std::string& file, std::uint64_t offset) const {
    if (!file.ends_with(".safetensors")) return {};
    const SafetensorsReader reader(older_ / file);  // both have the same header
    for (const TensorEntry& entry : reader.entries())
      if (offset >= entry.offset_bytes && offset < entry.offset_bytes + entry.bytes)
        return "'" + entry.name + "'";
    return "header";
  }

  void expect_older_taken(const std::string& file) const {
    std::vector<std::string> skipped_checkpoints;
    const auto found = newest_checkpoint(folder_, skipped_checkpoints);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->path, older_);
    EXPECT_THAT(skipped_checkpoints,
                ElementsAre(AllOf(HasSubstr("step_00000002: "), HasSubstr(file))));
  }

  fs::path older_, newer_;
};

TEST_F(CheckpointDamage, EveryTruncation) {
  int truncations = 0;
  for (const std::string file : kFiles) {
    const fs::path path = newer_ / file;
    const std::string whole = content_of(path);
    for (std::size_t length = whole.size(); length-- > 0; ++truncations) {
      fs::resize_file(path, length);
      ASSERT_THAT(complaint(newer_),
                  AllOf(HasSubstr(path.string()), HasSubstr(place(file, length))))
          << "of " << whole.size() << " bytes, " << length << " were left";
      expect_older_taken(file);
    }
    std::ofstream(path, std::ios::binary) << whole;
    ASSERT_EQ(complaint(newer_), "");
    std::ofstream(path, std::ios::binary | std::ios::app) << '\0';
    EXPECT_THAT(complaint(newer_), HasSubstr(path.string()));
    std::ofstream(path, std::ios::binary) << whole;
  }
  EXPECT_GT(truncations, 1000);
  std::printf("%d truncations refused\n", truncations);
}

TEST_F(CheckpointDamage, EveryFlippedBit) {
  int flips = 0;
  for (const std::string file : kFiles) {
    const fs::path path = newer_ / file;
    const std::string whole = content_of(path);
    const int descriptor = ::open(path.c_str(), O_WRONLY);
    ASSERT_GE(descriptor, 0);
    for (std::size_t offset = 0; offset < whole.size(); ++offset) {
      const std::string expected_place = place(file, offset);
      for (int bit = 0; bit < 8; ++bit, ++flips) {
        const char flipped = char(whole[offset] ^ (1 << bit));
        ASSERT_EQ(::pwrite(descriptor, &flipped, 1, off_t(offset)), 1);
        const std::string what = complaint(newer_);
        ASSERT_TRUE(what.starts_with(path.string()) &&
                    what.find(expected_place) != std::string::npos)
            << "byte " << offset << ", bit " << bit << ": '" << what << "' does not name "
            << expected_place;
        if (bit == int(offset % 8)) expect_older_taken(file);
      }
      ASSERT_EQ(::pwrite(descriptor, &whole[offset], 1, off_t(offset)), 1);
    }
    ::close(descriptor);
    ASSERT_EQ(complaint(newer_), "");
  }
  EXPECT_GT(flips, 8000);
  std::printf("%d flipped bits refused\n", flips);
}

TEST_F(CheckpointDamage, OtherThingsInPlaceOfFiles) {
  for (const std::string file : kFiles) {
    const fs::path path = newer_ / file, aside = root_ / "aside";
    fs::rename(path, aside);
    EXPECT_THAT(complaint(newer_), AllOf(HasSubstr(file), HasSubstr(newer_.string())));
    fs::create_symlink(aside, path);
    EXPECT_THAT(complaint(newer_), HasSubstr(path.string() + ": is a symbolic link"));
    fs::remove(path);
    fs::create_directory(path);
    EXPECT_THAT(complaint(newer_), HasSubstr(path.string() + ": is not a file"));
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0666), 0);
    EXPECT_THAT(complaint(newer_), HasSubstr(path.string() + ": is not a file"));
    fs::remove(path);
    fs::rename(aside, path);
  }
  EXPECT_EQ(complaint(newer_), "");
}

TEST_F(CheckpointDamage, FurtherFilesAreIgnored) {
  std::ofstream(newer_ / "notes.txt") << "mine";
  EXPECT_EQ(complaint(newer_), "");
}

/// No damage: to go back before it would lose what the newer program has done.
TEST_F(CheckpointDamage, NewerVersionIsNotPassedOver) {
  for (const std::string body :
       {R"({"version":3,"files":"of another kind"})", R"({"version":3, not even JSON})"}) {
    std::ofstream(newer_ / "manifest.json")
        << body.substr(0, body.size() - 1) << R"(,"sha256":")" << sha256_of(body) << "\"}";
    std::vector<std::string> skipped_checkpoints;
    try {
      newest_checkpoint(folder_, skipped_checkpoints);
      ADD_FAILURE() << "the older one was taken";
    } catch (const EnvironmentError& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr("manifest.json: written by a newer Lockstep: format version 3, this "
                            "program knows 2"));
    }
  }
  std::ofstream(newer_ / "manifest.json") << R"({"version":3)";
  expect_older_taken("it is not as it was written");
}

TEST_F(CheckpointDamage, FoldersThatAreNoCheckpoints) {
  EXPECT_THAT(complaint(root_ / "nowhere"),
              HasSubstr("nowhere: is not a checkpoint: it does not exist"));
  EXPECT_THAT(complaint(root_), HasSubstr("is not a checkpoint: it holds no manifest.json"));
  EXPECT_THAT(complaint(newer_ / "state.json"),
              HasSubstr("is not a checkpoint: it is not a folder"));
  EXPECT_THROW(checkpoint_digest(root_), DataError);
}

/// Manifests with a valid seal, as only who wants to deceive makes them.
TEST_F(CheckpointDamage, SealedLies) {
  const std::string text = content_of(newer_ / "manifest.json");
  const Manifest honest = parse_manifest("m", text);
  const auto complain = [&](const Manifest& manifest) {
    std::ofstream(newer_ / "manifest.json") << to_text(manifest);
    return complaint(newer_);
  };
  ASSERT_EQ(complain(honest), "");
  Manifest lie = honest;
  lie.files["../step_00000001/state.json"] = lie.files["state.json"];
  EXPECT_THAT(complain(lie), HasSubstr("lists '../step_00000001/state.json'"));
  lie = honest;
  lie.files.erase("optimizer.safetensors");
  EXPECT_THAT(complain(lie), HasSubstr("lists no optimizer.safetensors"));
  lie = honest;
  lie.files["model.safetensors"].parts.back().end = ~std::uint64_t{0};
  EXPECT_THAT(complain(lie), HasSubstr("not in order"));
  lie = honest;
  lie.files["model.safetensors"].parts.pop_back();
  EXPECT_THAT(complain(lie), HasSubstr("the parts of model.safetensors do not cover it"));
  lie = honest;
  lie.files["model.safetensors"].bytes = std::uint64_t{1} << 62;
  lie.files["model.safetensors"].parts.back().end = std::uint64_t{1} << 62;
  EXPECT_THAT(complain(lie), HasSubstr("model.safetensors: has"));
  lie = honest;
  lie.step = 3;
  EXPECT_THAT(complain(lie), HasSubstr("is of step 3, state.json of step 2"));
}

TEST_F(CheckpointDamage, GiantTextsAreNotRead) {
  fs::resize_file(newer_ / "manifest.json", std::uintmax_t{1} << 40);  // sparse
  EXPECT_THAT(complaint(newer_), HasSubstr("at most 67108864 are allowed"));
}

}  // namespace
}  // namespace lockstep::io
