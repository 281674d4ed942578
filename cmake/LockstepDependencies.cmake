# The libraries that Lockstep is built with. All are looked for before one message names whatever is
# missing, what was found in its place, and the packages that hold it.
set(LOCKSTEP_MISSING "")
set(LOCKSTEP_MISSING_APT "")
set(LOCKSTEP_MISSING_DNF "")

# lockstep_need(NAME TITLE APT PACKAGES... DNF PACKAGES... [FIND ARGUMENTS...] [WITHOUT TEXT]):
# find_package(NAME ARGUMENTS...). A macro, so that what that sets is seen by whoever calls.
macro(lockstep_need name title)
  cmake_parse_arguments(NEED "" "WITHOUT" "APT;DNF;FIND" ${ARGN})
  find_package(${name} ${NEED_FIND} QUIET)
  if(NOT ${name}_FOUND)
    set(line "${title}")
    if(${name}_FOUND_INSTEAD)
      string(APPEND line " (found: ${${name}_FOUND_INSTEAD})")
    elseif(${name}_VERSION)
      string(APPEND line " (found: ${${name}_VERSION})")
    endif()
    if(NEED_WITHOUT)
      string(APPEND line "; to build without: ${NEED_WITHOUT}")
    endif()
    string(APPEND LOCKSTEP_MISSING "  - ${line}\n")
    list(APPEND LOCKSTEP_MISSING_APT ${NEED_APT})
    list(APPEND LOCKSTEP_MISSING_DNF ${NEED_DNF})
  endif()
endmacro()

set(LOCKSTEP_ONEDNN_VERSIONS 2.6...<4)

lockstep_need(fmt "fmt" APT libfmt-dev DNF fmt-devel)
lockstep_need(nlohmann_json "nlohmann-json" APT nlohmann-json3-dev DNF json-devel)
lockstep_need(ZLIB "zlib" APT zlib1g-dev DNF zlib-devel)
lockstep_need(JPEG "libjpeg-turbo" APT libjpeg-dev DNF libjpeg-turbo-devel)
lockstep_need(PNG "libpng" APT libpng-dev DNF libpng-devel)
lockstep_need(OpenSSL "OpenSSL" APT libssl-dev DNF openssl-devel FIND COMPONENTS Crypto)
lockstep_need(CLI11 "CLI11" APT libcli11-dev DNF cli11-devel)
if(NOT LOCKSTEP_FUZZ)
  if(LOCKSTEP_ONEDNN)
    lockstep_need(OneDNN "oneDNN 2.6 to 3" APT libdnnl-dev DNF onednn-devel FIND ${LOCKSTEP_ONEDNN_VERSIONS}
      WITHOUT "-DLOCKSTEP_ONEDNN=OFF (plain loops in its place, several times slower)")
    lockstep_need(OpenMP "OpenMP of the compiler" APT libgomp1 DNF libgomp FIND COMPONENTS CXX)
  endif()
  if(LOCKSTEP_MPI)
    # Of a package that programs need, mpirun is there, and what compilers need is not.
    find_program(mpirun NAMES mpirun mpiexec NO_CACHE)
    if(mpirun)
      set(MPI_FOUND_INSTEAD "${mpirun}, but no mpi.h and library that go with it")
    endif()
    lockstep_need(MPI "MPI with its headers" APT libopenmpi-dev openmpi-bin DNF openmpi-devel FIND COMPONENTS CXX
      WITHOUT "-DLOCKSTEP_MPI=OFF (one rank alone)")
  endif()
  lockstep_need(Protobuf "protobuf 3.12 or later, with protoc" APT libprotobuf-dev protobuf-compiler
    DNF protobuf-devel protobuf-compiler FIND 3.12)
  if(LOCKSTEP_TESTS)
    lockstep_need(GTest "GoogleTest with GoogleMock" APT libgtest-dev libgmock-dev DNF gtest-devel gmock-devel
      WITHOUT "-DLOCKSTEP_TESTS=OFF")
  endif()
