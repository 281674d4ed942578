/* SPDX-License-Identifier: Apache-2.0 */
/* A tool as NVTX loads it (NVTX_INJECTION64_PATH): writes each range's begin and end to the file
   that FAKE_NVTX_FILE names. */
#include <inttypes.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE* file;
static uint64_t ranges;

static void write_range(const char* what, const nvtxEventAttributes_t* attributes) {
  const char* name = attributes->messageType == NVTX_MESSAGE_TYPE_REGISTERED
                         ? (const char*)attributes->message.registered
                         : "(not registered)";
  fprintf(file, "%s %s", what, name);
  if (attributes->payloadType == NVTX_PAYLOAD_TYPE_INT64)
    fprintf(file, " = %" PRId64, attributes->payload.llValue);
  fputc('\n', file);
}

static nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
  fprintf(file, "domain %s\n", name);
  return (nvtxDomainHandle_t)strdup(name);
}

static nvtxStringHandle_t NVTX_API register_string(nvtxDomainHandle_t domain, const char* text) {
  (void)domain;
  return (nvtxStringHandle_t)strdup(text);
}

static int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  (void)domain;
  write_range("push", attributes);
  return 0;
}

static int NVTX_API pop(nvtxDomainHandle_t domain) {
  (void)domain;
  fputs("pop\n", file);
  return 0;
}

static nvtxRangeId_t NVTX_API start(nvtxDomainHandle_t domain,
                                    const nvtxEventAttributes_t* attributes) {
  (void)domain;
  char what[32];
  snprintf(what, sizeof what, "start %" PRIu64, ++ranges);
  write_range(what, attributes);
  return ranges;
}

static void NVTX_API end(nvtxDomainHandle_t domain, nvtxRangeId_t range) {
  (void)domain;
  fprintf(file, "end %" PRIu64 "\n", (uint64_t)range);
}

__attribute__((visibility("default"))) int NVTX_API
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const NvtxExportTableCallbacks* callbacks = get_table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table = NULL;
  unsigned int size = 0;
  const char* path = getenv("FAKE_NVTX_FILE");
  file = path != NULL ? fopen(path, "w") : NULL;
  if (file == NULL || callbacks == NULL ||
      !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
    return 0;
  setvbuf(file, NULL, _IOLBF, 0);
  *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create_domain;
  *table[NVTX_CBID_CORE2_DomainRegisterStringA] = (NvtxFunctionPointer)register_string;
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
  *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
  *table[NVTX_CBID_CORE2_DomainRangeStartEx] = (NvtxFunctionPointer)start;
  *table[NVTX_CBID_CORE2_DomainRangeEnd] = (NvtxFunctionPointer)end;
  return 1;
}
