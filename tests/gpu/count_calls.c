// SPDX-License-Identifier: Apache-2.0
// Counts a process's calls of the CUDA runtime and driver between two launches of a graph.
//
//   CUDA_INJECTION64_PATH=$PWD/libcount_calls.so COUNT_CALLS_OUT=FILE COUNT_CALLS_FIRST=100
//     COUNT_CALLS_LAST=200 PROGRAM...
//
// The driver loads the library where CUDA_INJECTION64_PATH names it. From the end of
// cudaGraphLaunch number FIRST to the end of number LAST, calls are counted by name, whichever
// thread makes them; FILE gets a JSON object, when LAST has been reached and again at the end of
// the process. What the runtime asks of the driver counts in both lists. CUPTI (libcupti.so.13, or
// the file that COUNT_CALLS_CUPTI names) is opened when the program starts; a program that uses it
// itself cannot be counted. What goes wrong is said in FILE as "trouble".
#include <cupti.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kCalls = 4096, kDomains = 2 };

static CUptiResult(CUPTIAPI* subscribe)(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*);
static CUptiResult(CUPTIAPI* enable_domain)(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain);
static CUptiResult(CUPTIAPI* callback_name)(CUpti_CallbackDomain, uint32_t, const char**);

static const CUpti_CallbackDomain kDomain[kDomains] = {CUPTI_CB_DOMAIN_RUNTIME_API,
                                                       CUPTI_CB_DOMAIN_DRIVER_API};
static const char* const kDomainName[kDomains] = {"runtime", "driver"};
static atomic_long counts[kDomains][kCalls];
static atomic_long seen, launches;
static long first, last;
static atomic_int counting;
static const char* trouble;

static void write_counts(void) {
  const char* path = getenv("COUNT_CALLS_OUT");
  FILE* file = path != NULL ? fopen(path, "w") : stderr;
  if (file == NULL) return;
  fprintf(file,
          "{\"trouble\": %s%s%s, \"first\": %ld, \"last\": %ld, \"launches\": %ld, "
          "\"calls_in_all\": %ld",
          trouble != NULL ? "\"" : "",
          trouble != NULL ? trouble : "null",
          trouble != NULL ? "\"" : "",
          first,
          last,
          atomic_load(&launches),
          atomic_load(&seen));
  for (int d = 0; d < kDomains; ++d) {
    fprintf(file, ", \"%s\": {", kDomainName[d]);
    const char* comma = "";
    for (int i = 0; i < kCalls; ++i) {
      const long count = atomic_load(&counts[d][i]);
      if (count == 0) continue;
      const char* name = NULL;
      if (callback_name(kDomain[d], (uint32_t)i, &name) != CUPTI_SUCCESS || name == NULL)
        name = "unknown";
      fprintf(file, "%s\"%s %d\": %ld", comma, name, i, count);
      comma = ", ";
    }
    fputs("}", file);
  }
  fputs("}\n", file);
  if (file != stderr) fclose(file);
}

static int launches_graph(int domain, CUpti_CallbackId id) {
  return domain == 0 && (id == CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000 ||
                         id == CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000);
}

static void CUPTIAPI on_call(void* user,
                             CUpti_CallbackDomain domain,
                             CUpti_CallbackId id,
                             const void* data) {
  (void)user;
  const int d = domain == CUPTI_CB_DOMAIN_RUNTIME_API  ? 0
                : domain == CUPTI_CB_DOMAIN_DRIVER_API ? 1
                                                       : -1;
  if (d < 0 || id >= kCalls) return;
  const CUpti_CallbackData* call = data;
  if (call->callbackSite == CUPTI_API_ENTER) {
    atomic_fetch_add(&seen, 1);
    if (atomic_load(&counting)) atomic_fetch_add(&counts[d][id], 1);
  } else if (launches_graph(d, id)) {
    const long now = atomic_fetch_add(&launches, 1) + 1;
    if (now == first) atomic_store(&counting, 1);
    if (now == last) {
      atomic_store(&counting, 0);
      write_counts();
    }
  }
}

static long number(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text != NULL ? strtol(text, NULL, 10) : otherwise;
}

static void* function(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) trouble = "CUPTI lacks a function";
  return found;
}

static void start(void) {
  const char* path = getenv("COUNT_CALLS_CUPTI");
  void* library = dlopen(path != NULL ? path : "libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    trouble = "CUPTI (libcupti.so.13) could not be opened";
    return;
  }
  void* functions[] = {function(library, "cuptiSubscribe"),
                       function(library, "cuptiEnableDomain"),
                       function(library, "cuptiGetCallbackName")};
  if (trouble != NULL) return;
  memcpy(&subscribe, &functions[0], sizeof subscribe);
  memcpy(&enable_domain, &functions[1], sizeof enable_domain);
  memcpy(&callback_name, &functions[2], sizeof callback_name);
  CUpti_SubscriberHandle subscriber;
  if (subscribe(&subscriber, on_call, NULL) != CUPTI_SUCCESS) {
    trouble = "CUPTI takes no subscriber";
    return;
  }
  for (int d = 0; d < kDomains; ++d)
    if (enable_domain(1, subscriber, kDomain[d]) != CUPTI_SUCCESS)
      trouble = "CUPTI reports no calls";
}

// Called by the driver.
__attribute__((visibility("default"))) int InitializeInjection(void);
int InitializeInjection(void) {
  first = number("COUNT_CALLS_FIRST", 100);
  last = number("COUNT_CALLS_LAST", 200);
  start();
  atexit(write_counts);
  return 1;
}
