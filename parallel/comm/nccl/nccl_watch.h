// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "parallel/comm/nccl/nccl_link.h"

namespace lockstep {

/// A thread that looks at links every tenth of a second while there are any: what fails after the
/// host's back is given up, so that the device does not wait for ever.
class NcclWatch {
 public:
  NcclWatch();
  ~NcclWatch();
  NcclWatch(const NcclWatch&) = delete;
  NcclWatch& operator=(const NcclWatch&) = delete;

  void add(NcclLink& link);
  /// Afterwards it is not looked at. To be called before it ends.
  void remove(NcclLink& link);

 private:
  void run();

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<NcclLink*> links_;
  bool ends_ = false;
  std::thread thread_;  // the last, as it uses all of them
};

}  // namespace lockstep
