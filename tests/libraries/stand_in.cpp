// SPDX-License-Identifier: Apache-2.0
// A shared library that answers as NVIDIA's do when they are asked for their versions, and does
// nothing else: STAND_IN_MAJOR, STAND_IN_MINOR, STAND_IN_CUDA (12040).
#include <cstddef>

extern "C" {

int cudnnGetProperty(int part, int* value) {
  *value = part == 0 ? STAND_IN_MAJOR : part == 1 ? STAND_IN_MINOR : 0;
  return 0;
}
std::size_t cudnnGetCudartVersion() { return STAND_IN_CUDA; }
int cublasLtGetProperty(int part, int* value) { return cudnnGetProperty(part, value); }
int ncclGetVersion(int* version) {
  *version = STAND_IN_MAJOR * 10000 + STAND_IN_MINOR * 100;
  return 0;
}

}  // extern "C"
