/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded before oneDNN, it says in oneDNN's place that it is version 1.2.3; all else stays oneDNN's. */
struct Version { /* the head of dnnl_version_t */
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
};

const struct Version* dnnl_version(void);

const struct Version* dnnl_version(void) {
  static const struct Version version = {1, 2, 3, "", 0, 0};
  return &version;
}
