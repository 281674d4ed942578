// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include "lockstep/builder.h"
#include "lockstep/zoo.h"
#include "parallel/simulation/crash_points.h"
#include "parallel/simulation/simulation.h"

/// A small training on simulated ranks.
namespace lockstep::simulation {

inline SimulationRequest small_training(int ranks, int ranks_per_host = 8) {
  SimulationRequest request;
  Network network = *named_network("nvlink");
  network.ranks_per_host = ranks_per_host;
  request.cluster = {.ranks = ranks, .network = network};
  request.cluster.traces_sums = true;
  request.model = nn::make_model({.name = "mlp", .outputs = 10});
  request.loss = softmax_cross_entropy;
  request.samples.input = {{28, 28, 1}, DType::u8};
  request.samples.target = {{}, DType::i32};
  request.samples.classes = 10;
  request.samples.scale = {1.0f / 255};
  request.samples.shift = {0};
  request.dataset_size = 4096;
  request.options.global_batch = 1024;
  request.options.micro_batch = 8;
  request.options.shards = 128;
  request.options.steps = 4;
  request.options.log_every = 0;
  return request;
}

/// For checkpoints: in memory where that is possible, as the power is not cut.
inline std::filesystem::path scratch_in_memory(const std::string& name) {
  const std::filesystem::path memory = "/dev/shm";
  const bool usable = ::access(memory.c_str(), W_OK | X_OK) == 0;
  return (usable ? memory : std::filesystem::path(::testing::TempDir())) /
         (name + "_" + std::to_string(::getpid()));
}

/// Before anything asks for it: all ranks write a checkpoint, however small it is.
inline const bool all_ranks_write = ::setenv("LOCKSTEP_CHECKPOINT_PARTS", "small", 1) == 0;

/// Three ranks that save twice in an epoch of four steps, all of them; two resume.
inline CrashPointRequest small_saves(const std::filesystem::path& folder) {
  CrashPointRequest request{.run = small_training(3, 3), .resume_ranks = 2, .folder = folder};
  request.run.cluster.traces_sums = false;
  request.run.model = nn::make_model({.name = "mlp", .outputs = 10, .hidden = {8, 8}});
  request.run.dataset_size = 96;
  request.run.options.global_batch = 24;
  request.run.options.shards = 3;
  request.run.options.checkpoint.every_steps = 2;
  request.run.options.checkpoint.keep = 1;
  return request;
}

/// What went wrong on a rank; empty: nothing.
inline std::string message_of(const RankEnd& end) {
  if (!end.error) return end.waits_for.empty() ? "" : "waits for " + end.waits_for;
  try {
    std::rethrow_exception(end.error);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown exception";
  }
}

inline void expect_good(const SimulationResult& result) {
  for (std::size_t r = 0; r < result.ends.size(); ++r)
    ASSERT_EQ(message_of(result.ends[r]), "") << "rank " << r;
  EXPECT_EQ(result.wrong_sum_count, 0);
  for (const std::string& wrong : result.wrong_sums) ADD_FAILURE() << wrong;
}

/// All messages of ranks that did not end well.
inline std::string messages_of(const SimulationResult& result) {
  std::string all;
  for (std::size_t r = 0; r < result.ends.size(); ++r)
    if (const std::string message = message_of(result.ends[r]); !message.empty())
      all += "rank " + std::to_string(r) + ": " + message + "\n";
  return all;
}

}  // namespace lockstep::simulation
