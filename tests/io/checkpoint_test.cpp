// SPDX-License-Identifier: Apache-2.0
#include "core/io/checkpoint/checkpoint.h"

#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <sys/stat.h>

#include "core/base/sha256.h"
#include "core/io/checkpoint/checkpoint_state.h"
#include "core/io/checkpoint/manifest.h"
#include "core/io/load_weights.h"
#include "core/io/safetensors.h"
#include "tests/io/checkpoint_fixture.h"

namespace lockstep::io {
namespace {

namespace fs = std::filesystem;
using lockstep::testing::content_of;
using lockstep::testing::SmallCheckpoint;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Checkpoint = CheckpointTest;

TEST_F(Checkpoint, RoundTrip) {
  const fs::path path = save(1000);
  EXPECT_EQ(path, folder_ / "step_00001000");
  EXPECT_THAT(names(), ElementsAre("step_00001000"));
  EXPECT_EQ(SmallCheckpoint(1000).difference(path), "");
  const SafetensorsReader model(path / "model.safetensors");
  EXPECT_THAT(model.entry("conv.weight").shape, ElementsAre(2, 3, 1, 2));
  // PyTorch's [out, in, h, w] from the stored [out, h, w, in].
  const std::vector<float> file = model.read<float>("conv.weight");
  const std::vector<float> stored = SmallCheckpoint(1000).stored(0);
  for (std::size_t o = 0; o < 2; ++o)
    for (std::size_t w = 0; w < 2; ++w)
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_EQ(file[(o * 3 + i) * 2 + w], stored[(o * 2 + w) * 3 + i]);
  EXPECT_EQ(model.read<float>("head.weight"), model.read<float>("fc.weight"));
}

TEST_F(Checkpoint, StateKeepsEveryBit) {
  CheckpointState state;
  state.step = std::numeric_limits<std::int64_t>::max();
  state.samples = (std::int64_t{1} << 53) + 1;  // no double holds it
  state.wall_s = 0.1 + 0.2;
  state.train_loss = std::numeric_limits<double>::denorm_min();
  state.evaluated = true;
  state.val_accuracy = -0.0;
  state.best_val_loss = std::numeric_limits<double>::infinity();
  state.best_step = 7;
  state.settings = {{"z", "first"}, {"a", "quote \" and \n and \xc3\xa4"}, {"z", ""}};
  state.skipped_steps = 9;
  state.skipped_in_row = 2;
  state.rollbacks = 3;
  state.skipped_batches = {{0, 1}, {5, std::numeric_limits<std::int64_t>::max()}};
  state.open_labels = 96;
  state.open_loss = 0.1 + 0.7;
  state.open_accuracy = 31.5;
  state.loss_mean = 0.1 + 0.2;
  state.loss_variance = std::numeric_limits<double>::denorm_min();
  state.loss_count = 70;
  state.rollback_base = 40;
  const CheckpointState read = parse_state("state.json", to_text(state));
  EXPECT_EQ(read.skipped_steps, 9);
  EXPECT_EQ(read.skipped_in_row, 2);
  EXPECT_EQ(read.rollbacks, 3);
  EXPECT_EQ(read.skipped_batches, state.skipped_batches);
  EXPECT_EQ(read.open_labels, state.open_labels);
  EXPECT_EQ(read.open_loss, state.open_loss);
  EXPECT_EQ(read.open_accuracy, state.open_accuracy);
  EXPECT_EQ(read.loss_mean, state.loss_mean);
  EXPECT_EQ(read.loss_variance, state.loss_variance);
  EXPECT_EQ(read.loss_count, 70);
  EXPECT_EQ(read.rollback_base, 40);
  EXPECT_EQ(read.step, state.step);
  EXPECT_EQ(read.samples, state.samples);
  EXPECT_EQ(read.wall_s, state.wall_s);
  EXPECT_EQ(read.train_loss, state.train_loss);
  EXPECT_TRUE(read.evaluated);
  EXPECT_TRUE(std::isnan(read.val_loss));
  EXPECT_TRUE(read.val_accuracy == 0 && std::signbit(read.val_accuracy));
  EXPECT_EQ(read.best_val_loss, state.best_val_loss);
  EXPECT_EQ(read.best_step, 7);
  EXPECT_EQ(read.settings, state.settings);
  std::uint64_t bits = 0x0123456789abcdef;
  for (int i = 0; i < 10000; ++i) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    state.wall_s = std::bit_cast<double>(bits);
    if (std::isnan(state.wall_s)) continue;
    ASSERT_EQ(parse_state("state.json", to_text(state)).wall_s, state.wall_s);
  }
  state.settings = {{"data", "images:/caf\xe9"}};
  EXPECT_THROW(to_text(state), DataError);
}

TEST_F(Checkpoint, MalformedStateNamesFileAndKey) {
  const std::string good = to_text(CheckpointState{});
  const struct {
    std::string from, to, expected;
  } cases[] = {
      {"\"step\":0", "\"step\":-1", "'step' must be a whole number of at least 0, got -1"},
      {"\"step\":0", "\"step\":0.5", "'step' must"},
      {"\"samples\":0", "\"samples\":18446744073709551615", "'samples' must"},
      {"\"best_step\":-1", "\"best_step\":-2", "'best_step' must"},
      {"\"best_step\":-1", "\"best_step\":\"1\"", "'best_step' must"},
      {"\"evaluated\":false", "\"evaluated\":0", "'evaluated' must be true or false"},
      {"\"wall_s\":0.0", "\"wall_s\":\"1\"", "'wall_s' must be a number or null"},
      {"\"wall_s\":0.0", "\"wall_s\":1e999", "not valid JSON"},
      {"\"wall_s\":0.0,", "", "'wall_s' is missing"},
      {"\"wall_s\":0.0", "\"wall_s\":0,\"wall_s\":0", "'wall_s' appears twice"},
      {"\"wall_s\":0.0", "\"wall_s\":0,\"wall\":0", "unknown key 'wall'"},
      {"\"settings\":[]", "\"settings\":{}", "'settings' must be a list"},
      {"\"settings\":[]", "\"settings\":[[\"a\"]]", "'settings' must be a list"},
      {"\"settings\":[]", "\"settings\":[[[[]]]]", "too deeply"},
      {"\"settings\":[]", "\"settings\":[],\"left_out\":[[3,3]]", "'left_out' must be a list"},
      {"\"settings\":[]", "\"settings\":[],\"left_out\":[[1,3],[3,4]]", "in ascending order"},
      {"\"settings\":[]", "\"settings\":[],\"left_out\":[[-1,3]]", "'left_out' must be a list"},
      {"\"settings\":[]", "\"settings\":[],\"left_out\":[1]", "'left_out' must be a list"},
      {"\"settings\":[]", "\"settings\":[],\"skipped_steps\":1", "'skipped_in_row' is missing"},
      {"\"settings\":[]", "\"settings\":[],\"rollbacks\":-1", "'rollbacks' must"},
      {"\"settings\":[]",
       "\"settings\":[],\"loss_mean\":null,\"loss_variance\":0,\"loss_count\":1",
       "'loss_mean' must be a finite number"},
      {good, "[]", "expected a JSON object"},
      {good, std::string(100'000, '['), "too deeply"},
  };
  for (const auto& c : cases) {
    std::string text = good;
    ASSERT_NE(text.find(c.from), std::string::npos) << c.from;
    text.replace(text.find(c.from), c.from.size(), c.to);
    try {
      parse_state("DIR/state.json", text);
      ADD_FAILURE() << c.to;
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("DIR/state.json"), HasSubstr(c.expected)));
    }
  }
}

/// Of `bytes` of a file from `begin` on.
std::string sha256sum(const fs::path& file, std::uint64_t begin, std::uint64_t bytes) {
  const std::string command =
      fmt::format("tail -c +{} '{}' | head -c {} | sha256sum", begin + 1, file.string(), bytes);
  FILE* pipe = ::popen(command.c_str(), "r");
  char digest[65] = {};
  EXPECT_EQ(std::fread(digest, 1, 64, pipe), 64u);
  ::pclose(pipe);
  return digest;
}

TEST_F(Checkpoint, ManifestHasTheDigestsOfSha256sum) {
  const fs::path path = save(5);
  const Manifest manifest = parse_manifest("manifest.json", content_of(path / "manifest.json"));
  EXPECT_EQ(manifest.step, 5);
  EXPECT_EQ(manifest.version, 2);
  EXPECT_EQ(manifest.files.size(), 4u);
  for (const auto& [name, file] : manifest.files) {
    EXPECT_EQ(file.bytes, fs::file_size(path / name));
    EXPECT_EQ(file.parts.empty(), !name.ends_with(".safetensors")) << name;
    if (file.parts.empty()) {
      EXPECT_EQ(file.sha256, sha256sum(path / name, 0, file.bytes)) << name;
    }
    std::uint64_t begin = 0;
    for (const ManifestPart& part : file.parts) {
      EXPECT_EQ(part.sha256, sha256sum(path / name, begin, part.end - begin)) << part.tensor;
      begin = part.end;
    }
  }
  EXPECT_EQ(checkpoint_digest(path), sha256_of(content_of(path / "manifest.json")));
}

/// The manifest that builds before version 2 wrote: SHA-256 of the files, and of all bytes up to
/// the end of each tensor.
void make_version_1(const fs::path& checkpoint) {
  Manifest manifest = parse_manifest("m", content_of(checkpoint / "manifest.json"));
  manifest.version = 1;
  for (auto& [name, file] : manifest.files) {
    file.sha256 = sha256sum(checkpoint / name, 0, file.bytes);
    for (ManifestPart& part : file.parts) part.sha256 = sha256sum(checkpoint / name, 0, part.end);
  }
  std::ofstream(checkpoint / "manifest.json") << to_text(manifest);
}

TEST_F(Checkpoint, Version1IsRead) {
  const fs::path path = save(5);
  make_version_1(path);
  EXPECT_THAT(content_of(path / "manifest.json"), ::testing::StartsWith("{\"version\":1,"));
  EXPECT_EQ(SmallCheckpoint(5).difference(path), "");
  const fs::path file = path / "model.safetensors";
  std::string bytes = content_of(file);
  bytes[SafetensorsReader(file).entry("fc.weight").offset_bytes] ^= 1;
  std::ofstream(file, std::ios::binary) << bytes;
  EXPECT_THAT(complaint(path), HasSubstr("tensor 'fc.weight' is damaged"));
  std::ofstream(path / "config.toml") << "step = 6\n";
  EXPECT_THAT(complaint(path), HasSubstr("config.toml: is damaged"));
}

TEST_F(Checkpoint, EqualContentGivesEqualBytes) {
  const std::string digest = checkpoint_digest(save(5));
  fs::remove_all(folder_);
  EXPECT_EQ(checkpoint_digest(save(5)), digest);
  EXPECT_NE(checkpoint_digest(save(6)), digest);
}

TEST_F(Checkpoint, SameStepIsReplaced) {
  save(3);
  const SmallCheckpoint small(3);
  CheckpointContent content = small.content();
  content.texts.clear();
  content.texts["classes.json"] = "[]";
  const fs::path path = write_checkpoint(folder_, content);
  EXPECT_THAT(names(), ElementsAre("step_00000003"));
  EXPECT_EQ(complaint(path), "");
  EXPECT_EQ(content_of(path / "classes.json"), "[]");
  EXPECT_FALSE(fs::exists(path / "config.toml"));
}

TEST_F(Checkpoint, StaleTemporaryOfTheSameStepDoesNotMatter) {
  fs::create_directories(folder_ / ".step_00000003.tmp" / "deeper");
  std::ofstream(folder_ / ".step_00000003.tmp" / "stale.txt") << "stale";
  const fs::path path = save(3);
  EXPECT_EQ(SmallCheckpoint(3).difference(path), "");
  EXPECT_FALSE(fs::exists(path / "stale.txt"));
  EXPECT_THAT(names(), ElementsAre("step_00000003"));
}

TEST_F(Checkpoint, FailedSaveChangesNothing) {
  save(3);
  const SmallCheckpoint small(4);
  CheckpointContent content = small.content();
  content.model.push_back(content.model.front());  // the name is taken
  EXPECT_THROW(write_checkpoint(folder_, content), DataError);
  content = small.content();
  content.texts[std::string(300, 'n')] = "longer than names may be";
  try {
    write_checkpoint(folder_, content);
    ADD_FAILURE();
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("nnn"), HasSubstr("File name too long")));
  }
  EXPECT_THAT(names(), ElementsAre("step_00000003"));
  EXPECT_EQ(SmallCheckpoint(3).difference(folder_ / "step_00000003"), "");
}

