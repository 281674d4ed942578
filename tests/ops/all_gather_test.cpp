// SPDX-License-Identifier: Apache-2.0
#include "core/ops/all_gather.h"

#include "core/exec/communicator.h"
#include "kernels/cpu/kernel_list.h"
#include "tests/ops/op_case.h"
#include "tests/reference/elementwise.h"

namespace lockstep::test {
namespace {

/// Three ranks of which only this one, rank 1, exists: the others contribute its bytes bit by bit
/// inverted (rank 0) and unchanged (rank 2).
class ThreeRanks final : public Communicator {
 public:
  int rank() const override { return 1; }
  int size() const override { return 3; }
  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    const std::vector<std::byte> own = tensor_bytes(send, bytes);
    std::vector<std::byte> all;
    for (const std::byte byte : own) all.push_back(~byte);
    for (int copy = 0; copy < 2; ++copy) all.insert(all.end(), own.begin(), own.end());
    set_tensor_bytes(recv, all);
  }

  void barrier() override { unused(); }
  void broadcast(void*, std::size_t, int) override { unused(); }
  void all_gather_v(const void*, void*, std::span<const std::size_t>) override { unused(); }
  void all_reduce_max(std::span<std::uint64_t>) override { unused(); }
  CommRequestPtr start_all_to_all(const float*,
                                  std::span<const CommBlock>,
                                  float*,
                                  std::span<const CommBlock>) override {
    return unused(), nullptr;
  }
  CommRequestPtr start_all_gather(float*, std::span<const CommBlock>) override {
    return unused(), nullptr;
  }
  CommRequestPtr start_all_reduce(float*, std::int64_t) override { return unused(), nullptr; }
  std::unique_ptr<Communicator> split(int, int) override { return unused(), nullptr; }
  void abort(int) override { unused(); }

 private:
  static void unused() { ADD_FAILURE() << "all_gather called another collective"; }
};

std::vector<OpCase> all_gather_cases() {
  static ThreeRanks group;
  std::vector<OpCase> cases;
  for (std::int64_t channels : {1, 31, 33}) {
    cases.push_back({fmt::format("alone, {} channels", channels),
                     std::make_shared<ops::AllGather>(1),
                     {random_f32({1, 1, 3, channels}, 1)},
                     {{.c = 0}}});
    cases.push_back({fmt::format("three ranks, {} channels", channels),
                     std::make_shared<ops::AllGather>(3),
                     {random_f32({1, 1, 3, channels}, 2)},
                     {{.c = 0}},
                     {},
                     {.group = &group}});
  }
  return cases;
}

LOCKSTEP_OP_TEST(AllGather, all_gather, all_gather_reference, all_gather_cases)

TEST(AllGather, WithoutItsRanksIsAnError) {
  const OpCase lonely{"x", std::make_shared<ops::AllGather>(2), {random_f32({1, 1, 3, 4}, 1)}};
  EXPECT_THROW(run_kernel(lonely,
                          [](const KernelSpec& spec) {
                            return cpu::make_all_gather_kernel(op_cast<ops::AllGather>(spec.op),
                                                               spec);
                          }),
               InternalError);
}

}  // namespace
}  // namespace lockstep::test
