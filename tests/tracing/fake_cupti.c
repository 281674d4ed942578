/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_cupti.h"

#include <cupti.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define MOST_MARKS 64
#define MOST_BUFFERS 64
#define MOST_BACKWARDS 100

struct Buffer {
  uint8_t* data;
  size_t bytes, used;
};

static struct FakeCupti fake = {.version = CUPTI_API_VERSION};
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static uint64_t marks[MOST_MARKS];
static uint32_t calls;
static size_t dropped;
static struct Buffer held[MOST_BUFFERS];
static int held_count;
/* Of the host's calls and their marks, and of what the device did; in the easy order all in one. */
static struct Buffer open_buffers[2];
static struct Buffer swapped; /* full, behind the next one */

union DeviceRecord {
  CUpti_ActivityKernel9 kernel;
  CUpti_ActivityMemcpy5 copy;
};
static struct {
  union DeviceRecord record;
  size_t bytes;
} backwards[MOST_BACKWARDS];
static int backwards_count;

struct FakeCupti* fake_cupti(void) { return &fake; }

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + FAKE_CUPTI_AHEAD_NS;
}

static void* complete_one(void* buffer) {
  const struct Buffer* full = buffer;
  complete(NULL, 0, full->data, full->bytes, full->used);
  return NULL;
}

/* On another thread, as CUPTI does. */
static void hand_over(struct Buffer full) {
  pthread_t thread;
  pthread_create(&thread, NULL, complete_one, &full);
  pthread_join(thread, NULL);
}

static void close_buffer(struct Buffer* open) {
  const struct Buffer full = *open;
  open->data = NULL;
  if (full.data == NULL) return;
  if (fake.holds_buffers) {
    held[held_count++] = full;
  } else if (fake.hard_order && swapped.data == NULL) {
    swapped = full;
  } else {
    hand_over(full);
    if (swapped.data != NULL) hand_over(swapped);
    swapped.data = NULL;
  }
}

static void add_record(struct Buffer* open, const void* record, size_t bytes) {
  if (open->data != NULL && open->used + bytes > open->bytes) close_buffer(open);
  if (open->data == NULL) {
    size_t most = 0;
    open->used = 0;
    request(&open->data, &open->bytes, &most);
  }
  if (open->data == NULL) {
    ++dropped;
    return;
  }
  memcpy(open->data + open->used, record, bytes);
  open->used += bytes;
}

static void add_backwards(void) {
  while (backwards_count > 0) {
    --backwards_count;
    add_record(&open_buffers[1],
               &backwards[backwards_count].record,
               backwards[backwards_count].bytes);
  }
}

static void add_device_record(const void* record, size_t bytes) {
  if (!fake.hard_order) {
    add_record(&open_buffers[0], record, bytes);
    return;
  }
  if (backwards_count == MOST_BACKWARDS) add_backwards();
  memcpy(&backwards[backwards_count].record, record, bytes);
  backwards[backwards_count++].bytes = bytes;
}

static void add_mark(void) {
  if (fake.depth == 0) return;
  CUpti_ActivityExternalCorrelation record = {
      .kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
      .externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
      .externalId = marks[fake.depth - 1],
      .correlationId = calls};
  add_record(&open_buffers[0], &record, sizeof record);
}

static void add_call(const void* record, size_t bytes) {
  const CUpti_ActivityAPI call = {.kind = CUPTI_ACTIVITY_KIND_RUNTIME, .correlationId = calls};
  add_record(&open_buffers[0], &call, sizeof call);
  if (!fake.marks_late) add_mark();
  add_device_record(record, bytes);
  if (fake.marks_late) add_mark();
}

static void add_kernel(const char* name, uint32_t stream, uint64_t begin, uint64_t end) {
  if (fake.enabled == 0) return;
  CUpti_ActivityKernel9 kernel;
  memset(&kernel, 0, sizeof kernel);
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.correlationId = ++calls;
  kernel.name = name;
  kernel.streamId = stream;
  kernel.start = begin;
  kernel.end = end;
  add_call(&kernel, sizeof kernel);
}

void fake_cupti_kernel(const char* name, uint32_t stream, uint64_t ns) {
  const uint64_t begin = now_ns();
  add_kernel(name, stream, begin, begin + ns);
}

/* One after another, as a stream does. */
static void add_kernels_of_pop(void) {
  static const char* const name = "_ZN8lockstep4cuda11fake_kernelEPfS1_l";
  static uint64_t free_from;
  if (free_from < now_ns()) free_from = now_ns();
  for (int i = 0; i < fake.kernels_by_pop; ++i, free_from += 1000) {
    add_kernel(name, 7, free_from, free_from + 1000);
    if (fake.two_streams) add_kernel(name, 8, free_from, free_from + 1000);
  }
}

void fake_cupti_untimed_kernel(void) { add_kernel("untimed", 7, 0, 0); }

void fake_cupti_copy(uint64_t ns) {
  CUpti_ActivityMemcpy5 copy;
  memset(&copy, 0, sizeof copy);
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  copy.correlationId = ++calls;
  copy.streamId = 7;
  copy.start = now_ns();
  copy.end = copy.start + ns;
  add_call(&copy, sizeof copy);
}

CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = (uint32_t)fake.version;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult status, const char** words) {
  *words = status == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
           : status == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
               ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
               : "CUPTI_ERROR_UNKNOWN";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t* time) {
  *time = now_ns();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                           CUpti_BuffersCallbackCompleteFunc completed) {
  request = requested;
  complete = completed;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  (void)kind;
  if (fake.enable_status != CUPTI_SUCCESS) return (CUptiResult)fake.enable_status;
  ++fake.enabled;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  (void)kind;
  if (fake.enabled > 0) --fake.enabled;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  (void)flag;
  for (int i = 0; i < held_count; ++i) hand_over(held[i]);
  held_count = 0;
  add_backwards();
  struct Buffer* const last[] = {&open_buffers[1], &swapped, &open_buffers[0]};
  for (int i = 0; i < 3; ++i) {
    if (last[i]->data != NULL) hand_over(*last[i]);
    last[i]->data = NULL;
  }
  return CUPTI_SUCCESS;
}

static size_t size_of(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel9);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy5);
    default:
      return sizeof(CUpti_ActivityAPI);
  }
}

CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t bytes, CUpti_Activity** record) {
  uint8_t* next = *record == NULL ? buffer : (uint8_t*)*record + size_of(*record);
  if (next >= buffer + bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = (CUpti_Activity*)next;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t* count) {
  (void)context;
  (void)stream;
  *count = dropped;
  dropped = 0;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread, uint32_t* id) {
  (void)context;
  (void)per_thread;
  if (stream == NULL) return CUPTI_ERROR_INVALID_STREAM;
  *id = 7 + (uint32_t)fake.streams++;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                   uint64_t id) {
  (void)kind;
  if (fake.depth == MOST_MARKS) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  marks[fake.depth++] = id;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                  uint64_t* last) {
  (void)kind;
  if (fake.depth == 0) return CUPTI_ERROR_QUEUE_EMPTY;
  add_kernels_of_pop();
  *last = marks[--fake.depth];
  return CUPTI_SUCCESS;
}
