// SPDX-License-Identifier: Apache-2.0
#include "core/exec/packed_copies.h"

#include <gtest/gtest.h>

#include "core/exec/dry_backend.h"

namespace lockstep {
namespace {

/// Counts how often its copy is made.
class Packer final : public Kernel {
 public:
  void bind(const KernelBuffers&) override {}
  void run(const RunState&) override {}
  void pack(int) override { ++packs; }
  int packs = 0;
};

/// Two parameters of 10 and 100 elements.
FlatSpace two_parameters() {
  FlatSpace space;
  space.segments = {{.parameter = 1, .offset = 0, .elems = 100},
                    {.parameter = 0, .offset = 128, .elems = 10}};
  space.segment_of_parameter = {1, 0};
  space.elems = 192;
  return space;
}

TEST(PackedCopies, RoundedOnesLieAtTheParametersOffsetsInOneArray) {
  const FlatSpace space = two_parameters();
  DryBackend backend;
  PackedCopies packed(space);
  EXPECT_EQ(packed.rounded(), nullptr);
  const int first = packed.request(backend, 0, {.input = 0, .format = kRoundedFormat, .bytes = 20});
  const int second =
      packed.request(backend, 1, {.input = 0, .format = kRoundedFormat, .bytes = 200});
  EXPECT_EQ(packed.data(first), packed.rounded() + 128);
  EXPECT_EQ(packed.data(second), packed.rounded());
  EXPECT_EQ(packed.bytes(), rounded_bytes(space));
  EXPECT_EQ(packed.bytes_of(0), 20u);
  EXPECT_EQ(packed.bytes_of(1), 200u);
}

TEST(PackedCopies, UpdatesLeaveOnlyOtherFormatsStale) {
  const FlatSpace space = two_parameters();
  DryBackend backend;
  PackedCopies packed(space);
  const std::vector<int> both = {
      packed.request(backend, 0, {.input = 0, .format = kRoundedFormat, .bytes = 20}),
      packed.request(backend, 0, {.input = 0, .format = "blocked", .bytes = 64})};
  Packer rounds, blocks;
  packed.offer_packer(both[0], rounds, 0);
  packed.offer_packer(both[1], blocks, 0);
  packed.refresh(both);
  packed.invalidate_but_rounded();
  EXPECT_EQ(packed.stale(both), 1);
  packed.refresh(both);
  EXPECT_EQ(rounds.packs, 1);
  EXPECT_EQ(blocks.packs, 2);
  packed.invalidate();
  packed.refresh(both);
  EXPECT_EQ(rounds.packs, 2);
}

TEST(PackedCopies, ACopyThatUpdatesDoNotKnowOfIsStaleAfterOne) {
  const FlatSpace space = two_parameters();
  DryBackend backend;
  PackedCopies packed(space);
  packed.fix_rounded();
  // What updates were told to write: nothing.
  ASSERT_EQ(packed.rounded(), nullptr);
  const int late = packed.request(backend, 0, {.input = 0, .format = kRoundedFormat, .bytes = 20});
  Packer rounds;
  packed.offer_packer(late, rounds, 0);
  packed.refresh({late});
  packed.invalidate_but_rounded();
  packed.refresh({late});
  EXPECT_EQ(rounds.packs, 2);
}

TEST(PackedCopies, DropsTheLastOnes) {
  const FlatSpace space = two_parameters();
  DryBackend backend;
  PackedCopies packed(space);
  packed.request(backend, 0, {.input = 0, .format = kRoundedFormat, .bytes = 20});
  packed.fix_rounded();
  const int count = packed.count();
  const std::size_t bytes = packed.bytes();
  const std::vector<std::pair<int, PackedCopy>> late = {
      {0, {.input = 0, .format = kRoundedFormat, .bytes = 20}},
      {1, {.input = 0, .format = kRoundedFormat, .bytes = 200}},
      {1, {.input = 0, .format = "blocked", .bytes = 256}},
      {1, {.input = 0, .format = "blocked", .bytes = 256}}};
  EXPECT_EQ(packed.bytes_to_add(late), 256u);
  for (const auto& [parameter, copy] : late) packed.request(backend, parameter, copy);
  EXPECT_EQ(packed.bytes(), bytes + 256);
  EXPECT_EQ(packed.bytes_to_add(late), 0u);
  packed.drop_from(count);
  EXPECT_EQ(packed.bytes(), bytes);
  EXPECT_EQ(packed.bytes_to_add(late), 256u);
  EXPECT_EQ(packed.request(backend, 1, late[2].second), count);
}

TEST(PackedCopies, EachHasMemoryOfItsOwnWhereThereIsNoFlatSpace) {
  DryBackend backend;
  PackedCopies packed;
  const int copy = packed.request(backend, 0, {.input = 0, .format = kRoundedFormat, .bytes = 20});
  packed.refresh({});
  EXPECT_EQ(packed.rounded(), nullptr);
  EXPECT_EQ(packed.bytes_of(0), 20u);
  Packer rounds;
  packed.offer_packer(copy, rounds, 0);
  packed.refresh({copy});
  packed.invalidate_but_rounded();
  EXPECT_TRUE(packed.has_stale({copy}));
}

}  // namespace
}  // namespace lockstep
