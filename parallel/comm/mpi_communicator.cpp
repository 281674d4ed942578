// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi_communicator.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <numeric>
#include <vector>

#include "core/base/check.h"
#include "parallel/comm/mpi_world.h"
#include "parallel/comm/ranks_per_host.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMaxCount = std::numeric_limits<int>::max();
constexpr std::size_t kPieceBytes = std::size_t{1} << 30;
/// Messages with one tag arrive in the order of exchanges, which is the same on all ranks.
constexpr int kExchangeTag = 1;

// MPI reads the counts until the collective completes, so they live with the request.
struct Counts {
  explicit Counts(std::size_t ranks) : counts(ranks), offsets(ranks) {}

  void set(std::span<const CommBlock> blocks) {
    for (std::size_t r = 0; r < blocks.size(); ++r) {
      LOCKSTEP_CHECK(
          blocks[r].elems >= 0 && blocks[r].elems <= kMaxCount && blocks[r].offset >= 0 &&
              blocks[r].offset <= kMaxCount,
          CommError,
          "block for rank {}: {} elements at {}, MPI takes at most {}: use smaller buckets",
          r,
          blocks[r].elems,
          blocks[r].offset,
          kMaxCount);
      counts[r] = int(blocks[r].elems);
      offsets[r] = int(blocks[r].offset);
    }
  }

  std::vector<int> counts, offsets;  // [ranks], elements
};

struct ToAndFrom {
  explicit ToAndFrom(std::size_t ranks) : to(ranks), from(ranks) {}
  Counts to, from;
};

class MpiRequest;
using MpiRequestPool = std::vector<std::unique_ptr<MpiRequest>>;

class MpiRequest final : public CommRequest {
 public:
  /// `messages`: the most that it waits for at a time; more are a reason to grow.
  MpiRequest(std::size_t ranks, std::size_t messages, MpiRequestPool& pool)
      : counts(ranks), pool_(pool) {
    handles_.reserve(messages);
    statuses_.reserve(messages);
  }

  bool test() override {
    int done = 1;
    statuses_.resize(handles_.size());
    LOCKSTEP_MPI_TRY(
        cause_of(MPI_Testall(int(handles_.size()), handles_.data(), &done, statuses_.data())));
    return done != 0;
  }

  void wait() override { LOCKSTEP_MPI_TRY(wait_for_all()); }

  void release() override {
    const auto is_open = [](MPI_Request handle) { return handle != MPI_REQUEST_NULL; };
    if (std::ranges::any_of(handles_, is_open) && MPI_SUCCESS != finish()) return;
    handles_.clear();
    pool_.emplace_back(this);
  }

  /// For a call of MPI to fill.
  MPI_Request* add_handle() { return &handles_.emplace_back(MPI_REQUEST_NULL); }

  ToAndFrom counts;
  int exceptions = 0;  // in flight when it was started

 private:
  // While an exception is in flight peers may be gone, and waiting would never end: the request
  // leaks, since MPI may still read its counts. A revoked one ends at once, if with an error.
  int finish() {
    if (has_lost_rank()) {
      for (MPI_Request& handle : handles_) {
        if (handle == MPI_REQUEST_NULL) continue;
        MPI_Wait(&handle, MPI_STATUS_IGNORE);
        if (handle != MPI_REQUEST_NULL) MPI_Request_free(&handle);
      }
      return MPI_SUCCESS;
    }
    if (!MpiSession::running() || std::uncaught_exceptions() > exceptions) return MPI_ERR_PENDING;
    return wait_for_all();
  }
  int wait_for_all() {
    statuses_.resize(handles_.size());
    return cause_of(MPI_Waitall(int(handles_.size()), handles_.data(), statuses_.data()));
  }
  /// Of several messages MPI says only that one has failed: its status says how.
  int cause_of(int code) const {
    if (code != MPI_ERR_IN_STATUS) return code;
    for (const MPI_Status& status : statuses_)
      if (status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING)
        return status.MPI_ERROR;
    return code;
  }

  std::vector<MPI_Request> handles_;
  std::vector<MPI_Status> statuses_;  // of handles_
  MpiRequestPool& pool_;
};

