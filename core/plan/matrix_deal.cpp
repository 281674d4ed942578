// SPDX-License-Identifier: Apache-2.0
#include "core/plan/matrix_deal.h"

#include <algorithm>
#include <numeric>

#include "core/plan/hidden_matrices.h"
#include "core/plan/orthogonalize.h"

namespace lockstep {

namespace {

/// Multiplications of Note [Orthogonalization] for each of hidden_matrices().
std::vector<double> products(const Graph& training) {
  std::vector<double> work;
  for (const int matrix : hidden_matrices(training)) {
    const Shape shape = as_matrix(training.parameters()[std::size_t(matrix)].shape);
    const double least = double(std::min(shape[0], shape[1]));
    const double most = double(std::max(shape[0], shape[1]));
    work.push_back(kIterations * (2 * least * least * most + least * least * least));
  }
  return work;
}

}  // namespace

std::vector<int> deal_matrices(const Graph& training, int members) {
  const std::vector<double> work = products(training);
  std::vector<std::size_t> largest_first(work.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
  std::ranges::stable_sort(largest_first,
                           [&](std::size_t a, std::size_t b) { return work[a] > work[b]; });
  std::vector<int> member_of(work.size(), 0);
  std::vector<double> load(std::size_t(members), 0);
  for (const std::size_t matrix : largest_first) {
    const auto least = std::ranges::min_element(load);
    *least += work[matrix];
    member_of[matrix] = int(least - load.begin());
  }
  return member_of;
}

std::vector<double> dealt_work(const Graph& training, int members) {
  const std::vector<double> work = products(training);
  const std::vector<int> member_of = deal_matrices(training, members);
  const double all = std::accumulate(work.begin(), work.end(), 0.0);
  std::vector<double> parts(std::size_t(members), 0);
  for (std::size_t i = 0; i < work.size(); ++i) parts[std::size_t(member_of[i])] += work[i] / all;
  return parts;
}

}  // namespace lockstep
