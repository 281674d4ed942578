// SPDX-License-Identifier: Apache-2.0
// What a rank receives while all ranks agree that nothing is wrong, on as many ranks as one can
// start and on 10,000.
#include <bit>
#include <fmt/format.h>
#include <functional>
#include <gtest/gtest.h>

#include "core/exec/agreement.h"
#include "parallel/batch/fingerprint.h"
#include "parallel/comm/collective_strings.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/comm/shared_folder.h"
#include "parallel/comm/stop_agreement.h"
#include "parallel/memory/memory_headroom.h"
#include "parallel/monitor/rank_placement.h"
#include "parallel/monitor/work_message.h"
#include "parallel/replica/algorithm_broadcast.h"
#include "parallel/replica/device_sharing.h"
#include "parallel/session/device_choice.h"
#include "parallel/session/job_network.h"
#include "tests/support/null_backend.h"

namespace lockstep {
namespace {

/// The last of `ranks` that all do as it does, and what it receives. A reduction takes log2 of the
/// ranks rounds, in each of which it receives the values.
class LikeRanks final : public SelfCommunicator {
 public:
  explicit LikeRanks(int ranks, std::size_t* received) : ranks_(ranks), received_(received) {}

  int rank() const override { return ranks_ - 1; }
  int size() const override { return ranks_; }
  void broadcast(void*, std::size_t bytes, int) override { *received_ += bytes; }
  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    all_gather_v(send, recv, std::vector<std::size_t>(std::size_t(ranks_), bytes));
  }
  void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) override {
    auto* to = static_cast<std::byte*>(recv);
    for (const std::size_t size : bytes) {
      if (size > 0) std::memcpy(to, send, size);
      to += size;
      *received_ += size;
    }
  }
  void all_reduce_max(std::span<std::uint64_t> values) override {
    *received_ += rounds() * values.size_bytes();
  }
  CommRequestPtr start_all_reduce(float* data, std::int64_t elems) override {
    *received_ += rounds() * std::size_t(elems) * sizeof(float);
    return SelfCommunicator::start_all_reduce(data, elems);
  }
  std::unique_ptr<Communicator> split(int, int) override {
    return std::make_unique<LikeRanks>(ranks_, received_);
  }

 private:
  std::size_t rounds() const { return std::bit_width(unsigned(ranks_ - 1)); }

  int ranks_;
  std::size_t* received_;
};

class LikeContext final : public RankContext {
 public:
  LikeContext(int ranks, std::size_t* received) : communicator_(ranks, received) {}
  Backend& backend() override { return backend_; }
  Communicator& communicator() override { return communicator_; }

 private:
  LikeRanks communicator_;
  testing::NullBackend backend_;
};

std::size_t received(int ranks, const std::function<void(RankContext&)>& agree) {
  std::size_t bytes = 0;
  LikeContext context(ranks, &bytes);
  agree(context);
  return bytes;
}

/// Values of 8 bytes, or texts where `fixed` bytes are sent by one rank.
void expect_reduction(const std::function<void(RankContext&)>& agree,
                      std::size_t values,
                      std::size_t fixed = 0) {
  EXPECT_LE(received(2, agree), values * 8 + fixed);
  EXPECT_LE(received(1024, agree), 10 * values * 8 + fixed);
  EXPECT_LE(received(10000, agree), 14 * values * 8 + fixed);
}

const Fingerprint kFingerprint{{"program", std::string(4096, 'x')}, {"lr", "0.1"}};

TEST(AgreementCost, OfWhatIsEqualDoesNotGrowWithTheRanks) {
  expect_reduction([](RankContext& c) { compare_fingerprints(c.communicator(), kFingerprint); }, 2);
  expect_reduction([](RankContext& c) { all_ranks(c.communicator(), true); }, 1);
  expect_reduction([](RankContext& c) { compile_with_broadcast_algorithms(c, [] {}); },
                   1,
                   sizeof(std::uint64_t));
  expect_reduction([](RankContext& c) { gather_network(c.communicator()); }, 2);
  expect_reduction([](RankContext& c) { gather_rank_placements(c.communicator()); }, 4);
  const DeviceCard cpu;
  expect_reduction(
      [&](RankContext& c) {
        check_devices(c.communicator(), cpu);
        gpu_sharing(c.communicator(), cpu);
      },
      4);
  expect_reduction(
      [](RankContext& c) {
        least_headroom(c.communicator(), {.bytes = 5, .rank = 0, .host = "node"});
      },
      2,
      128);
}

/// Where a rank has to find those that share its device, records are small.
TEST(AgreementCost, OfSharedDevicesIsSomeBytesARank) {
  const auto of_each = [](const std::function<void(RankContext&)>& agree) {
    return double(received(10000, agree) - received(1000, agree)) / 9000;
  };
  DeviceCard gpu;
  gpu.cuda = 1;
  set_text(gpu.gpu, "GPU-17");
  EXPECT_NEAR(of_each([&](RankContext& c) { gpu_sharing(c.communicator(), gpu); }), 16, 1);
  EXPECT_NEAR(of_each([&](RankContext& c) { ranks_before(c.communicator(), gpu); }), 8, 1);
  EXPECT_NEAR(of_each([](RankContext& c) { memory_headroom(c); }), 32, 1);
  EXPECT_NEAR(of_each([](RankContext& c) { free_part(c.communicator(), c.backend()); }), 0, 1)
      << "where no device reports what is free";
}

/// Steps are as long as they like: what a second costs follows from the time between messages.
TEST(AgreementCost, OfTheStopAgreementsMessageIsAtMostThatOf1024Ranks) {
  const auto bytes = [](int ranks) {
    return received(ranks, [](RankContext& c) {
      class Work final : public MessagePart {
       public:
        explicit Work(RankContext& c) : message_(c.rank(), c.size()) {}
        int floats() const override { return message_.floats(); }
        void write(float* own) override { message_.write(own, {}); }
        void read(const float* sums) override { (void)message_.read(sums); }

       private:
        WorkMessage message_;
      } work(c);
      StopAgreement agreement(c.communicator(), [] { return false; }, {&work});
      agreement.poll(true);
    });
  };
  EXPECT_EQ(bytes(2), 2 * 4 + 2 * 16);
  EXPECT_EQ(bytes(1024), 10 * (2 * 4 + 1024 * 16));
  EXPECT_EQ(bytes(10000), 14 * (2 * 4 + 1024 * 16));
}

}  // namespace
}  // namespace lockstep