TEST_F(Checkpoint, FolderThatCannotBeIsNamed) {
  std::ofstream(root_ / "run") << "a file";
  const auto expect_named = [&](auto action) {
    try {
      action();
      ADD_FAILURE();
    } catch (const EnvironmentError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("run"), HasSubstr("Not a directory")));
    }
  };
  std::vector<std::string> skipped_checkpoints;
  expect_named([&] { save(1); });
  expect_named([&] { newest_checkpoint(folder_, skipped_checkpoints); });
  expect_named([&] { remove_temporaries(folder_); });
}

TEST_F(Checkpoint, NewestByNumber) {
  std::vector<std::string> skipped_checkpoints;
  EXPECT_FALSE(newest_checkpoint(folder_, skipped_checkpoints));
  for (std::int64_t step : {9, 100'000'000, 99'999'999}) save(step);
  for (const char* other : {"step_5",
                            "step_000000000900000000",
                            "step_99999999999999999999",
                            "xstep_00000001",
                            "step_0000000a",
                            ".step_00000009.tmp"})
    fs::create_directory(folder_ / other);
  const auto found = newest_checkpoint(folder_, skipped_checkpoints);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, folder_ / "step_100000000");
  EXPECT_EQ(found->state.step, 100'000'000);
  EXPECT_THAT(skipped_checkpoints, IsEmpty());
}

