// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/nccl/nccl_communicator.h"

#include <cstdlib>
#include <mutex>
#include <vector>

#include "core/base/check.h"
#include "core/step/done_request.h"
#include "parallel/comm/nccl/nccl_join.h"
#include "parallel/comm/nccl/nccl_library.h"
#include "parallel/comm/nccl/nccl_watch.h"

namespace lockstep {
namespace {

constexpr std::size_t kFloat = sizeof(float);

struct Family;

/// All of this process.
struct Families {
  std::mutex mutex;
  std::vector<Family*> all;
};
Families& families() {
  static Families one;
  return one;
}

/// What a communicator and its parts have in common.
struct Family {
  Family(const Nccl* library, Backend& device, const NcclOptions& options)
      : nccl(library), backend(device), join{options.join_s, options.ranks_per_root} {
    const std::lock_guard lock(families().mutex);
    families().all.push_back(this);
  }
  ~Family() {
    const std::lock_guard lock(families().mutex);
    std::erase(families().all, this);
  }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  const Nccl* const nccl;  // null: one rank, which needs none
  Backend& backend;
  const NcclJoin join;
  NcclFailure failure;
  NcclAborts aborts;
  NcclWatch watch;
};

/// A link that is watched once it has joined. Not made for a rank alone, which NCCL has nothing to
/// do for.
class WatchedLink {
 public:
  WatchedLink(const Communicator& host, Family& family)
      : family_(family),
        link_(*family.nccl, host.rank(), host.size(), family.failure, family.aborts) {}
  WatchedLink(const WatchedLink&) = delete;
  WatchedLink& operator=(const WatchedLink&) = delete;
  ~WatchedLink() { family_.watch.remove(link_); }

  void watch() { family_.watch.add(link_); }
  NcclLink& operator*() { return link_; }
  NcclLink* operator->() { return &link_; }

 private:
  Family& family_;
  NcclLink link_;
};

std::unique_ptr<WatchedLink> make_link(Communicator& host, Family& family) {
  if (host.size() == 1) return nullptr;
  auto link = std::make_unique<WatchedLink>(host, family);
  join_together(host, *family.nccl, **link, family.join);
  link->watch();
  return link;
}

/// Whether the blocks lie one after the other in rank order, each as large as the first.
bool equal_and_contiguous(std::span<const CommBlock> blocks) {
  for (std::size_t r = 0; r < blocks.size(); ++r)
    if (blocks[r].elems != blocks[0].elems ||
        blocks[r].offset != blocks[0].offset + std::int64_t(r) * blocks[0].elems)
      return false;
  return true;
}

class NcclCommunicator final : public Communicator {
 public:
  /// `link`: null where the rank is alone. `owned`: `host`, where it has no other owner.
  NcclCommunicator(Communicator& host,
                   std::shared_ptr<Family> family,
                   std::unique_ptr<WatchedLink> link,
                   std::unique_ptr<Communicator> owned = {})
      : owned_(std::move(owned)),
        host_(host),
        family_(std::move(family)),
        backend_(family_->backend),
        rank_(std::size_t(host.rank())),
        size_(std::size_t(host.size())),
        link_(std::move(link)) {}

  int rank() const override { return int(rank_); }
  int size() const override { return int(size_); }
  int ranks_per_node() const override { return host_.ranks_per_node(); }
  void barrier() override { host_.barrier(); }
  void abort(int exit_code) override { host_.abort(exit_code); }
  bool in_stream_order() const override { return true; }

  void require_healthy() override {
    host_.require_healthy();
    if (link_) (*link_)->look();
    family_->failure.throw_if_any();
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    if (on_host(data)) return host_.broadcast(data, bytes, root);
    LOCKSTEP_CHECK(root >= 0 && root < size(),
                   CommError,
                   "rank {}: broadcast from rank {} of {}",
                   rank_,
                   root,
                   size_);
    if (bytes > 0)
      run("broadcast", [=, this](const Nccl& nccl, ncclComm_t comm) {
        return nccl.ncclBroadcast(data, data, bytes, ncclUint8, root, comm, stream());
      });
  }

  void gather(const void* send, void* recv, std::size_t bytes, int root) override {
    host_.gather(send, recv, bytes, root);
  }

  void all_gather(const void* send, void* recv, std::size_t bytes) override {
    if (on_host(recv, send)) return host_.all_gather(send, recv, bytes);
    if (!link_) return backend_.copy(recv, send, bytes);
    if (bytes > 0)
      run("all-gather", [=, this](const Nccl& nccl, ncclComm_t comm) {
        return nccl.ncclAllGather(send, recv, bytes, ncclUint8, comm, stream());
      });
  }

  void all_gather_v(const void* send, void* recv, std::span<const std::size_t> bytes) override {
    LOCKSTEP_ASSERT(bytes.size() == size_);
    if (on_host(recv, send)) return host_.all_gather_v(send, recv, bytes);
    if (!link_) return backend_.copy(recv, send, bytes[0]);
    run("all-gather", [=, this](const Nccl& nccl, ncclComm_t comm) {
      NcclGroup group(nccl);
      auto* block = static_cast<std::byte*>(recv);
      for (std::size_t r = 0; r < size_; block += bytes[r++]) {
        const void* from = r == rank_ ? send : block;
        if (bytes[r] > 0)
          group.add(nccl.ncclBroadcast(from, block, bytes[r], ncclUint8, int(r), comm, stream()));
      }
      return group.end();
    });
  }

  void all_reduce_max(std::span<std::uint64_t> values) override { host_.all_reduce_max(values); }

