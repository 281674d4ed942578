// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/communicator_checks.h"

#include <gmock/gmock.h>
#include <numeric>
#include <vector>

namespace lockstep::testing {
namespace {

using ::testing::Each;

// Small integers: sums are exact in any order.
float value(int from, int to, std::int64_t i) { return float(100 * from + 10 * to + i % 7); }

}  // namespace

void check_blocking(Communicator& comm) {
  const int rank = comm.rank(), size = comm.size();
  for (int root = 0; root < size; ++root) {
    std::vector<int> data(1000, rank);
    comm.broadcast(data.data(), data.size() * sizeof(int), root);
    wait_for_device();
    EXPECT_THAT(data, Each(root));
  }
  std::vector<int> ranks(std::size_t(size), -1), expected(std::size_t(size), 0);
  std::iota(expected.begin(), expected.end(), 0);
  comm.all_gather(&rank, ranks.data(), sizeof rank);
  wait_for_device();
  EXPECT_EQ(ranks, expected);
  for (int root = 0; root < size; ++root) {
    std::vector<int> gathered(rank == root ? std::size_t(size) : 0, -1);
    comm.gather(&rank, rank == root ? gathered.data() : nullptr, sizeof rank, root);
    EXPECT_EQ(gathered, rank == root ? expected : std::vector<int>());
  }

  // Rank r contributes r copies of r: rank 0 nothing.
  std::vector<std::size_t> bytes;
  std::vector<int> all;
  for (int r = 0; r < size; ++r) {
    bytes.push_back(std::size_t(r) * sizeof(int));
    all.insert(all.end(), std::size_t(r), r);
  }
  const std::vector<int> own(std::size_t(rank) + 1, rank);
  std::vector<int> received(all.size() + 1, -1);
  comm.all_gather_v(own.data(), received.data(), bytes);
  wait_for_device();
  EXPECT_EQ(received.back(), -1) << "written past the end";
  received.pop_back();
  EXPECT_EQ(received, all);

  std::vector<std::uint64_t> most{std::uint64_t(rank), ~std::uint64_t(rank), 7};
  comm.all_reduce_max(most);
  EXPECT_EQ(most, (std::vector<std::uint64_t>{std::uint64_t(size) - 1, ~std::uint64_t{0}, 7}));
  comm.barrier();
}

void check_all_to_all(Communicator& comm) {
  const int rank = comm.rank(), size = comm.size();
  std::vector<CommBlock> to, from;
  std::int64_t sent = 1, received = 1;
  for (int r = 0; r < size; ++r) {
    const std::int64_t elems = 3 + rank + r;
    to.push_back({sent, elems});
    from.push_back({received, elems});
    sent += elems + 2;
    received += elems + 1;
  }
  std::vector<float> send(std::size_t(sent), -2.0f), recv(std::size_t(received), -1.0f);
  for (int r = 0; r < size; ++r)
    for (std::int64_t i = 0; i < to[std::size_t(r)].elems; ++i)
      send[std::size_t(to[std::size_t(r)].offset + i)] = value(rank, r, i);
  std::vector<float> expected = recv;
  for (int r = 0; r < size; ++r)
    for (std::int64_t i = 0; i < from[std::size_t(r)].elems; ++i)
      expected[std::size_t(from[std::size_t(r)].offset + i)] = value(r, rank, i);
  comm.start_all_to_all(send.data(), to, recv.data(), from)->wait();
  wait_for_device();
  EXPECT_EQ(recv, expected);
}

void check_all_gather(Communicator& comm, std::int64_t unit) {
  const int rank = comm.rank(), size = comm.size();
  std::vector<CommBlock> blocks;
  std::vector<float> data, expected;
  for (int r = 0; r < size; ++r) {
    blocks.push_back({std::int64_t(data.size()), unit * r});
    for (std::int64_t i = 0; i < unit * r; ++i) {
      data.push_back(r == rank ? value(r, 0, i) : -1.0f);
      expected.push_back(value(r, 0, i));
    }
  }
  const auto request = comm.start_all_gather(data.data(), blocks);
  while (!request->test()) {
  }
  EXPECT_TRUE(request->test()) << "a complete request stays complete";
  request->wait();
  wait_for_device();
  EXPECT_EQ(data, expected);
}

void check_all_reduce(Communicator& comm, std::int64_t elems) {
  std::vector<float> data, expected;
  for (std::int64_t i = 0; i < elems; ++i) {
    data.push_back(value(comm.rank(), 1, i));
    float sum = 0;
    for (int r = 0; r < comm.size(); ++r) sum += value(r, 1, i);
    expected.push_back(sum);
  }
  comm.start_all_reduce(data.data(), elems)->wait();
  wait_for_device();
  EXPECT_EQ(data, expected);
}

// Rank 0 sends rank 1 something, and the others have neither something to send nor to receive.
void check_all_to_all_in_place(Communicator& comm) {
  const int rank = comm.rank(), size = comm.size();
  constexpr std::int64_t kElems = 7;
  std::vector<float> data(kElems + 2, float(rank));
  std::vector<CommBlock> to(std::size_t(size), CommBlock{}), from = to;
  std::vector<float> expected = data;
  if (size > 1 && rank == 0) to[1] = {1, kElems};
  if (rank == 1) {
    from[0] = {1, kElems};
    std::fill_n(expected.begin() + 1, kElems, 0.0f);
  }
  comm.start_all_to_all(data.data(), to, data.data(), from)->wait();
  wait_for_device();
  EXPECT_EQ(data, expected);
}

void check_everything(Communicator& comm) {
  check_blocking(comm);
  check_all_to_all(comm);
  check_all_to_all_in_place(comm);
  check_all_to_all(comm);
  check_all_gather(comm, 5);
  check_all_gather(comm, 50000);
  check_all_reduce(comm, 1);
  check_all_reduce(comm, 100000);
}

}  // namespace lockstep::testing
