// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cupti_tracer.h"

#include <atomic>
#include <cupti.h>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "kernels/cuda/device/activity_join.h"
#include "kernels/cuda/device/device_tools.h"
#include "kernels/cuda/libraries/cuda_versions.h"
#include "kernels/cuda/libraries/library_file.h"
#include "kernels/cuda/libraries/package_names.h"

#define LOCKSTEP_CUPTI_FUNCTIONS(FUNCTION)         \
  FUNCTION(cuptiActivityDisable)                   \
  FUNCTION(cuptiActivityEnable)                    \
  FUNCTION(cuptiActivityFlushAll)                  \
  FUNCTION(cuptiActivityGetNextRecord)             \
  FUNCTION(cuptiActivityGetNumDroppedRecords)      \
  FUNCTION(cuptiActivityPopExternalCorrelationId)  \
  FUNCTION(cuptiActivityPushExternalCorrelationId) \
  FUNCTION(cuptiActivityRegisterCallbacks)         \
  FUNCTION(cuptiGetResultString)                   \
  FUNCTION(cuptiGetStreamIdEx)                     \
  FUNCTION(cuptiGetTimestamp)                      \
  FUNCTION(cuptiGetVersion)

namespace lockstep::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// CUPTI's functions under their own names.
struct Cupti {
#define LOCKSTEP_MEMBER(name) decltype(&::name) name = nullptr;
  LOCKSTEP_CUPTI_FUNCTIONS(LOCKSTEP_MEMBER)
#undef LOCKSTEP_MEMBER
};

// Calls of runtime and driver have to be taken down as well: their records carry the marks.
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                         CUPTI_ACTIVITY_KIND_RUNTIME,
                                         CUPTI_ACTIVITY_KIND_DRIVER,
                                         CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET};
constexpr CUpti_ExternalCorrelationKind kMarks = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

Cupti load_cupti(const DynamicLibrary& library) {
  Cupti functions;
#define LOCKSTEP_FIND(name) library.find(functions.name, #name);
  LOCKSTEP_CUPTI_FUNCTIONS(LOCKSTEP_FIND)
#undef LOCKSTEP_FIND
  return functions;
}

/// Empty where the interface `found` will do.
std::string why_unfit_cupti(std::uint32_t found) {
  constexpr std::uint32_t kBuilt = CUPTI_API_VERSION;
  if (cupti_cuda_major(found) == cupti_cuda_major(kBuilt) && found >= kBuilt) return {};
  return fmt::format("is version {}, and {} or later of CUDA {} is wanted",
                     cupti_version_text(found),
                     cupti_version_text(kBuilt),
                     cupti_cuda_major(kBuilt));
}

std::string refuse_cupti_file(const std::string& file) {
  const auto found = defined_beside(file, "cupti_version.h", "CUPTI_API_VERSION");
  return found && *found > 0 ? why_unfit_cupti(std::uint32_t(*found)) : std::string();
}

std::string refuse_cupti(void* library) {
  auto* const ask = function_of<decltype(cuptiGetVersion)>(library, "cuptiGetVersion");
  std::uint32_t found = 0;
  if (ask == nullptr) return "is not CUPTI: it lacks cuptiGetVersion";
  // Without a driver, CUPTI 13.5 does not say; the name has the right CUDA in any case.
  if (ask(&found) != CUPTI_SUCCESS) return {};
  return why_unfit_cupti(found);
}

std::string hint_for(CUptiResult status) {
  switch (status) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
      return "run as root, or let every user profile: NVreg_RestrictProfilingToAdminUsers=0 as an "
             "option of the kernel module nvidia (/etc/modprobe.d), then load it anew";
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
    case CUPTI_ERROR_DISABLED:
    case CUPTI_ERROR_HARDWARE_BUSY:
      return name_parameters(
          "another tool profiles this process or GPU (nsys, ncu, cuda-gdb): leave that one out, or "
          "`profile`: it shows its ranges as well");
    case CUPTI_ERROR_NOT_INITIALIZED:
      return "CUPTI cannot reach the driver: see lockstep doctor";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
      return "have profiling enabled for this virtual GPU, or use one that is not virtual";
    default:
      return "Nsight Systems (nsys profile) may say more; it shows Lockstep's ranges";
  }
}

