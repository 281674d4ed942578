// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulator/device_memory.h"
#include "tests/support/cuda_emulator/status.h"
#include "tests/support/cuda_emulator/streams.h"

/// What runs the streams of Note [Streams of the emulator]. Whoever calls something here holds
/// device_in_use(), by `lock` where it may be let go meanwhile.
namespace lockstep::emulator {

using Lock = std::unique_lock<std::mutex>;

struct Work {
  std::function<void()> run;  ///< throws Fault; empty: nothing
  /// May take its time: runs without device_in_use().
  bool of_host = false;
  std::size_t Calls::*counted = nullptr;  ///< under what, where it is not recorded
};

struct Queue;

/// After the first `count` items of a queue.
struct Point {
  std::shared_ptr<Queue> queue;
  std::uint64_t count = 0;
  bool reached() const;
};

struct Item {
  std::vector<Point> after;
  Work work;
};

struct Queue {
  std::deque<Item> items;  ///< not begun yet
  std::uint64_t asked = 0, done = 0;
  bool busy = false;  ///< an item is running
};

inline bool Point::reached() const { return queue->done >= count; }

struct Capture;

/// What an event was recorded after.
struct EventRecord {
  Point point;
  std::optional<std::chrono::steady_clock::time_point> time;  ///< nothing before it happened
  std::shared_ptr<Capture> capture;  ///< null, or it stands for `nodes` of a capture
  std::vector<int> nodes;
};

}  // namespace lockstep::emulator

struct CUstream_st {
  bool blocking = true;  ///< waits for the null stream, which waits for it
  int priority = 0;      ///< which only graphs look at
  std::shared_ptr<lockstep::emulator::Queue> queue = std::make_shared<lockstep::emulator::Queue>();
  std::shared_ptr<lockstep::emulator::Capture> capture = {};  ///< which it takes part in, or null
  std::vector<int> nodes = {};              ///< of the capture: what comes next depends on them
  std::vector<cudaGraphNode_t> shown = {};  ///< the same, as cudaStreamGetCaptureInfo() told them

  lockstep::emulator::Point end() const { return {queue, queue->asked}; }
};

struct CUevent_st {
  bool timed = true;
  std::shared_ptr<lockstep::emulator::EventRecord> last = {};  ///< null: never recorded
};

namespace lockstep::emulator {

void open_stream(cudaStream_t stream);
/// False: it is not open.
bool close_stream(cudaStream_t stream);
/// The null stream and those that are open.
std::vector<cudaStream_t> all_streams();
bool is_null_stream(const CUstream_st& stream);
/// Makes `stream` the null stream's own where `handle` is null. cudaErrorInvalidResourceHandle: it
/// is not open; cudaErrorNotPermitted: a function that a stream calls may not use streams.
cudaError_t find_stream(cudaStream_t handle, cudaStream_t& stream);

/// Asks `stream` for `work`, or records it where the stream is being captured; other streams'
/// `after` come first. An error of the work itself where it runs at once.
cudaError_t enqueue(Lock& lock, cudaStream_t stream, Work work, std::vector<Point> after = {});
/// The same for who does not hold device_in_use().
cudaError_t enqueue(cudaStream_t stream, Work work);
/// Asks the null stream for `work` and waits for it, as calls do that are not asynchronous.
cudaError_t run_now(Lock& lock, Work work);

void run_until(Lock& lock, Point point);
/// Runs one item of those that `point` needs. False: it was reached.
bool run_one(Lock& lock, Point point);
void run_everything(Lock& lock);
void count(std::size_t Calls::*counted);
StreamMode stream_mode();

/// What went wrong in work that was run and that nobody has been told of.
cudaError_t take_error();
/// The same, to be told again.
cudaError_t see_error();

}  // namespace lockstep::emulator
