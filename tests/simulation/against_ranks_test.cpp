// SPDX-License-Identifier: Apache-2.0
// A simulated training against the same on real ranks, which MPI connects.
#include <algorithm>
#include <gmock/gmock.h>

#include "lockstep/data/sources.h"
#include "lockstep/trainer.h"
#include "tests/simulation/noting_communicator.h"
#include "tests/simulation/simulated_training.h"
#include "tests/support/mpi_world.h"
#include "tests/support/test_backend.h"

namespace lockstep::simulation {
namespace {

class NotedRank final : public RankContext {
 public:
  explicit NotedRank(std::vector<std::string>& notes)
      : communicator_(testing::mpi_world(), notes) {}
  Backend& backend() override { return *backend_; }
  Communicator& communicator() override { return communicator_; }

 private:
  std::unique_ptr<Backend> backend_ = testing::make_test_backend();
  NotingCommunicator communicator_;
};

/// Samples of the same kind, for ranks that compute.
class Zeros final : public data::Dataset {
 public:
  Zeros(data::SampleSpec spec, std::int64_t size) : spec_(std::move(spec)), size_(size) {}
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return size_; }
  void load(std::uint64_t, std::int64_t, std::byte* input, std::byte* target) const override {
    std::fill_n(input, spec_.input.bytes(), std::byte{});
    std::fill_n(target, spec_.target.bytes(), std::byte{});
  }
  std::string describe() const override { return "samples without content"; }
  std::uint64_t fingerprint() const override { return 1; }

 private:
  const data::SampleSpec spec_;
  const std::int64_t size_;
};

std::string communicator_of(const std::string& note) { return note.substr(0, note.find(':')); }

/// The collectives of each communicator in their order, but for the stop agreement's messages: how
/// often one leaves depends on the clock. So does which of two buckets on different communicators
/// goes on first.
std::vector<std::string> in_order_of_each(const std::vector<std::string>& notes) {
  std::vector<std::string> rest;
  for (const std::string& note : notes)
    if (note.find(": all-reduce ") == note.npos || note.find(": all-reduce of") != note.npos)
      rest.push_back(note);
  std::ranges::stable_sort(rest, {}, communicator_of);
  return rest;
}

void expect_same_collectives(Sharding sharding) {
  Communicator& world = testing::mpi_world();
  const int ranks = world.size();
  SimulationRequest request = small_training(ranks, ranks);
  request.cluster.device.gpu = false;
  request.cluster.traces_sums = false;
  request.options.sharding = sharding;
  request.options.steps = 6;
  request.model = nn::make_model({.name = "mlp", .outputs = 10, .hidden = {256, 256}});

  std::vector<std::string> real;
  {
    NotedRank rank(real);
    TrainOptions options = request.options;
    options.workers = 0;
    Trainer trainer(rank, request.model, request.loss, options);
    trainer.fit({.train = std::make_shared<Zeros>(request.samples, request.dataset_size),
                 .validation = nullptr});
  }
  std::vector<std::vector<std::string>> simulated{std::size_t(ranks)};
  request.wrap_communicator = [&](int rank, std::unique_ptr<Communicator> own) {
    return std::make_unique<NotingCommunicator>(std::move(own), simulated[std::size_t(rank)]);
  };
  expect_good(simulate(request));
  EXPECT_EQ(in_order_of_each(simulated[std::size_t(world.rank())]), in_order_of_each(real));
  EXPECT_GT(real.size(), 20u);
}

TEST(SimulatedAgainstReal, RanksCallTheSameCollectives) { expect_same_collectives(Sharding::none); }

TEST(SimulatedAgainstReal, WithAShardedOptimizerToo) {
  expect_same_collectives(Sharding::optimizer);
}

}  // namespace
}  // namespace lockstep::simulation
