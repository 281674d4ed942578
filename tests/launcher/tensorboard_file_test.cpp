// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/tensorboard_file.h"

#include <bit>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <sys/resource.h>
#include <vector>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// An event as a reader sees it, decoded by hand from protobuf's wire format.
struct ReadEvent {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string file_version;
  bool starts = false;  // a SessionLog with status START
  std::map<std::string, float> scalars;
};

std::uint64_t little_endian(std::string_view bytes, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i)
    value |= std::uint64_t(static_cast<unsigned char>(bytes.at(i))) << (8 * i);
  return value;
}

/// Bit by bit, as RFC 3720 has it.
std::uint32_t slow_crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
  }
  return crc ^ 0xffffffff;
}

std::uint32_t masked(std::string_view bytes) {
  return std::rotr(slow_crc32c(bytes), 15) + 0xa282ead8;
}

/// One field of a message: its number, and its value as a number or as bytes.
struct Field {
  std::uint64_t number = 0, value = 0;
  std::string_view bytes = {};
};

std::uint64_t take_varint(std::string_view& from) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(from.at(0));
    from.remove_prefix(1);
    value |= std::uint64_t(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

std::vector<Field> fields(std::string_view message) {
  std::vector<Field> found;
  while (!message.empty()) {
    const std::uint64_t key = take_varint(message);
    Field field;
    field.number = key >> 3;
    std::size_t size = 0;
    switch (key & 7) {
      case 0:
        field.value = take_varint(message);
        break;
      case 1:
        field.value = little_endian(message, size = 8);
        break;
      case 5:
        field.value = little_endian(message, size = 4);
        break;
      case 2:
        size = take_varint(message);
        field.bytes = message.substr(0, size);
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return found;
    }
    message.remove_prefix(size);
    found.push_back(field);
  }
  return found;
}

ReadEvent decode(std::string_view message) {
  ReadEvent event;
  for (const Field& field : fields(message)) {
    if (field.number == 1) event.wall_time = std::bit_cast<double>(field.value);
    if (field.number == 2) event.step = std::int64_t(field.value);
    if (field.number == 3) event.file_version = field.bytes;
    if (field.number == 7) event.starts = fields(field.bytes).at(0).value == 1;
    if (field.number != 5) continue;
    for (const Field& value : fields(field.bytes)) {
      std::string tag;
      for (const Field& part : fields(value.bytes)) {
        if (part.number == 1) tag = part.bytes;
        if (part.number == 2) event.scalars[tag] = std::bit_cast<float>(std::uint32_t(part.value));
      }
    }
  }
  return event;
}

std::vector<ReadEvent> read_events(const fs::path& file) {
  std::ifstream input(file, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(input), {}};
  std::vector<ReadEvent> events;
  for (std::string_view rest = all; !rest.empty();) {
    const std::uint64_t size = little_endian(rest, 8);
    EXPECT_EQ(little_endian(rest.substr(8), 4), masked(rest.substr(0, 8)));
    const std::string_view record = rest.substr(12, size);
    EXPECT_EQ(record.size(), size);
    EXPECT_EQ(little_endian(rest.substr(12 + size), 4), masked(record));
    events.push_back(decode(record));
    rest.remove_prefix(12 + size + 4);
  }
  return events;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

StepRecord logged(std::int64_t step) {
  StepRecord record;
  record.step = step;
  return record;
}

class TensorboardFileTest : public ::testing::Test {
 protected:
  TensorboardFileTest() { fs::remove_all(folder_); }
  ~TensorboardFileTest() override { fs::remove_all(folder_); }
  fs::path folder_ = fs::path(::testing::TempDir()) / ("lockstep-tensorboard-" + test_name());

 private:
  static std::string test_name() {
    return ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }
};

TEST_F(TensorboardFileTest, ScalarsOfStepsAndEvaluations) {
  TensorboardFile file(folder_);
  file.on_start(nullptr);
  StepRecord step;
  step.step = 300;
  step.loss = 0.25;
  step.accuracy = -1;  // not computed
  step.grad_norm = 3.5;
  step.lr = 0.125;
  step.samples_per_s = 1e6;
  step.step_ms[TimePart::forward] = 1.5;
  step.device_ms.emplace()[DevicePart::idle] = 0.5;
  file.on_step(step);
  EvaluationRecord evaluation;
  evaluation.step = 300;
  evaluation.val_loss = 0.5;
  evaluation.val_accuracy = 0.75;
  file.on_evaluation(evaluation);
  EXPECT_EQ(file.finish(), "");

  const std::vector<fs::path> files = files_in(folder_);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_THAT(files[0].filename(), HasSubstr("events.out.tfevents."));
  const std::vector<ReadEvent> events = read_events(files[0]);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_NEAR(events[0].wall_time, double(std::time(nullptr)), 60);
  EXPECT_EQ(events[2].step, 300);
  EXPECT_EQ(events[2].scalars.at("train/loss"), 0.25f);
  EXPECT_EQ(events[2].scalars.at("train/lr"), 0.125f);
  EXPECT_EQ(events[2].scalars.at("train/grad_norm"), 3.5f);
  EXPECT_EQ(events[2].scalars.at("speed/samples_per_s"), 1e6f);
  EXPECT_EQ(events[2].scalars.at("ledger/forward_ms"), 1.5f);
  EXPECT_EQ(events[2].scalars.at("ledger/data_ms"), 0.0f) << "zeros are written as well";
  EXPECT_EQ(events[2].scalars.at("device/idle_ms"), 0.5f);
  EXPECT_EQ(events[2].scalars.count("train/accuracy"), 0u);
  EXPECT_EQ(events[3].scalars.at("val/loss"), 0.5f);
  EXPECT_EQ(events[3].scalars.at("val/accuracy"), 0.75f);
}

TEST_F(TensorboardFileTest, ARunThatGoesOnDropsWhatItDoesAgain) {
  for (int process = 0; process < 3; ++process) {
    TensorboardFile file(folder_);
    ResumeRecord resumed;
    resumed.step = 20;
    file.on_start(process == 0 ? nullptr : &resumed);
    file.on_step(logged(30));
    EXPECT_EQ(file.finish(), "");
  }
  // Within one second, and yet in the order in which they were written.
  const std::vector<fs::path> files = files_in(folder_);
  ASSERT_EQ(files.size(), 3u);
  EXPECT_FALSE(read_events(files[0]).at(1).starts);
  for (int process : {1, 2}) {
    const std::vector<ReadEvent> events = read_events(files[std::size_t(process)]);
    ASSERT_EQ(events.size(), 4u);
    EXPECT_TRUE(events[1].starts);
    EXPECT_EQ(events[1].step, 21);
    EXPECT_EQ(events[3].step, 30);
  }
}

TEST_F(TensorboardFileTest, ARollbackDropsTheStepsItUndoes) {
  TensorboardFile file(folder_);
  file.on_start(nullptr);
  file.on_step(logged(40));
  RollbackRecord rollback;
  rollback.step = 10;
  file.on_rollback(rollback);
  EXPECT_EQ(file.finish(), "");
  const std::vector<ReadEvent> events = read_events(files_in(folder_).at(0));
  ASSERT_EQ(events.size(), 4u);
  EXPECT_TRUE(events[3].starts);
  EXPECT_EQ(events[3].step, 11);
}

TEST_F(TensorboardFileTest, WhatWaitsIsWrittenWhereTheRunEndsInAnError) {
  {
    TensorboardFile file(folder_);
    file.on_start(nullptr);
    for (int step = 1; step <= 5; ++step) file.on_step(logged(step));
  }
  EXPECT_EQ(read_events(files_in(folder_).at(0)).size(), 7u);
}

TEST_F(TensorboardFileTest, NoSpaceIsSaidAtTheEndAndStopsNothing) {
  TensorboardFile file(folder_);
  file.on_start(nullptr);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit full{.rlim_cur = 100, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  for (int step = 1; step <= 5; ++step) file.on_step(logged(step));
  const std::string error = file.finish();
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_THAT(error, HasSubstr("events.out.tfevents."));
  EXPECT_THAT(error, HasSubstr(std::strerror(EFBIG)));
}

TEST_F(TensorboardFileTest, AFileInTheFoldersPlaceIsKeptAndNamed) {
  std::ofstream(folder_) << "mine";
  TensorboardFile file(folder_);
  file.on_start(nullptr);
  file.on_step(logged(1));
  EXPECT_THAT(file.finish(), HasSubstr("Not a directory"));
  remove_tensorboard_files(folder_);
  EXPECT_TRUE(fs::exists(folder_));
}

TEST_F(TensorboardFileTest, OnlyItsOwnFilesAreRemoved) {
  TensorboardFile file(folder_);
  file.on_start(nullptr);
  file.finish();
  std::ofstream(folder_ / "notes.txt") << "mine";
  remove_tensorboard_files(folder_);
  EXPECT_THAT(files_in(folder_), ElementsAre(folder_ / "notes.txt"));
  fs::remove(folder_ / "notes.txt");
  remove_tensorboard_files(folder_);
  EXPECT_FALSE(fs::exists(folder_));
}

}  // namespace
}  // namespace lockstep
