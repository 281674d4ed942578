// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cuda_emulator/stream_queue.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/support/cuda_emulator/graphs.h"

namespace lockstep::emulator {
namespace {

StreamMode mode_of_environment() {
  const char* const name = std::getenv("EMULATED_STREAMS");
  const std::string_view mode = name == nullptr ? "at_once" : name;
  if (mode == "at_once") return StreamMode::at_once;
  if (mode == "late") return StreamMode::late;
  if (mode == "others_first") return StreamMode::others_first;
  std::fprintf(stderr, "EMULATED_STREAMS is '%s': at_once, late or others_first\n", name);
  std::abort();
}

/// See break_device().
struct Breakdown {
  cudaError_t status = cudaSuccess;
  std::size_t kernels = 0;  ///< until then
  bool happened() const { return status != cudaSuccess && kernels == 0; }
  Fault fault() const { return Fault(status, "the emulated device was told to break"); }
};

struct Streams {
  StreamMode mode = mode_of_environment();
  CUstream_st null_stream;
  std::vector<cudaStream_t> open;
  std::condition_variable progress;
  std::optional<Fault> failure;
  Breakdown breakdown;
  Calls calls;
};

Streams& streams() {
  // Lives to the end: what uses streams may be static itself.
  static Streams& streams = *new Streams;
  return streams;
}

thread_local bool in_host_function = false;

/// Ends an item, whichever way it goes.
class Turn {
 public:
  explicit Turn(Queue& queue) : queue_(queue) { queue.busy = true; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    queue_.busy = false;
    ++queue_.done;
    streams().progress.notify_all();
  }