endif()

# NEON in place of AVX2: headers alone.
if("neon" IN_LIST LOCKSTEP_LOOP_ISAS AND NOT LOCKSTEP_FUZZ)
  find_path(SIMDE_INCLUDE_DIR simde/x86/avx2.h)
  if(NOT SIMDE_INCLUDE_DIR)
    string(APPEND LOCKSTEP_MISSING "  - SIMDe 0.7 or later (simde/x86/avx2.h)\n")
    list(APPEND LOCKSTEP_MISSING_APT libsimde-dev)
    list(APPEND LOCKSTEP_MISSING_DNF simde-devel)
  endif()
endif()

# Not needed to build: pages of `lockstep report` have tables alone without it.
set(LOCKSTEP_CHART_JS_HINT "Chart.js 3 or 4 (one file, such as chart.min.js), without which the pages of lockstep report \
and lockstep scale have tables and no charts; found elsewhere by -DLOCKSTEP_CHART_JS=FILE, -DLOCKSTEP_CHART_JS=OFF: without")
file(TO_CMAKE_PATH "$ENV{CMAKE_PREFIX_PATH}" places)
list(APPEND places ${CMAKE_PREFIX_PATH} /usr/local /usr)
list(TRANSFORM places APPEND /share/javascript/chart.js)
find_file(LOCKSTEP_CHART_JS NAMES chart.umd.min.js chart.umd.js chart.min.js Chart.min.js PATHS ${places} NO_DEFAULT_PATH
  DOC "Chart.js 3 or 4, put into the pages of lockstep report; OFF: tables alone")
if(LOCKSTEP_CHART_JS AND NOT EXISTS "${LOCKSTEP_CHART_JS}")
  message(FATAL_ERROR "LOCKSTEP_CHART_JS: there is no ${LOCKSTEP_CHART_JS}")
endif()
if(LOCKSTEP_CHART_JS MATCHES "NOTFOUND$")
  message(WARNING "not found: ${LOCKSTEP_CHART_JS_HINT}\n"
    "Debian, Ubuntu: apt-get install libjs-chart.js\n"
    "Fedora, RHEL:   no package; npm pack chart.js has dist/chart.umd.js")
endif()

if(LOCKSTEP_MISSING)
  if(LOCKSTEP_CHART_JS MATCHES "NOTFOUND$")
    string(APPEND LOCKSTEP_MISSING "  - optional: ${LOCKSTEP_CHART_JS_HINT}\n")
    list(APPEND LOCKSTEP_MISSING_APT libjs-chart.js)
  endif()
  list(JOIN LOCKSTEP_MISSING_APT " " apt)
  list(JOIN LOCKSTEP_MISSING_DNF " " dnf)
  message(FATAL_ERROR "Lockstep needs what was not found:\n${LOCKSTEP_MISSING}"
    "Debian, Ubuntu: apt-get install ${apt}\n"
    "Fedora, RHEL:   dnf install ${dnf}\n"
    "What is installed in a folder of its own is found through CMAKE_PREFIX_PATH, also as an "
    "environment variable; on Fedora and RHEL MPI is found after: module load mpi")
endif()

if(NOT LOCKSTEP_FUZZ AND LOCKSTEP_MPI)
  include(LockstepMpiCheck)
endif()

# Images are decoded in part, which libjpeg-turbo can and the original library cannot.
include(CheckCXXSymbolExists)
set(CMAKE_REQUIRED_LIBRARIES JPEG::JPEG)
check_cxx_symbol_exists(jpeg_crop_scanline "cstdio;jpeglib.h" LOCKSTEP_JPEG_CROPS)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT LOCKSTEP_JPEG_CROPS)
  message(FATAL_ERROR "libjpeg lacks jpeg_crop_scanline: install libjpeg-turbo 1.5 or later")
endif()