/// The memory that CUPTI writes into. It stays: CUPTI's thread may have a piece until the end of
/// the process.
class Buffers {
 public:
  Buffers() : memory_(kCuptiBuffers * kWords), free_() {
    for (std::size_t i = 0; i < kCuptiBuffers; ++i)
      free_.push_back(reinterpret_cast<std::uint8_t*>(&memory_[i * kWords]));
  }
  std::uint8_t* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return nullptr;
    std::uint8_t* const buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  void give_back(std::uint8_t* buffer) {
    const std::lock_guard lock(mutex_);
    free_.push_back(buffer);
  }

 private:
  static constexpr std::size_t kWords = kCuptiBufferBytes / sizeof(std::uint64_t);
  std::mutex mutex_;
  std::vector<std::uint64_t> memory_;  // records are aligned to 8 bytes
  std::vector<std::uint8_t*> free_;
};

/// What is CUPTI's, of which a process has one: its functions, and what its thread calls.
struct Session {
  explicit Session(const LibraryName& name)
      : file(name.file), cupti(load_cupti(DynamicLibrary(name))) {}

  void read(std::uint8_t* buffer, std::size_t valid_bytes);
  void read(const CUpti_Activity& record);
  template <typename Record>
  void take(const Record& record, std::string_view name);
  /// Records that were not read, since the last call; a buffer counts as one.
  std::int64_t take_lost();

  const std::string file;
  const Cupti cupti;
  Buffers buffers;
  std::atomic<std::int64_t> unread_buffers{0};  // for want of memory
  std::mutex mutex;                             // of what follows
  DeviceActivitySink* sink = nullptr;           // null: no listener
  std::optional<ActivityJoin> join;
  std::int64_t clock_offset = 0;  // nanoseconds: Clock is CUPTI's time and that
};

Session* current = nullptr;  // set before CUPTI knows the callbacks

Session& session_of(const LibraryName& name) {
  if (current == nullptr || current->file != name.file) current = new Session(name);
  return *current;
}

void CUPTIAPI request_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = current->buffers.take();
  *bytes = *buffer == nullptr ? 0 : kCuptiBufferBytes;
  *most_records = 0;  // as many as there is room for
}

void CUPTIAPI complete_buffer(
    CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid_bytes) {
  try {
    current->read(buffer, valid_bytes);
  } catch (const std::bad_alloc&) {  // must not pass through CUPTI's own code
    ++current->unread_buffers;
  }
  current->buffers.give_back(buffer);
}

void Session::read(std::uint8_t* buffer, std::size_t valid_bytes) {
  const std::lock_guard lock(mutex);
  if (sink == nullptr) return;
  CUpti_Activity* record = nullptr;
  while (valid_bytes > 0 &&
         cupti.cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS)
    read(*record);
  join->resolve();
}

std::int64_t Session::take_lost() {
  std::size_t lost = 0;
  if (cupti.cuptiActivityGetNumDroppedRecords(nullptr, 0, &lost) != CUPTI_SUCCESS) lost = 0;
  return std::int64_t(lost) + unread_buffers.exchange(0);
}

std::string_view copy_name(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "copy to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "copy to host";
    default:
      return "copy";
  }
}

void Session::read(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& marked = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
      if (marked.externalKind == kMarks) join->mark(marked.correlationId, marked.externalId);
      break;
    }
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = reinterpret_cast<const CuptiKernel&>(record);
      take(kernel, kernel.name != nullptr ? kernel.name : "kernel");
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CuptiCopy&>(record);
      take(copy, copy_name(copy.copyKind));
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET:
      take(reinterpret_cast<const CuptiFill&>(record), "fill");
      break;
    default:
      break;
  }
}

template <typename Record>
void Session::take(const Record& record, std::string_view name) {
  // CUPTI had no memory on the device to take its times down.
  if (record.start == 0 && record.end == 0) return sink->lose(1);
  const auto at = [this](std::uint64_t time) {
    return Clock::time_point(std::chrono::nanoseconds(std::int64_t(time) + clock_offset));
  };
  join->take(
      record.correlationId,
      {.name = name, .stream = record.streamId, .begin = at(record.start), .end = at(record.end)});
}

class CuptiTracer final : public DeviceTracer {
 public:
  CuptiTracer(Session& session, NamedStreams streams)
      : session_(session), cupti_(session.cupti), streams_(std::move(streams)) {}
  CuptiTracer(const CuptiTracer&) = delete;
  CuptiTracer& operator=(const CuptiTracer&) = delete;
  ~CuptiTracer() override { stop(); }

