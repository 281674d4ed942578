// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>

// An NCCL that is played: it does over MPI what NCCL does between devices, in the order of the
// emulator's streams, and is as strict as NCCL about what it is asked. Calls are reported to be in
// progress at first, as those of communicators that do not block are.

struct FakeNccl {
  // What to play.
  std::atomic<int> version = 22809;
  std::atomic<int> polls = 2;        ///< so often a call is in progress when asked about
  std::atomic<int> id_status = 0;    ///< of ncclGetUniqueId
  std::atomic<int> init_status = 0;  ///< what a communicator says at last that is being made
  std::atomic<bool> never_joins = false;
  std::atomic<int> fails_at =
      0;  ///< after that group of calls, from 1, there is an error; 0: never
  /// In which capture that stream takes part; 0: in none. Null: no stream ever does.
  long (*capture_of)(void* stream) = nullptr;
  /// Called when calls that were asked for together are about to move something; null: nothing is.
  void (*moves)() = nullptr;
  /// Whether these bytes are of the device's memory.
  bool (*is_device)(const void* memory, std::size_t bytes) = nullptr;

  // What happened.
  std::atomic<int> groups = 0;  ///< of calls that moved something, or single ones
  std::atomic<int> joined = 0, destroyed = 0, aborted = 0;
};

/// dlsym() finds it as "fake_nccl".
extern "C" FakeNccl* fake_nccl();
