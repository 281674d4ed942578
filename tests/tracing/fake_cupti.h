/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A CUPTI that is played. It takes down nothing by itself: kernels happen as these functions say,
   under the mark that was pushed last, and come back in records of cupti.h's own types. */

/* Times of records are those of CLOCK_MONOTONIC and this. */
#define FAKE_CUPTI_AHEAD_NS 5000000000000LL

struct FakeCupti {
  int version;        /* as CUPTI_API_VERSION */
  int enable_status;  /* of cuptiActivityEnable */
  int kernels_by_pop; /* so many happen at each pop, a microsecond each */
  int two_streams;    /* another stream has the same kernels at the same time */
  int marks_late;     /* a call's mark comes behind what the device did for it */
  int hard_order;     /* as CUPTI may: what the device did comes in buffers of its own, backwards
                         and ahead of its marks, and of two full buffers the later one first */
  int holds_buffers;  /* full ones are handed over by the flush alone */
  int streams;        /* whose numbers were asked for: 7, 8 and so on */
  int enabled;        /* kinds that are enabled now */
  int depth;          /* marks that are pushed now */
};

struct FakeCupti* fake_cupti(void);

/* A kernel ran on `stream` for `ns` nanoseconds from now on; a copy to the host did; a kernel whose
   times CUPTI could not take down did. */
void fake_cupti_kernel(const char* name, uint32_t stream, uint64_t ns);
void fake_cupti_copy(uint64_t ns);
void fake_cupti_untimed_kernel(void);
