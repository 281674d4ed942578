// SPDX-License-Identifier: Apache-2.0
#include "parallel/simulation/simulation.h"

#include <cstdio>
#include <gtest/gtest.h>

#include "lockstep/builder.h"
#include "lockstep/zoo.h"

namespace lockstep::simulation {
namespace {

SimulationRequest small_request(int ranks, int ranks_per_host) {
  SimulationRequest request;
  Network network = *named_network("nvlink");
  network.ranks_per_host = ranks_per_host;
  request.cluster = {.ranks = ranks, .network = network};
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

std::string message_of(const RankEnd& end) {
  if (!end.error) return end.waits_for.empty() ? "" : "waits for " + end.waits_for;
  try {
    std::rethrow_exception(end.error);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "?";
  }
}

void expect_good(const SimulationResult& result) {
  for (std::size_t r = 0; r < result.ends.size(); ++r)
    ASSERT_EQ(message_of(result.ends[r]), "") << "rank " << r;
  EXPECT_EQ(result.wrong_sum_count, 0);
  for (const std::string& wrong : result.wrong_sums) ADD_FAILURE() << wrong;
}

TEST(Simulation, RunsWhatARunDoes) {
  for (const int ranks : {1, 2, 7, 8, 24, 64}) {
    SimulationRequest request = small_request(ranks, 8);
    request.cluster.traces_sums = true;
    const SimulationResult result = simulate(request);
    expect_good(result);
    EXPECT_EQ(result.checked_elems, 4 * ranks * result.trained_elems);
    EXPECT_EQ(result.loads.at(0), (std::map<int, std::int64_t>{{1, 4096}}));
    std::printf("%d ranks: %.2f s, %.1f MB, startup %.6f s, step %.6f s\n",
                ranks,
                result.wall_s,
                double(result.peak_bytes) / 1e6,
                result.startup_s,
                result.steps.back().end - result.steps.back().begin);
  }
}

}  // namespace
}  // namespace lockstep::simulation