TEST_F(Checkpoint, DamagedOnesArePassedOverWithTheReason) {
  for (std::int64_t step : {1, 2, 3, 4, 6}) save(step);
  fs::rename(folder_ / "step_00000006", folder_ / "step_00000007");
  fs::create_directory(folder_ / "step_00000006");
  std::ofstream(folder_ / "step_00000005") << "a file";
  fs::resize_file(folder_ / "step_00000004" / "model.safetensors", 10);
  fs::remove(folder_ / "step_00000003" / "optimizer.safetensors");
  std::vector<std::string> skipped_checkpoints;
  const auto found = newest_checkpoint(folder_, skipped_checkpoints);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->state.step, 2);
  EXPECT_THAT(skipped_checkpoints,
              ElementsAre("step_00000007: holds step 6",
                          "step_00000006: is not a checkpoint: it holds no manifest.json",
                          "step_00000005: is not a checkpoint: it is not a folder",
                          HasSubstr("step_00000004: model.safetensors: has 10 bytes"),
                          "step_00000003: optimizer.safetensors: is missing"));
}

TEST_F(Checkpoint, UnreadableFolder) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads every folder";
  save(1);
  fs::permissions(folder_, fs::perms::none);
  std::vector<std::string> skipped_checkpoints;
  EXPECT_THROW(newest_checkpoint(folder_, skipped_checkpoints), EnvironmentError);
  fs::permissions(folder_, fs::perms::owner_all);
}

