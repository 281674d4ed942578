# Settings that every target shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(LOCKSTEP_TESTS "Build the tests" ON)
option(LOCKSTEP_BENCHMARKS "Build the benchmarks, with the tests" ON)
option(LOCKSTEP_ONEDNN "Products and convolutions of the CPU backend by oneDNN; OFF: by plain loops" ON)
option(LOCKSTEP_MPI "Build for several ranks, which need MPI; OFF: for one" ON)
option(LOCKSTEP_MPI_TESTS "Build the test programs that run under mpirun, with the tests" ON)
option(LOCKSTEP_WERROR "Warnings are errors, as in .ci/run; compilers differ in what they warn of" OFF)
option(LOCKSTEP_FUZZ "Build the parsers and their fuzzers alone, with clang's libFuzzer" OFF)
option(LOCKSTEP_FUZZ_COVERAGE "With LOCKSTEP_FUZZ: replay inputs and record which lines ran, with clang" OFF)
set(LOCKSTEP_SANITIZE "" CACHE STRING "Sanitizers, comma separated: address,undefined or thread")

# Some presets compile the files of a target in groups, each as one unit (CMAKE_UNITY_BUILD), which
# reads their headers once. So names in anonymous namespaces must differ within a library and within
# a test program, and in addition to our own namespace testing, GoogleTest's is `::testing`.

# Instruction sets that the CPU backend's own loops are compiled for, the baseline first.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(LOCKSTEP_LOOP_ISAS neon)
else()
  set(LOCKSTEP_LOOP_ISAS avx2 avx512)
endif()

# Code that no step runs, which is half of all: the compiler takes two thirds of the time for it so.
set(LOCKSTEP_COLD_CODE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# GCC searches its heap for unused memory from 128 MiB on, each time it has doubled, which takes 13 to 26%
# of the time of our large files. So it begins at 1 GiB: they take 0.9 to 1.3 GB then in place of 0.7 to 1.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1048576>)

# Host compiler's options, also for the host half of CUDA sources.
function(lockstep_host_options out)
  set(options)
  foreach(option ${ARGN})
    # nvcc makes options of its own of what stands between commas: -fsanitize=a,-fsanitize=b.
    string(REGEX MATCH "^-[a-z]+=" name "${option}")
    string(REPLACE "," ",${name}" cut "${option}")
    list(APPEND options $<$<COMPILE_LANGUAGE:CXX>:${option}> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${cut}>)
  endforeach()
  set(${out} ${options} PARENT_SCOPE)
endfunction()

lockstep_host_options(warnings -Wall -Wextra -Wshadow -Wnon-virtual-dtor)
add_library(lockstep_warnings INTERFACE)
target_compile_options(lockstep_warnings INTERFACE
  ${warnings}
  $<$<COMPILE_LANGUAGE:C>:-Wall> $<$<COMPILE_LANGUAGE:C>:-Wextra>
  # GCC 12 takes fmt 9's fill character for an overflow.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overflow>
  # GCC 12 sees overlaps in std::string that cannot be (GCC bug 105651).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)

if(LOCKSTEP_WERROR)
  target_compile_options(lockstep_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()

# Bits are promised: a*b+c may become one FMA only where the code says so.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)

# GCC 14.2 pairs loads and stores for arm64 wrongly where vectors are spilled: GEMMs have wrong rows
# (SmallGemm.* and CpuKernel.* find it) at -O2 and -O3. Neither pass alone is to blame, and aliasing is not the cause: -fno-strict-aliasing
# changes nothing. Without these passes its SLP vectorizer still breaks norms at -O3 (SquaredNorm.*): own loops are vectors already.
set(LOCKSTEP_TARGET_FLAGS "")
if("neon" IN_LIST LOCKSTEP_LOOP_ISAS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 14)
  set(LOCKSTEP_TARGET_FLAGS -mno-early-ldp-fusion -mno-late-ldp-fusion -fno-tree-slp-vectorize)
  foreach(flag ${LOCKSTEP_TARGET_FLAGS})
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${flag}>)
  endforeach()
endif()

# Two builds of a commit have the same bytes, whatever folders they are made in: paths in messages start at the
# source folder. Debug information names whole paths where one debugs, with sanitizers among them. Of
# several options that match, the last counts.
lockstep_host_options(path_maps
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= -fmacro-prefix-map=${PROJECT_BINARY_DIR}/=build/)
if(NOT LOCKSTEP_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  lockstep_host_options(debug_path_maps
    -fdebug-prefix-map=${PROJECT_SOURCE_DIR}=. -fdebug-prefix-map=${PROJECT_BINARY_DIR}=./build)
  list(APPEND path_maps ${debug_path_maps})
endif()
add_compile_options(${path_maps})
# D: neither times nor users in archives. Some builds of binutils write them otherwise.
foreach(language CXX CUDA)
  set(CMAKE_${language}_ARCHIVE_CREATE "<CMAKE_AR> qcD <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_APPEND "<CMAKE_AR> qD <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_FINISH "<CMAKE_RANLIB> -D <TARGET>")
endforeach()

if(LOCKSTEP_FUZZ_COVERAGE)
  add_compile_options(-fprofile-instr-generate -fcoverage-mapping)
  add_link_options(-fprofile-instr-generate)
endif()

if(LOCKSTEP_SANITIZE)
  # GCC 12 takes std::regex for uninitialised under sanitizers.
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  lockstep_host_options(sanitizers
    -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_compile_options(${sanitizers})
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=lld LOCKSTEP_HAS_LLD)  # links in a third of the time
  if(LOCKSTEP_HAS_LLD)
    add_link_options(-fuse-ld=lld)
  endif()
endif()
