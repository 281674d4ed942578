// SPDX-License-Identifier: Apache-2.0
// Mistakes that a simulation has to find.
#include <gmock/gmock.h>

#include "core/data/forwarding_dataset.h"
#include "core/step/done_request.h"
#include "parallel/simulation/crash_points.h"
#include "parallel/simulation/wrapped_communicator.h"
#include "tests/simulation/simulated_training.h"

/// Asked by LeakSanitizer. What other ranks may still write to is not freed while an exception is
/// in flight, by design, and mistakes end ranks by exceptions.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:lockstep::"; }

namespace lockstep::simulation {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

using Wrapped = WrappedCommunicator;

/// On one host, so that the gradients' exchange is this communicator's own.
SimulationRequest planted(
    std::function<std::unique_ptr<Communicator>(int, std::unique_ptr<Communicator>)> wrap) {
  SimulationRequest request = small_training(4, 4);
  request.wrap_communicator = std::move(wrap);
  return request;
}

TEST(PlantedMistake, ARankSkipsACollective) {
  struct Skips final : Wrapped {
    using Wrapped::Wrapped;
    CommRequestPtr start_all_to_all(const float* send,
                                    std::span<const CommBlock> to,
                                    float* recv,
                                    std::span<const CommBlock> from) override {
      if (++calls == 6) return DoneRequest::make();
      return Wrapped::start_all_to_all(send, to, recv, from);
    }
    int calls = 0;
  };
  const SimulationResult result = simulate(planted([](int rank, auto own) {
    return rank == 2 ? std::make_unique<Skips>(std::move(own)) : std::move(own);
  }));
  // Where it comes first, another rank says so.
  EXPECT_THAT(messages_of(result), ContainsRegex("rank 2 (calls|has called) all-gather of blocks"));
  EXPECT_THAT(messages_of(result), ContainsRegex("rank [013] (calls|has called) all-to-all"))
      << "the first collective that rank 2 does not call with the others";
}

/// On processors ranks poll: what never comes must not be asked for without end.
TEST(PlantedMistake, ARankThatPollsWaitsForEver) {
  struct Skips final : Wrapped {
    using Wrapped::Wrapped;
    std::unique_ptr<Communicator> split(int color, int key) override {
      struct Part final : Wrapped {
        using Wrapped::Wrapped;
        CommRequestPtr start_all_to_all(const float* send,
                                        std::span<const CommBlock> to,
                                        float* recv,
                                        std::span<const CommBlock> from) override {
          return ++calls == 3 ? DoneRequest::make()
                              : Wrapped::start_all_to_all(send, to, recv, from);
        }
        int calls = 0;
      };
      return std::make_unique<Part>(Wrapped::split(color, key));
    }
  };
  SimulationRequest request = planted([](int rank, auto own) {
    return rank == 1 ? std::make_unique<Skips>(std::move(own)) : std::move(own);
  });
  request.cluster.device.gpu = false;
  EXPECT_THAT(messages_of(simulate(request)), HasSubstr("rank 0: waits for all-to-all"));
}

TEST(PlantedMistake, ARankSendsAnotherSizeThanIsExpected) {
  struct Cuts final : Wrapped {
    using Wrapped::Wrapped;
    CommRequestPtr start_all_to_all(const float* send,
                                    std::span<const CommBlock> to,
                                    float* recv,
                                    std::span<const CommBlock> from) override {
      std::vector<CommBlock> cut(to.begin(), to.end());
      if (cut[0].elems > 0) --cut[0].elems;
      return Wrapped::start_all_to_all(send, cut, recv, from);
    }
  };
  const SimulationResult result = simulate(planted([](int rank, auto own) {
    return rank == 3 ? std::make_unique<Cuts>(std::move(own)) : std::move(own);
  }));
  EXPECT_THAT(messages_of(result), HasSubstr("what they send is not what they expect"));
}

/// Receives from two ranks in each other's place, as one that takes what comes first does.
TEST(PlantedMistake, SumsDependOnWhoComesFirst) {
  struct Swaps final : Wrapped {
    using Wrapped::Wrapped;
    CommRequestPtr start_all_to_all(const float* send,
                                    std::span<const CommBlock> to,
                                    float* recv,
                                    std::span<const CommBlock> from) override {
      std::vector<CommBlock> swapped(from.begin(), from.end());
      std::swap(swapped[2].offset, swapped[3].offset);
      return Wrapped::start_all_to_all(send, to, recv, swapped);
    }
  };
  // Three ranks of four nodes: ((0 + 1) + (2 + 3)) where rank 1 has the third operand first.
  const SimulationResult result = simulate(planted([](int rank, auto own) {
    return rank == 0 ? std::make_unique<Swaps>(std::move(own)) : std::move(own);
  }));
  // 2 + 3 is 3 + 2: not noticed there, but where the tree has them apart.
  SimulationRequest request = planted([](int rank, auto own) {
    return rank == 0 ? std::make_unique<Swaps>(std::move(own)) : std::move(own);
  });
  request.options.shards = 6;
  request.options.global_batch = 48;
  request.dataset_size = 192;
  const SimulationResult apart = simulate(request);
  EXPECT_GT(result.wrong_sum_count + apart.wrong_sum_count, 0);
  EXPECT_THAT(apart.wrong_sums, ::testing::Contains(HasSubstr("in another order")));
}

/// An order of samples that depends on the number of ranks, so that some come twice.
TEST(PlantedMistake, SamplesComeTwice) {
  struct Halves final : data::ForwardingDataset {
    explicit Halves(std::shared_ptr<const data::Dataset> samples)
        : ForwardingDataset(std::move(samples)) {}
    void load_copy(std::uint64_t epoch,
                   std::int64_t index,
                   int copy,
                   std::byte* input,
                   std::byte* target) const override {
      inner().load_copy(epoch, index / 2, copy, input, target);
    }
    std::shared_ptr<const Dataset> around(std::shared_ptr<const Dataset>) const override {
      return nullptr;
    }
  };
  SimulationRequest request = small_training(4, 4);
  request.wrap_samples = [](auto own) { return std::make_shared<Halves>(std::move(own)); };
  const SimulationResult result = simulate(request);
  EXPECT_EQ(result.loads.at(0), (std::map<int, std::int64_t>{{0, 2048}, {2, 2048}}));
}

TEST(PlantedMistake, RanksHaveOtherSettings) {
  SimulationRequest request = small_training(16, 8);
  request.change_options = [](int rank, TrainOptions& options) {
    if (rank >= 4 && rank != 9) options.seed = 7;
  };
  const SimulationResult result = simulate(request);
  EXPECT_THAT(message_of(result.ends[0]), HasSubstr("seed is 1 on ranks 0-3, 9"));
  EXPECT_EQ(message_of(result.ends[0]), message_of(result.ends[15])) << "all say the same";
}

/// Every rank tells every other one something wherever they agree on a number.
TEST(PlantedMistake, TrafficOfARankGrowsWithTheRanks) {
  struct Tells final : Wrapped {
    using Wrapped::Wrapped;
    void all_reduce_max(std::span<std::uint64_t> values) override {
      std::vector<char> all(std::size_t(size()) * own.size());
      Wrapped::all_gather(own.data(), all.data(), own.size());
      Wrapped::all_reduce_max(values);
    }
    std::vector<char> own = std::vector<char>(4096);
  };
  const auto bytes_of_rank = [](int ranks, bool tells) {
    SimulationRequest request = small_training(ranks, 8);
    request.cluster.traces_sums = false;
    if (tells)
      request.wrap_communicator = [](int, auto own) {
        return std::make_unique<Tells>(std::move(own));
      };
    return double(simulate(request).all.front().bytes);
  };
  const double grown = bytes_of_rank(64, true) - bytes_of_rank(64, false);
  EXPECT_LT(bytes_of_rank(64, false), 1.5 * bytes_of_rank(16, false));
  EXPECT_NEAR(grown / (bytes_of_rank(16, true) - bytes_of_rank(16, false)), 63.0 / 15, 0.5);
}

/// What a rank should have written lies in no file, and no rank was told.
TEST(PlantedMistake, ACheckpointLacksTheRangeOfARank) {
  CrashPointRequest request = small_saves(scratch_in_memory("checkpoint_with_a_hole"));
  request.loses_write = [](int rank, const std::filesystem::path& file) {
    return rank == 1 && file.filename() == "model.safetensors";
  };
  const CrashPoints points = try_crash_points(request);
  EXPECT_THAT(points.failures, ::testing::Contains(HasSubstr("model.safetensors")));
}

}  // namespace
}  // namespace lockstep::simulation