class MpiCommunicator final : public Communicator {
 public:
  /// Collective. `host`: equal for ranks of one host. `owned`: freed by
  /// the destructor. `split_from`: where it is of the same ranks, hosts are not gathered again.
  MpiCommunicator(MPI_Comm comm,
                  MpiExchange exchange,
                  int host,
                  bool owned,
                  const MpiCommunicator* split_from = nullptr)
      : comm_(comm), revocable_(comm), exchange_(exchange), host_(host), owned_(owned) {
    LOCKSTEP_MPI_TRY(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
    LOCKSTEP_MPI_TRY(MPI_Comm_rank(comm_, &rank_));
    LOCKSTEP_MPI_TRY(MPI_Comm_size(comm_, &size_));
    byte_counts_.resize(std::size_t(size_));
    all_but_own_.reserve(std::size_t(size_));
    byte_offsets_.resize(std::size_t(size_));
    if (split_from != nullptr && has_ranks_of(*split_from)) {
      ranks_per_node_ = split_from->ranks_per_node_;
      return;
    }
    std::vector<int> hosts(byte_counts_.size());
    LOCKSTEP_MPI_TRY(MPI_Allgather(&host_, 1, MPI_INT, hosts.data(), 1, MPI_INT, comm_));
    ranks_per_node_ = uniform_ranks_per_host(hosts);
  }

  ~MpiCommunicator() override {
    if (owned_ && MpiSession::running() && std::uncaught_exceptions() <= exceptions_)
      MPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int ranks_per_node() const override { return ranks_per_node_; }

  void barrier() override { LOCKSTEP_MPI_TRY(MPI_Barrier(comm_)); }

  void reserve_requests(int count) override {
    pool_.reserve(std::size_t(count));
    while (pool_.size() < std::size_t(count)) pool_.push_back(make_request());
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    auto* next = static_cast<std::byte*>(data);
    do {  // An empty broadcast still checks its root.
      const std::size_t piece = std::min(bytes, kPieceBytes);
      LOCKSTEP_MPI_TRY(MPI_Bcast(next, int(piece), MPI_BYTE, root, comm_));
      next += piece;
      bytes -= piece;
    } while (bytes > 0);
  }

  void gather(const void* send, void* recv, std::size_t bytes, int root) override {
    if (bytes > kPieceBytes) return Communicator::gather(send, recv, bytes, root);
    LOCKSTEP_MPI_TRY(
        MPI_Gather(send, int(bytes), MPI_BYTE, recv, int(bytes), MPI_BYTE, root, comm_));
  }

  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    if (bytes > kPieceBytes) {
      const std::vector<std::size_t> sizes(std::size_t(size_), bytes);
      return all_gather_by_broadcasts(send, recv, sizes);
    }
    LOCKSTEP_MPI_TRY(MPI_Allgather(send, int(bytes), MPI_BYTE, recv, int(bytes), MPI_BYTE, comm_));
  }

  void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) override {
    LOCKSTEP_ASSERT(bytes.size() == std::size_t(size_));
    std::size_t offset = 0;
    for (std::size_t r = 0; r < bytes.size(); ++r) {
      if (bytes[r] > kPieceBytes || offset > std::size_t(kMaxCount))
        return all_gather_by_broadcasts(send, recv, bytes);
      byte_counts_[r] = int(bytes[r]);
      byte_offsets_[r] = int(offset);
      offset += bytes[r];
    }
    LOCKSTEP_MPI_TRY(MPI_Allgatherv(send,
                                    byte_counts_[std::size_t(rank_)],
                                    MPI_BYTE,
                                    recv,
                                    byte_counts_.data(),
                                    byte_offsets_.data(),
                                    MPI_BYTE,
                                    comm_));
  }

  void all_reduce_max(std::span<std::uint64_t> values) override {
    LOCKSTEP_ASSERT(values.size() <= std::size_t(kMaxCount));
    LOCKSTEP_MPI_TRY(MPI_Allreduce(
        MPI_IN_PLACE, values.data(), int(values.size()), MPI_UINT64_T, MPI_MAX, comm_));
  }

  CommRequestPtr start_all_to_all(const float* send,
                                  std::span<const CommBlock> to,
                                  float* recv,
                                  std::span<const CommBlock> from) override {
    LOCKSTEP_ASSERT(to.size() == std::size_t(size_) && from.size() == to.size());
    CommRequestPtr owner;
    MpiRequest& request = take_request(owner);
    ToAndFrom& c = request.counts;
    c.to.set(to);
    c.from.set(from);
    // Open MPI's collective takes equal addresses for MPI_IN_PLACE, which ignores what is sent. Not
    // so null, which a rank without blocks may have where the others have two addresses.
    if (exchange_ == MpiExchange::messages || (send == recv && recv != nullptr)) {
      receive_blocks(request, recv, from);
      send_blocks(request, send, to);
      return owner;
    }
    LOCKSTEP_MPI_TRY(MPI_Ialltoallv(send,
                                    c.to.counts.data(),
                                    c.to.offsets.data(),
                                    MPI_FLOAT,
                                    recv,
                                    c.from.counts.data(),
                                    c.from.offsets.data(),
                                    MPI_FLOAT,
                                    comm_,
                                    request.add_handle()));
    return owner;
  }