  void start(DeviceActivitySink& sink) override {
    {
      const std::lock_guard lock(session_.mutex);
      LOCKSTEP_ASSERT(session_.sink == nullptr);
      session_.sink = &sink;
      session_.join.emplace(sink);
    }
    running_ = true;
    try {
      check(cupti_.cuptiActivityRegisterCallbacks(request_buffer, complete_buffer));
      read_clocks();
      name_streams(sink);
      for (const CUpti_ActivityKind kind : kKinds) check(cupti_.cuptiActivityEnable(kind));
    } catch (...) {
      stop();
      throw;
    }
  }

  // Both fail for an unknown kind of mark, or an empty stack, alone.
  void push(std::uint64_t mark) override {
    cupti_.cuptiActivityPushExternalCorrelationId(kMarks, mark);
  }
  void pop() override {
    std::uint64_t last = 0;
    cupti_.cuptiActivityPopExternalCorrelationId(kMarks, &last);
  }

  void stop() override {
    if (!running_) return;
    running_ = false;
    // Callbacks come from here or from CUPTI's thread, which needs the lock.
    for (const CUpti_ActivityKind kind : kKinds) cupti_.cuptiActivityDisable(kind);
    cupti_.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    const std::int64_t lost = session_.take_lost();
    const std::lock_guard lock(session_.mutex);
    try {
      session_.join->finish();
    } catch (const std::bad_alloc&) {  // this may be a destructor
      session_.sink->lose(1);
    }
    if (lost > 0) session_.sink->lose(lost);
    session_.join.reset();
    session_.sink = nullptr;
  }

 private:
  void check(CUptiResult status) const {
    if (status == CUPTI_SUCCESS) return;
    // Without a driver, every function of 13.5 returns CUPTI_ERROR_UNKNOWN, this one as well.
    const char* words = nullptr;
    const bool has_words =
        cupti_.cuptiGetResultString(status, &words) == CUPTI_SUCCESS && words != nullptr;
    throw EnvironmentError(
        fmt::format("kernel times by CUPTI: {}",
                    has_words ? words : fmt::format("CUPTI_ERROR {}", int(status))),
        hint_for(!has_words && status == CUPTI_ERROR_UNKNOWN ? CUPTI_ERROR_NOT_INITIALIZED
                                                             : status));
  }

  void name_streams(DeviceActivitySink& sink) const {
    for (const auto& [stream, name] : streams_) {
      std::uint32_t number = 0;
      if (cupti_.cuptiGetStreamIdEx(nullptr, static_cast<CUstream>(stream), 0, &number) ==
          CUPTI_SUCCESS)
        sink.name_stream(number, name);
    }
  }

  /// Reads both clocks as close together as a few tries allow.
  void read_clocks() {
    constexpr int kTries = 8;
    auto least = std::numeric_limits<std::int64_t>::max();
    for (int i = 0; i < kTries; ++i) {
      const auto nanoseconds = [] {
        return std::int64_t(std::chrono::nanoseconds(Clock::now().time_since_epoch()).count());
      };
      std::uint64_t time = 0;
      const std::int64_t before = nanoseconds();
      check(cupti_.cuptiGetTimestamp(&time));
      const std::int64_t took = nanoseconds() - before;
      if (took >= least) continue;
      least = took;
      session_.clock_offset = before + took / 2 - std::int64_t(time);
    }
  }

  Session& session_;
  const Cupti& cupti_;
  const NamedStreams streams_;
  bool running_ = false;
};

}  // namespace

LibraryName cupti_name() {
  constexpr int kMajor = CUDA_VERSION / 1000, kMinor = CUDA_VERSION % 1000 / 10;
  return {.file = fmt::format("libcupti.so.{}", kMajor),
          .version = cupti_version_text(CUPTI_API_VERSION),
          .how_to_install = how_to_install(
              "cuda-cupti", kMajor, "", fmt::format("cuda-cupti-{}-{}", kMajor, kMinor)),
          .refuse_file = refuse_cupti_file,
          .refuse = refuse_cupti};
}

std::unique_ptr<DeviceTracer> make_cupti_tracer(const LibraryName& name, NamedStreams streams) {
  return std::make_unique<CuptiTracer>(session_of(name), std::move(streams));
}

bool has_tracer() { return true; }

std::string tracer_file() { return DynamicLibrary(cupti_name()).path(); }

std::unique_ptr<DeviceTracer> make_tracer(NamedStreams streams) {
  return make_cupti_tracer(cupti_name(), std::move(streams));
}

}  // namespace lockstep::cuda
