// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "core/data/images/image_decoder.h"
#include "core/data/images/resampler.h"

namespace lockstep::data {

/// What one thread needs to turn image files into samples.
struct ImageWorkspace {
  std::vector<std::byte> file;
  AnyImageDecoder decoder;
  Resampler resampler;
};

/// Workspaces that threads borrow for one sample; as many exist as were ever borrowed at once.
class WorkspacePool {
 public:
  class Lease {
   public:
    explicit Lease(WorkspacePool& pool) : pool_(pool), workspace_(pool.take()) {}
    ~Lease() { pool_.put_back(std::move(workspace_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ImageWorkspace* operator->() const { return workspace_.get(); }

   private:
    WorkspacePool& pool_;
    std::unique_ptr<ImageWorkspace> workspace_;
  };

 private:
  std::unique_ptr<ImageWorkspace> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      free_.reserve(++made_);  // put_back() must not fail
      return std::make_unique<ImageWorkspace>();
    }
    std::unique_ptr<ImageWorkspace> last = std::move(free_.back());
    free_.pop_back();
    return last;
  }
  void put_back(std::unique_ptr<ImageWorkspace> workspace) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
  }

  std::mutex mutex_;
  std::size_t made_ = 0;
  std::vector<std::unique_ptr<ImageWorkspace>> free_;
};

}  // namespace lockstep::data
