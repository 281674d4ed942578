# The GPU kit: what run.sh needs of a build, on a GPU and on the emulated device. Included last, since
# it names programs of other suites. Targets gpu_kit and gpu_kit_emulated; run.sh and bundle.sh find
# the programs through tests/gpu/programs_gpu.txt and programs_emulated.txt of the build folder, lines
# of "name file".
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# lockstep_kit(KIND NAME=TARGET...): the list of KIND, of those targets that there are.
function(lockstep_kit kind)
  set(lines)
  add_custom_target(${kind})
  foreach(pair ${ARGN})
    string(REPLACE "=" ";" pair ${pair})
    list(GET pair 0 name)
    list(GET pair 1 target)
    if(NOT TARGET ${target})
      continue()
    endif()
    add_dependencies(${kind} ${target})
    string(APPEND lines "${name} $<TARGET_FILE:${target}>\n")
    # In a bundle libraries lie next to the programs, and are taken before the system's.
    if(NOT target STREQUAL lockstep)
      set_property(TARGET ${target} APPEND PROPERTY BUILD_RPATH "$ORIGIN/../lib/lockstep")
      set_property(TARGET ${target} APPEND PROPERTY LINK_OPTIONS -Wl,--disable-new-dtags)
    endif()
  endforeach()
  string(REPLACE "gpu_kit_emulated" "programs_emulated" file ${kind})
  string(REPLACE "gpu_kit" "programs_gpu" file ${file})
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/tests/gpu/${file}.txt CONTENT "${lines}")
endfunction()

if(LOCKSTEP_HAS_CUDA)
  if(LOCKSTEP_HAS_NCCL)
    add_executable(nccl_probe gpu/nccl_probe.cpp gpu/nccl_probe_main.cpp)
    target_include_directories(nccl_probe PRIVATE ${PROJECT_SOURCE_DIR})
    target_include_directories(nccl_probe SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
    target_link_libraries(nccl_probe PRIVATE
      lockstep_nccl lockstep_core lockstep_warnings CUDA::cudart_static)
  endif()
  if(CUPTI_INCLUDE_DIR)
    enable_language(C)
    add_library(count_calls SHARED gpu/count_calls.c)
    target_include_directories(count_calls SYSTEM PRIVATE ${CUPTI_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(count_calls PRIVATE lockstep_warnings ${CMAKE_DL_LIBS})
  endif()
  lockstep_kit(gpu_kit lockstep=lockstep cuda_ops_test=cuda_ops_test_gpu
    cuda_libraries_test=cuda_libraries_test agreement_test=agreement_test_gpu
    kernel_times_test=kernel_times_test operator_rates=operator_rates nccl_probe=nccl_probe
    libcount_calls.so=count_calls libstand_in_9_19_cuda12.so=stand_in_9_19_cuda12
    libstand_in_9_20_cuda13.so=stand_in_9_20_cuda13)
endif()

if(TARGET lockstep_kernels_cuda_emulated AND NOT LOCKSTEP_SANITIZE)
  # The emulated device stands ahead of what the launcher would take, whole, as nobody has asked for
  # it when the linker comes by.
  add_executable(lockstep_emulated ${PROJECT_SOURCE_DIR}/launcher/commands/main.cpp)
  target_link_libraries(lockstep_emulated PRIVATE -Wl,--whole-archive lockstep_kernels_cuda_emulated
    -Wl,--no-whole-archive lockstep_launcher lockstep_warnings)
  if(TARGET lockstep_nccl_emulated)
    add_executable(nccl_probe_emulated gpu/nccl_probe.cpp gpu/nccl_probe_emulated.cpp)
    target_include_directories(nccl_probe_emulated PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(nccl_probe_emulated PRIVATE lockstep_nccl_emulated lockstep_nccl_headers
      lockstep_core lockstep_warnings MPI::MPI_CXX ${CMAKE_DL_LIBS})
    add_dependencies(nccl_probe_emulated fake_nccl)
    target_compile_definitions(nccl_probe_emulated PRIVATE FAKE_NCCL="$<TARGET_FILE:fake_nccl>")
    set_target_properties(nccl_probe_emulated PROPERTIES ENABLE_EXPORTS ON)  # NCCL looks for the emulator by name
  endif()
  lockstep_kit(gpu_kit_emulated lockstep=lockstep_emulated cuda_ops_test=cuda_ops_test_emulated
    agreement_test=agreement_test_emulated operator_rates=operator_rates_emulated
    nccl_probe=nccl_probe_emulated libfake_nccl.so=fake_nccl)
endif()

# run.sh, run_tests.py and pack_kit.py, without a GPU: lockstep_kit_test(NAME TIMEOUT LABEL ARGUMENTS...).
function(lockstep_kit_test name timeout label)
  add_test(NAME gpu.Kit${name}
    COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tests/gpu/kit_test.py ${name} ${ARGN})
  set_tests_properties(gpu.Kit${name} PROPERTIES LABELS ${label} TIMEOUT ${timeout})
endfunction()
lockstep_kit_test(NoGpu 60 cpu)
lockstep_kit_test(Stages 180 cpu)
lockstep_kit_test(Tests 120 cpu)
lockstep_kit_test(Scripts 60 cpu)
if(TARGET nccl_probe_emulated)
  lockstep_kit_test(Probe 180 cpu $<TARGET_FILE:nccl_probe_emulated>)
endif()
# Minutes: where they are asked for, and before a bundle goes to a GPU.
if(TARGET lockstep_emulated)
  lockstep_kit_test(Emulated 900 kit ${PROJECT_BINARY_DIR})
  lockstep_kit_test(Bundle 1800 kit ${PROJECT_BINARY_DIR})
endif()