  CommRequestPtr start_all_gather(float* data, std::span<const CommBlock> blocks) override {
    LOCKSTEP_ASSERT(blocks.size() == std::size_t(size_));
    CommRequestPtr owner;
    MpiRequest& request = take_request(owner);
    Counts& c = request.counts.from;
    c.set(blocks);
    if (exchange_ == MpiExchange::messages) {
      const CommBlock own = blocks[std::size_t(rank_)];
      all_but_own_.assign(blocks.begin(), blocks.end());
      all_but_own_[std::size_t(rank_)].elems = 0;
      receive_blocks(request, data, all_but_own_);
      for (CommBlock& block : all_but_own_) block = own;
      all_but_own_[std::size_t(rank_)].elems = 0;
      send_blocks(request, data, all_but_own_);
      return owner;
    }
    LOCKSTEP_MPI_TRY(MPI_Iallgatherv(MPI_IN_PLACE,
                                     0,
                                     MPI_FLOAT,
                                     data,
                                     c.counts.data(),
                                     c.offsets.data(),
                                     MPI_FLOAT,
                                     comm_,
                                     request.add_handle()));
    return owner;
  }

  CommRequestPtr start_all_reduce(float* data, std::int64_t elems) override {
    LOCKSTEP_CHECK(elems >= 0 && elems <= kMaxCount,
                   CommError,
                   "all-reduce of {} elements, MPI takes at most {}: use smaller buckets",
                   elems,
                   kMaxCount);
    CommRequestPtr owner;
    MpiRequest& request = take_request(owner);
    LOCKSTEP_MPI_TRY(MPI_Iallreduce(
        MPI_IN_PLACE, data, int(elems), MPI_FLOAT, MPI_SUM, comm_, request.add_handle()));
    return owner;
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    LOCKSTEP_CHECK(color >= 0, CommError, "split: color {} is negative", color);
    MPI_Comm part = MPI_COMM_NULL;
    LOCKSTEP_MPI_TRY(MPI_Comm_split(comm_, color, key, &part));
    return std::make_unique<MpiCommunicator>(part, exchange_, host_, true, this);
  }

  void abort(int exit_code) override { MPI_Abort(comm_, exit_code); }

 private:
  /// Whether all ranks of `other` are in this one, in the same order. Collective.
  bool has_ranks_of(const MpiCommunicator& other) const {
    if (size_ != other.size_) return false;
    int same = rank_ == other.rank_ ? 1 : 0;
    LOCKSTEP_MPI_TRY(MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, comm_));
    return same != 0;
  }

  /// A collective is one message, of which the other way needs one for each block.
  std::unique_ptr<MpiRequest> make_request() {
    const auto ranks = std::size_t(size_);
    return std::make_unique<MpiRequest>(
        ranks, exchange_ == MpiExchange::messages ? 2 * ranks : 1, pool_);
  }

  // The pool is filled as requests come back; `owner` returns this one even if starting throws.
  MpiRequest& take_request(CommRequestPtr& owner) {
    if (pool_.empty()) pool_.push_back(make_request());
    MpiRequest& request = *pool_.back().release();
    pool_.pop_back();
    request.exceptions = std::uncaught_exceptions();
    owner.reset(&request);
    return request;
  }

  /// Block r comes from rank r; blocks without elements do not travel.
  void receive_blocks(MpiRequest& request, float* data, std::span<const CommBlock> blocks) {
    for (int r = 0; r < size_; ++r)
      if (const CommBlock block = blocks[std::size_t(r)]; block.elems > 0)
        LOCKSTEP_MPI_TRY(MPI_Irecv(data + block.offset,
                                   int(block.elems),
                                   MPI_FLOAT,
                                   r,
                                   kExchangeTag,
                                   comm_,
                                   request.add_handle()));
  }
  /// Block r goes to rank r. Each rank begins after itself, so that not all send to rank 0 first.
  void send_blocks(MpiRequest& request, const float* data, std::span<const CommBlock> blocks) {
    for (int i = 1; i <= size_; ++i) {
      const int r = (rank_ + i) % size_;
      if (const CommBlock block = blocks[std::size_t(r)]; block.elems > 0)
        LOCKSTEP_MPI_TRY(MPI_Isend(data + block.offset,
                                   int(block.elems),
                                   MPI_FLOAT,
                                   r,
                                   kExchangeTag,
                                   comm_,
                                   request.add_handle()));
    }
  }

  // For sizes that MPI's int counts cannot say.
  void all_gather_by_broadcasts(const void* send, void* recv, std::span<const std::size_t> bytes) {
    auto* block = static_cast<std::byte*>(recv);
    for (int r = 0; r < size_; ++r) {
      const std::size_t size = bytes[std::size_t(r)];
      const auto* from = static_cast<const std::byte*>(send);
      if (r == rank_) std::copy_n(from, size, block);
      broadcast(block, size, r);
      block += size;
    }
  }

  MPI_Comm comm_;
  RevocableComm revocable_;
  MpiExchange exchange_;
  int host_;
  bool owned_;
  int exceptions_ = std::uncaught_exceptions();
  int rank_ = 0, size_ = 1, ranks_per_node_ = 1;
  MpiRequestPool pool_;
  // [ranks], kept so that gathers allocate nothing
  std::vector<int> byte_counts_, byte_offsets_;
  std::vector<CommBlock> all_but_own_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(const MpiSession&, MpiExchange exchange) {
  return std::make_unique<MpiCommunicator>(mpi_world(), exchange, lowest_rank_on_host(), false);
}

}  // namespace lockstep
