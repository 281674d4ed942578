// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's functions of streams and events.
#include "tests/support/cuda_emulator/graphs.h"

using lockstep::emulator::Calls;
using lockstep::emulator::count;
using lockstep::emulator::device_in_use;
using lockstep::emulator::enqueue;
using lockstep::emulator::EventRecord;
using lockstep::emulator::find_stream;
using lockstep::emulator::Lock;
using lockstep::emulator::refuse_captured;
using lockstep::emulator::run_everything;
using lockstep::emulator::set_status;
using lockstep::emulator::take_error;

namespace {

cudaError_t new_stream(cudaStream_t* stream, unsigned flags, int priority = 0) {
  const Lock lock(device_in_use());
  *stream = new CUstream_st{.blocking = (flags & cudaStreamNonBlocking) == 0, .priority = priority};
  lockstep::emulator::open_stream(*stream);
  return cudaSuccess;
}

/// What a query of `point` says: work that is pending continues by an item, so that polling ends.
cudaError_t query(Lock& lock, const lockstep::emulator::Point& point) {
  const bool pending = run_one(lock, point);
  const cudaError_t status = take_error();
  if (status != cudaSuccess || !pending) return status;
  return set_status(cudaErrorNotReady, "work is pending");
}

}  // namespace

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return new_stream(stream, cudaStreamDefault); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return new_stream(stream, flags);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return new_stream(stream, flags, priority);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  Lock lock(device_in_use());
  cudaStream_t stream = nullptr;
  if (const cudaError_t status = find_stream(handle, stream); status != cudaSuccess) return status;
  if (handle == nullptr) return set_status(cudaErrorInvalidResourceHandle, "the null stream");
  run_until(lock, stream->end());
  if (const auto capture = stream->capture; capture && capture->origin == stream) {
    capture->ended = true;
    for (const cudaStream_t other : lockstep::emulator::all_streams())
      if (other->capture == capture) lockstep::emulator::leave_capture(*other);
  }
  lockstep::emulator::close_stream(stream);
  delete stream;
  return lockstep::emulator::see_error();
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  Lock lock(device_in_use());
  cudaStream_t stream = nullptr;
  if (const cudaError_t status = find_stream(handle, stream); status != cudaSuccess) return status;
  if (const cudaError_t status = refuse_captured(*stream, "cudaStreamSynchronize");
      status != cudaSuccess)
    return status;
  count(&Calls::host_waits);
  // An item, as the null stream's waits for other streams.
  if (const cudaError_t status = enqueue(lock, handle, {}); status != cudaSuccess) return status;
  run_until(lock, stream->end());
  return take_error();
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  Lock lock(device_in_use());
  cudaStream_t stream = nullptr;
  if (const cudaError_t status = find_stream(handle, stream); status != cudaSuccess) return status;
  if (const cudaError_t status = refuse_captured(*stream, "cudaStreamQuery"); status != cudaSuccess)
    return status;
  return query(lock, stream->end());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  Lock lock(device_in_use());
  cudaStream_t stream = nullptr;
  if (const cudaError_t status = find_stream(handle, stream); status != cudaSuccess) return status;
  if (!event->last) return cudaSuccess;
  if (event->last->capture) return wait_for_captured(*stream, *event->last);
  if (stream->capture)
    return invalidate(*stream->capture,
                      cudaErrorStreamCaptureIsolation,
                      "a capture would wait for an event that was recorded outside of it");
  return enqueue(lock, handle, {}, {event->last->point});
}

cudaError_t cudaDeviceSynchronize() {
  Lock lock(device_in_use());
  const cudaError_t status = lockstep::emulator::refuse_any_capture("cudaDeviceSynchronize");
  if (status != cudaSuccess) return status;
  count(&Calls::host_waits);
  run_everything(lock);
  return take_error();
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st{.timed = (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  Lock lock(device_in_use());
  cudaStream_t stream = nullptr;
  if (const cudaError_t status = find_stream(handle, stream); status != cudaSuccess) return status;
  const auto record = std::make_shared<EventRecord>();
  if (stream->capture) {
    if (stream->capture->invalid) return lockstep::emulator::record(*stream, {});
    record->capture = stream->capture;
    record->nodes = stream->nodes;
    event->last = record;
    return cudaSuccess;
  }
  record->point = {stream->queue, stream->queue->asked + 1};
  event->last = record;
  return enqueue(lock,
                 handle,
                 {.run = [record] { record->time = std::chrono::steady_clock::now(); },
                  .counted = &Calls::event_records});
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Lock lock(device_in_use());
  if (const cudaError_t status = refuse_captured(*event, "a query"); status != cudaSuccess)
    return status;
  return event->last ? query(lock, event->last->point) : cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Lock lock(device_in_use());
  if (const cudaError_t status = refuse_captured(*event, "a wait of the host");
      status != cudaSuccess)
    return status;
  count(&Calls::host_waits);
  if (event->last) run_until(lock, event->last->point);
  return take_error();
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const Lock lock(device_in_use());
  for (const cudaEvent_t event : {start, end})
    if (!event->timed || !event->last || event->last->capture)
      return set_status(
          cudaErrorInvalidResourceHandle,
          event->timed ? "an event was never recorded" : "an event was made without a time");
  if (!start->last->time || !end->last->time)
    return set_status(cudaErrorNotReady, "an event is pending");
  *milliseconds =
      std::chrono::duration<float, std::milli>(*end->last->time - *start->last->time).count();
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return enqueue(stream,
                 {.run = [function, argument] { function(argument); },
                  .of_host = true,
                  .counted = &Calls::host_functions});
}

extern "C" __attribute__((used, visibility("default"))) int lockstep_emulator_enqueue(
    void* stream, void (*work)(void*), void* argument, void (*release)(void*)) {
  const std::shared_ptr<void> owned(argument, [release](void* released) {
    if (release != nullptr) release(released);
  });
  return int(enqueue(static_cast<cudaStream_t>(stream),
                     {.run = [work, owned] { work(owned.get()); },
                      .of_host = true,
                      .counted = &Calls::host_functions}));
}