  CommRequestPtr start_all_to_all(const float* send,
                                  std::span<const CommBlock> to,
                                  float* recv,
                                  std::span<const CommBlock> from) override {
    LOCKSTEP_ASSERT(to.size() == size_ && from.size() == size_);
    if (on_host(recv, send)) return host_.start_all_to_all(send, to, recv, from);
    LOCKSTEP_CHECK(to[rank_].elems == from[rank_].elems,
                   CommError,
                   "rank {}: all-to-all: {} elements for itself, but {} from itself",
                   rank_,
                   to[rank_].elems,
                   from[rank_].elems);
    if (!link_)
      backend_.copy(recv + from[0].offset, send + to[0].offset, std::size_t(to[0].elems) * kFloat);
    else
      run("all-to-all", [=, this](const Nccl& nccl, ncclComm_t comm) {
        NcclGroup group(nccl);
        for (std::size_t r = 0; r < size_; ++r) {
          const auto out = std::size_t(to[r].elems), in = std::size_t(from[r].elems);
          const float* source = send + to[r].offset;
          float* target = recv + from[r].offset;
          if (out > 0) group.add(nccl.ncclSend(source, out, ncclFloat, int(r), comm, stream()));
          if (in > 0) group.add(nccl.ncclRecv(target, in, ncclFloat, int(r), comm, stream()));
        }
        return group.end();
      });
    return DoneRequest::make();
  }

  CommRequestPtr start_all_gather(float* data, std::span<const CommBlock> blocks) override {
    LOCKSTEP_ASSERT(blocks.size() == size_);
    if (on_host(data)) return host_.start_all_gather(data, blocks);
    run("all-gather", [=, this](const Nccl& nccl, ncclComm_t comm) {
      if (equal_and_contiguous(blocks)) {
        const auto elems = std::size_t(blocks[0].elems);
        if (elems == 0) return ncclSuccess;
        return nccl.ncclAllGather(
            data + blocks[rank_].offset, data + blocks[0].offset, elems, ncclFloat, comm, stream());
      }
      NcclGroup group(nccl);
      for (std::size_t r = 0; r < size_; ++r) {
        float* block = data + blocks[r].offset;
        const auto elems = std::size_t(blocks[r].elems);
        if (elems > 0)
          group.add(nccl.ncclBroadcast(block, block, elems, ncclFloat, int(r), comm, stream()));
      }
      return group.end();
    });
    return DoneRequest::make();
  }

  CommRequestPtr start_all_reduce(float* data, std::int64_t elems) override {
    if (on_host(data)) return host_.start_all_reduce(data, elems);
    if (elems > 0)
      run("all-reduce", [=, this](const Nccl& nccl, ncclComm_t comm) {
        return nccl.ncclAllReduce(
            data, data, std::size_t(elems), ncclFloat, ncclSum, comm, stream());
      });
    return DoneRequest::make();
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    std::unique_ptr<Communicator> part = host_.split(color, key);
    Communicator& host = *part;
    std::unique_ptr<WatchedLink> link;
    if (host.size() > 1) link = std::make_unique<WatchedLink>(host, *family_);
    if (link_) {
      // NCCL may wait for ever where collectives of what it splits are under way.
      backend_.synchronize();
      split_together(host_, **link_, link ? &**link : nullptr, color, family_->join);
    }
    if (link) link->watch();
    return std::make_unique<NcclCommunicator>(host, family_, std::move(link), std::move(part));
  }

 private:
  /// Where the data is that a collective moves. Null has no part in it; alone it counts as the
  /// host's. Throws CommError: on both.
  bool on_host(const void* memory, const void* other = nullptr) const {
    const bool here = memory == nullptr || backend_.is_host_memory(memory);
    if (other == nullptr) return here;
    const bool other_here = backend_.is_host_memory(other);
    LOCKSTEP_CHECK(memory == nullptr || here == other_here,
                   CommError,
                   "rank {}: a collective between host memory and device memory",
                   rank_);
    return other_here;
  }

  cudaStream_t stream() const { return static_cast<cudaStream_t>(backend_.native_stream()); }

  /// A rank alone has everything already.
  template <typename Calls>
  void run(const char* what, Calls calls) {
    if (link_) (*link_)->run(what, calls);
  }

  const std::unique_ptr<Communicator> owned_;
  Communicator& host_;
  const std::shared_ptr<Family> family_;
  Backend& backend_;
  const std::size_t rank_, size_;
  const std::unique_ptr<WatchedLink> link_;  // null: alone
};

}  // namespace

bool has_nccl() { return true; }

void set_nccl_variables(std::optional<int> apart) {
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
  // Else ranks would wait for each other while they capture, one of which may fail to.
  setenv("NCCL_GRAPH_REGISTER", "0", 1);
  if (apart) setenv("NCCL_HOSTID", fmt::format("lockstep-rank-{}", *apart).c_str(), 1);
}

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& host,
                                                     Backend& backend,
                                                     const NcclOptions& options) {
  const Nccl* nccl = host.size() > 1 ? &open_nccl_together(host, options.library) : nullptr;
  auto family = std::make_shared<Family>(nccl, backend, options);
  std::unique_ptr<WatchedLink> link = make_link(host, *family);
  return std::make_unique<NcclCommunicator>(host, std::move(family), std::move(link));
}

void fail_nccl_communicators(const std::string& why) {
  const std::lock_guard lock(families().mutex);
  for (Family* family : families().all) family->failure.keep_death(why);
}

bool nccl_abort_hangs() { return NcclAborts::any_hangs(); }

std::string nccl_version() { return version_text(checked_version(open_nccl(), nccl_name())); }

std::string nccl_file() { return open_nccl_file({}).path; }

}  // namespace lockstep
