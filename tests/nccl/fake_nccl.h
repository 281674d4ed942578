// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>

// An NCCL that is played: it does over MPI what NCCL does between devices, in the order of the
// emulator's streams, and is as strict as NCCL about what it is asked. Calls are reported to be in
// progress at first, as those of communicators that do not block are. An abort ends what waits for
// other ranks, and returns when no graph is left that captured work of the communicator, as NCCL's;
// a graph that is not destroyed for some seconds is a mistake that ends the process.

struct FakeNccl {
  // What to play.
  std::atomic<int> version = 22809;
  std::atomic<int> polls = 2;        ///< so often a call is in progress when asked about
  std::atomic<int> id_status = 0;    ///< of ncclGetUniqueId
  std::atomic<int> init_status = 0;  ///< what a communicator says at last that is being made
  std::atomic<int> part_status = 0;  ///< the same of a part, once the split that made it is done
  std::atomic<bool> never_joins = false;
  /// After that group of calls, from 1, there is an error; 0: never. Groups count when they are
  /// asked for, replays when a graph does one.
  std::atomic<int> fails_at = 0, fails_at_replay = 0;
  /// In that group, when it is done, the process is killed. Replays are no such groups.
  std::atomic<int> dies_at = 0, dies_at_replay = 0;
  std::atomic<bool> dies_joining = false;
  /// In which capture that stream takes part; 0: in none. Null: no stream ever does.
  long (*capture_of)(void* stream) = nullptr;
  /// Called when calls that were asked for together are about to move something; null: nothing is.
  void (*moves)() = nullptr;
  /// Takes the device's memory and gives it back. A communicator takes kConnection when it first
  /// does something of a kind, but where that is captured, until it is destroyed.
  void* (*take)(std::size_t bytes) = nullptr;
  void (*give_back)(void* memory) = nullptr;
  static constexpr std::size_t kConnection = 1 << 20;
  /// Whether these bytes are of the device's memory.
  bool (*is_device)(const void* memory, std::size_t bytes) = nullptr;

  /// Writes the MPI communicator that ranks meet in. Null: MPI_COMM_WORLD.
  void (*world)(void* communicator) = nullptr;

  // What happened.
  std::atomic<int> groups = 0;              ///< of calls that moved something, or single ones
  std::atomic<int> connections = 0;         ///< first uses of communicators for calls of a kind
  std::atomic<int> pairs = 0;               ///< other ranks that communicators sent to
  std::atomic<int> eager = 0, replays = 0;  ///< groups that were done
  std::atomic<int> ids = 0;                 ///< addresses to meet at, made by this rank
  std::atomic<int> joined = 0, destroyed = 0;
  std::atomic<int> splits = 0;  ///< of those that joined
  std::atomic<int> aborted = 0, aborts_ended = 0;
};

/// dlsym() finds it as "fake_nccl".
extern "C" FakeNccl* fake_nccl();
