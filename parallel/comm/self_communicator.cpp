// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/self_communicator.h"

#include <cstring>

#include "core/base/check.h"
#include "core/step/done_request.h"

namespace lockstep {
namespace {

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace

void SelfCommunicator::broadcast(void*, std::size_t, int root) {
  LOCKSTEP_CHECK(root == 0, CommError, "broadcast from rank {}: the only rank is 0", root);
}

void SelfCommunicator::all_gather(const void* send, void* recv, std::size_t bytes) {
  copy(recv, send, bytes);
}

void SelfCommunicator::all_gather_v(const void* send,
                                    void* recv,
                                    std::span<const std::size_t> bytes) {
  LOCKSTEP_CHECK(bytes.size() == 1, CommError, "all-gather of {} sizes on one rank", bytes.size());
  copy(recv, send, bytes[0]);
}

CommRequestPtr SelfCommunicator::start_all_to_all(const float* send,
                                                  std::span<const CommBlock> to,
                                                  float* recv,
                                                  std::span<const CommBlock> from) {
  LOCKSTEP_CHECK(to.size() == 1 && from.size() == 1 && to[0].elems == from[0].elems,
                 CommError,
                 "all-to-all on one rank: what it sends is not what it receives");
  copy(recv + from[0].offset, send + to[0].offset, std::size_t(to[0].elems) * sizeof(float));
  return DoneRequest::make();
}

CommRequestPtr SelfCommunicator::start_all_gather(float*, std::span<const CommBlock> blocks) {
  LOCKSTEP_CHECK(
      blocks.size() == 1, CommError, "all-gather of {} blocks on one rank", blocks.size());
  return DoneRequest::make();
}

CommRequestPtr SelfCommunicator::start_all_reduce(float*, std::int64_t) {
  return DoneRequest::make();
}

std::unique_ptr<Communicator> SelfCommunicator::split(int, int) {
  return std::make_unique<SelfCommunicator>();
}

void SelfCommunicator::abort(int) {}

}  // namespace lockstep
