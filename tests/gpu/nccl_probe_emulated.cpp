// SPDX-License-Identifier: Apache-2.0
// The NCCL probe on the emulated device, over the NCCL that tests/nccl plays. NCCL_PROBE_PLAYS says
// what goes wrong: init_fails, never_joins, fails_at=N, fails_at_replay=N, dies_at_replay=N.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <mpi.h>
#include <nccl.h>
#include <string>

#include "tests/gpu/nccl_probe.h"
#include "tests/nccl/fake_nccl.h"
#include "tests/support/cuda_emulator/streams.h"

namespace {

FakeNccl* open_fake() {
  void* library = dlopen(FAKE_NCCL, RTLD_NOW);
  if (library == nullptr) library = dlopen("libfake_nccl.so", RTLD_NOW);  // next to it, in a bundle
  void* found = library != nullptr ? dlsym(library, "fake_nccl") : nullptr;
  if (found == nullptr) return nullptr;
  FakeNccl* fake = reinterpret_cast<FakeNccl* (*)()>(found)();
  fake->is_device = [](const void* memory, std::size_t bytes) {
    const auto* bytes_of = static_cast<const char*>(memory);
    for (const char* place : {bytes_of, bytes_of + bytes - 1}) {
      cudaPointerAttributes attributes;
      if (cudaPointerGetAttributes(&attributes, place) != cudaSuccess) return false;
      if (attributes.type != cudaMemoryTypeDevice) return false;
    }
    return true;
  };
  fake->take = [](std::size_t bytes) {
    void* memory = nullptr;
    cudaMalloc(&memory, bytes);
    return memory;
  };
  fake->give_back = [](void* memory) { cudaFree(memory); };
  fake->capture_of = lockstep::emulator::capture_number;
  return fake;
}

/// False: there is no such fault.
bool play(const std::string& fault, FakeNccl& fake) {
  const std::size_t equals = fault.find('=');
  const std::string name = fault.substr(0, equals);
  const int number = equals == std::string::npos ? 0 : std::atoi(fault.c_str() + equals + 1);
  if (name == "init_fails")
    fake.init_status = ncclSystemError;
  else if (name == "never_joins")
    fake.never_joins = true;
  else if (name == "fails_at")
    fake.fails_at = number;
  else if (name == "fails_at_replay")
    fake.fails_at_replay = number;
  else if (name == "dies_at_replay")
    fake.dies_at_replay = number;
  else
    return false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  FakeNccl* fake = open_fake();
  if (fake == nullptr) return std::fprintf(stderr, "nccl_probe: %s\n", dlerror()), 2;
  const char* fault = std::getenv("NCCL_PROBE_PLAYS");
  if (fault != nullptr && !play(fault, *fake))
    return std::fprintf(stderr, "nccl_probe: NCCL_PROBE_PLAYS=%s: unknown\n", fault), 2;
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  return run_nccl_probe(argc, argv);
}