 private:
  Queue& queue_;
};

void run(Lock& lock, const Work& work) {
  if (!work.run) return;
  if (work.of_host) {
    lock.unlock();
    in_host_function = true;
  }
  std::optional<Fault> failure;
  Breakdown& breakdown = streams().breakdown;
  try {
    if (breakdown.happened()) throw breakdown.fault();
    work.run();
    if (work.counted == &Calls::kernel_launches && breakdown.kernels > 0) --breakdown.kernels;
  } catch (const Fault& fault) {
    failure = fault;
  }
  if (work.of_host) {
    in_host_function = false;
    lock.lock();
  }
  if (failure && !streams().failure) streams().failure = failure;
}

void run_first(Lock& lock, Queue& queue) {
  const Turn turn(queue);
  const Item item = std::move(queue.items.front());
  queue.items.pop_front();
  for (const Point& point : item.after) run_until(lock, point);
  run(lock, item.work);
}

/// Runs an item of another queue that waits for nothing. False: there is none.
bool run_another(Lock& lock, const Queue& than) {
  for (const cudaStream_t stream : all_streams()) {
    const std::shared_ptr<Queue> queue = stream->queue;
    if (queue.get() == &than || queue->busy || queue->items.empty()) continue;
    if (!std::ranges::all_of(queue->items.front().after, &Point::reached)) continue;
    run_first(lock, *queue);
    return true;
  }
  return false;
}

/// Adds to `after` what CUDA has the null stream and blocking streams wait for.
cudaError_t order_with_null_stream(CUstream_st& stream, std::vector<Point>& after) {
  CUstream_st& null_stream = streams().null_stream;
  if (&stream != &null_stream) {
    if (stream.blocking && !null_stream.end().reached()) after.push_back(null_stream.end());
    return cudaSuccess;
  }
  for (const cudaStream_t other : streams().open) {
    if (!other->blocking) continue;
    if (other->capture)
      return invalidate(*other->capture,
                        cudaErrorStreamCaptureImplicit,
                        "the null stream would wait for a stream that is being captured");
    if (!other->end().reached()) after.push_back(other->end());
  }
  return cudaSuccess;
}

}  // namespace

void open_stream(cudaStream_t stream) { streams().open.push_back(stream); }
bool close_stream(cudaStream_t stream) { return std::erase(streams().open, stream) > 0; }
std::vector<cudaStream_t> all_streams() {
  std::vector<cudaStream_t> all = streams().open;
  all.push_back(&streams().null_stream);
  return all;
}

bool is_null_stream(const CUstream_st& stream) { return &stream == &streams().null_stream; }

cudaError_t find_stream(cudaStream_t handle, cudaStream_t& stream) {
  if (in_host_function)
    return set_status(cudaErrorNotPermitted, "a function called by a stream uses streams");
  stream = handle == nullptr ? &streams().null_stream : handle;
  const std::vector<cudaStream_t> all = all_streams();
  if (std::ranges::find(all, stream) != all.end()) return cudaSuccess;
  return set_status(cudaErrorInvalidResourceHandle, "no such stream");
}

cudaError_t enqueue(Lock& lock, cudaStream_t handle, Work work, std::vector<Point> after) {
  cudaStream_t stream = nullptr;
  if (const cudaError_t status = find_stream(handle, stream); status != cudaSuccess) return status;
  if (stream->capture) return record(*stream, std::move(work));
  const cudaError_t status = order_with_null_stream(*stream, after);
  if (status != cudaSuccess) return status;
  if (work.counted != nullptr) count(work.counted);
  ++stream->queue->asked;
  stream->queue->items.push_back({std::move(after), std::move(work)});
  if (streams().mode != StreamMode::at_once) return cudaSuccess;
  run_until(lock, stream->end());
  return take_error();
}

cudaError_t enqueue(cudaStream_t stream, Work work) {
  Lock lock(device_in_use());
  return enqueue(lock, stream, std::move(work));
}

cudaError_t run_now(Lock& lock, Work work) {
  const cudaError_t status = enqueue(lock, nullptr, std::move(work));
  if (status != cudaSuccess) return status;
  run_until(lock, streams().null_stream.end());
  return take_error();
}

void run_until(Lock& lock, Point point) {
  Queue& queue = *point.queue;
  while (!point.reached()) {
    if (queue.busy)
      streams().progress.wait(lock);
    else if (streams().mode != StreamMode::others_first || !run_another(lock, queue))
      run_first(lock, queue);
  }
}

bool run_one(Lock& lock, Point point) {
  if (point.reached()) return false;
  Queue& queue = *point.queue;
  if (queue.busy) return true;
  // A copy: what is run may let others in.
  const std::vector<Point> after = queue.items.front().after;
  for (const Point& other : after)
    if (run_one(lock, other)) return true;
  run_first(lock, queue);
  return true;
}

void run_everything(Lock& lock) {
  std::vector<Point> ends;
  for (const cudaStream_t stream : all_streams()) ends.push_back(stream->end());
  for (const Point& end : ends) run_until(lock, end);
}

void count(std::size_t Calls::*counted) { ++(streams().calls.*counted); }

cudaError_t see_error() {
  std::optional<Fault>& failure = streams().failure;
  if (!failure && streams().breakdown.happened()) failure = streams().breakdown.fault();
  return failure ? set_status(failure->status(), failure->what()) : cudaSuccess;
}
cudaError_t take_error() {
  const cudaError_t status = see_error();
  streams().failure.reset();
  return status;
}

void set_stream_mode(StreamMode mode) {
  Lock lock(device_in_use());
  run_everything(lock);
  streams().failure.reset();
  streams().mode = mode;
}

void break_device(int status, std::size_t kernels) {
  const std::lock_guard lock(device_in_use());
  streams().breakdown = {cudaError_t(status), kernels};
  streams().failure.reset();
}

StreamMode stream_mode() { return streams().mode; }

Calls calls() {
  const std::lock_guard lock(device_in_use());
  return streams().calls;
}
void reset_calls() {
  const std::lock_guard lock(device_in_use());
  streams().calls = {};
}

}  // namespace lockstep::emulator