TEST_F(Checkpoint, RetentionKeepsNewestAndBest) {
  for (std::int64_t step = 1; step <= 6; ++step) save(step);
  fs::create_directory(folder_ / "step_00000009");  // damaged, of a run that went back
  EXPECT_THAT(remove_old_checkpoints(folder_, 7, 1, -1), IsEmpty());  // 7 is not there
  EXPECT_THAT(remove_old_checkpoints(folder_, 9, 1, -1), IsEmpty());  // 9 is none
  EXPECT_EQ(names().size(), 7u);
  EXPECT_THAT(remove_old_checkpoints(folder_, 6, 3, 2, 3), IsEmpty());
  EXPECT_TRUE(fs::exists(folder_ / "step_00000003"));
  EXPECT_THAT(remove_old_checkpoints(folder_, 6, 3, 2), IsEmpty());
  EXPECT_THAT(
      names(),
      ElementsAre(
          "step_00000002", "step_00000004", "step_00000005", "step_00000006", "step_00000009"));
  EXPECT_THAT(remove_old_checkpoints(folder_, 6, 0, -1), IsEmpty());  // the newest stays
  EXPECT_THAT(names(), ElementsAre("step_00000006", "step_00000009"));
  EXPECT_EQ(SmallCheckpoint(6).difference(folder_ / "step_00000006"), "");
}

TEST_F(Checkpoint, TemporariesAreRemovedAndNothingElse) {
  save(1);
  save(2);
  fs::create_directories(folder_ / ".step_00000003.tmp" / "below");
  fs::create_directory(folder_ / ".step_00000001.removed.tmp");
  fs::create_directory(folder_ / ".step_00000007.00ff00ff00ff00ff-12.tmp");
  fs::copy(folder_ / "step_00000001", folder_ / ".step_00000001.old");
  fs::rename(folder_ / "step_00000002", folder_ / ".step_00000002.old");
  std::ofstream(folder_ / ".hidden") << "mine";
  std::ofstream(folder_ / "notes.tmp") << "mine";
  remove_temporaries(folder_);
  EXPECT_THAT(names(), ElementsAre(".hidden", "notes.tmp", "step_00000001", "step_00000002"));
  EXPECT_EQ(SmallCheckpoint(2).difference(folder_ / "step_00000002"), "");
  remove_temporaries(root_ / "nowhere");
}

TEST_F(Checkpoint, ModelLoadsAsWeights) {
  const fs::path path = save(8);
  Parameter conv = *SmallCheckpoint(8).content().model.front().parameter;
  const std::vector<NamedTensor> read = load_weights(
      (path / "model.safetensors").string(), {conv}, NamePatterns("`init_skip`", {"^fc", "^head"}));
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].values, SmallCheckpoint(8).stored(0));
}

}  // namespace
}  // namespace lockstep::io
