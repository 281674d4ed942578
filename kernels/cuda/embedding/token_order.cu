// SPDX-License-Identifier: Apache-2.0
#include "core/base/check.h"
#include "kernels/cuda/embedding/token_order.h"
#include "kernels/cuda/reduce.cuh"

// A counting sort, one thread a row: count the tokens; one block adds up the counts; put each row
// anywhere among those of its token; then count in there the rows before it, which is its place.
// The order in which rows arrive changes neither the counts nor the places. Bytes: about 30 a row
// and 16 a token of the vocabulary, all in the caches. Bound by latency; a token that k rows share
// costs k^2 comparisons, spread over the device.
namespace lockstep::cuda {
namespace {

constexpr int kScanThreads = 1024;
constexpr int kScanItems = 4;  // neighbours that a thread adds up itself

__global__ void count_tokens_kernel(std::int32_t* counts,
                                    const std::int32_t* tokens,
                                    std::int64_t rows) {
  wait_for_earlier_work();
  for (std::int64_t r = global_thread(); r < rows; r += all_threads())
    atomicAdd(&counts[tokens[r]], 1);
}

/// The sums of the values of earlier threads of the block, and of all.
struct BlockScan {
  std::int32_t before, all;
};
__device__ inline BlockScan scan_block(std::int32_t value, std::int32_t* shared) {
  const int lane = int(threadIdx.x) % kWarp, own_warp = int(threadIdx.x) / kWarp;
  std::int32_t up_to = value;
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const std::int32_t other = __shfl_up_sync(kAllLanes, up_to, distance);
    if (lane >= distance) up_to += other;
  }
  __syncthreads();  // an earlier scan may still be reading
  if (lane == kWarp - 1) shared[own_warp] = up_to;
  __syncthreads();
  BlockScan scan{up_to - value, 0};
  for (int warp = 0; warp < int(blockDim.x) / kWarp; ++warp) {
    if (warp == own_warp) scan.before += scan.all;
    scan.all += shared[warp];
  }
  return scan;
}

/// offsets[v] = the sum of the counts of tokens below v; next: the same, over the counts;
/// frequent[1..] = the frequent tokens, frequent[0], which is zero before, how many they are. One
/// block.
__global__ void __launch_bounds__(kScanThreads) add_up_counts_kernel(std::int32_t* offsets,
                                                                     std::int32_t* next,
                                                                     std::int32_t* frequent,
                                                                     std::int64_t vocabulary) {
  wait_for_earlier_work();
  std::int32_t sum = 0;
  for (std::int64_t tile = 0; tile < vocabulary; tile += std::int64_t(blockDim.x) * kScanItems) {
    const std::int64_t first = tile + std::int64_t(threadIdx.x) * kScanItems;
    std::int32_t counts[kScanItems], own = 0;
    for (int i = 0; i < kScanItems; ++i) {
      counts[i] = first + i < vocabulary ? next[first + i] : 0;
      own += counts[i];
    }
    const BlockScan scan = scan_block(own, dynamic_shared<std::int32_t>());
    std::int32_t offset = sum + scan.before;
    for (int i = 0; i < kScanItems; ++i) {
      if (first + i < vocabulary) offsets[first + i] = next[first + i] = offset;
      if (counts[i] >= TokenOrder::kFrequent)
        frequent[1 + atomicAdd(frequent, 1)] = std::int32_t(first) + i;
      offset += counts[i];
    }
    sum += scan.all;
  }
  if (threadIdx.x == 0) offsets[vocabulary] = sum;
}

__global__ void gather_rows_kernel(std::int32_t* gathered,
                                   std::int32_t* next,
                                   const std::int32_t* tokens,
                                   std::int64_t rows) {
  wait_for_earlier_work();
  for (std::int64_t r = global_thread(); r < rows; r += all_threads())
    gathered[atomicAdd(&next[tokens[r]], 1)] = std::int32_t(r);
}

__global__ void order_rows_kernel(std::int32_t* order,
                                  const std::int32_t* gathered,
                                  const std::int32_t* offsets,
                                  const std::int32_t* tokens,
                                  std::int64_t rows) {
  wait_for_earlier_work();
  for (std::int64_t r = global_thread(); r < rows; r += all_threads()) {
    const std::int32_t begin = offsets[tokens[r]], end = offsets[tokens[r] + 1];
    std::int32_t place = begin;
    for (std::int32_t i = begin; i < end; ++i) place += gathered[i] < r ? 1 : 0;
    order[place] = std::int32_t(r);
  }
}

/// Arrays of int32 in the workspace.
struct Arrays {
  std::int32_t *offsets, *next, *frequent, *gathered, *order;
};
Arrays arrays_in(void* workspace, std::int64_t rows, std::int64_t vocabulary) {
  auto* const offsets = static_cast<std::int32_t*>(workspace);
  auto* const next = offsets + vocabulary + 1;
  auto* const frequent = next + vocabulary;
  auto* const gathered = frequent + 1 + rows / TokenOrder::kFrequent;
  return {offsets, next, frequent, gathered, gathered + rows};
}

}  // namespace

TokenOrder::TokenOrder(std::int64_t rows, std::int64_t vocabulary)
    : rows_(rows), vocabulary_(vocabulary) {
  LOCKSTEP_CHECK(rows <= INT32_MAX && vocabulary < INT32_MAX,
                 Error,
                 "embedding gradient: at most 2^31 - 1 tokens a micro-batch and in the vocabulary, "
                 "got {} and {}",
                 rows,
                 vocabulary);
}

std::size_t TokenOrder::workspace_bytes() const {
  return std::size_t(2 * vocabulary_ + 2 + max_frequent() + 2 * rows_) * sizeof(std::int32_t);
}

const std::int32_t* TokenOrder::offsets(const void* workspace) const {
  return arrays_in(const_cast<void*>(workspace), rows_, vocabulary_).offsets;
}
const std::int32_t* TokenOrder::order(const void* workspace) const {
  return arrays_in(const_cast<void*>(workspace), rows_, vocabulary_).order;
}

const std::int32_t* TokenOrder::frequent(const void* workspace) const {
  return arrays_in(const_cast<void*>(workspace), rows_, vocabulary_).frequent;
}

void TokenOrder::sort(const Device& device, const std::int32_t* tokens, void* workspace) const {
  const Arrays a = arrays_in(workspace, rows_, vocabulary_);
  const cudaStream_t stream = device.compute;
  const std::size_t counts = std::size_t(vocabulary_ + 1);  // and that of the frequent ones
  check(cudaMemsetAsync(a.next, 0, counts * sizeof(std::int32_t), stream), "token counts");
  launch("count_tokens", cover(rows_), stream, count_tokens_kernel, a.next, tokens, rows_);
  launch("add_up_counts",
         {.block = dim3(kScanThreads), .shared_bytes = kScanThreads / kWarp * sizeof(std::int32_t)},
         stream,
         add_up_counts_kernel,
         a.offsets,
         a.next,
         a.frequent,
         vocabulary_);
  launch(
      "gather_rows", cover(rows_), stream, gather_rows_kernel, a.gathered, a.next, tokens, rows_);
  launch("order_rows",
         cover(rows_),
         stream,
         order_rows_kernel,
         a.order,
         a.gathered,
         a.offsets,
         tokens,
         rows_);
}

}  // namespace lockstep::cuda
