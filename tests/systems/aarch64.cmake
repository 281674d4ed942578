# Cross-compiles for arm64 on Debian, with that architecture's packages next to the system's own, and has programs run
# under qemu: tests/systems/arm64.sh.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu /usr)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
# The compiler wrapper of that architecture does not run here.
set(openmpi /usr/lib/aarch64-linux-gnu/openmpi)
set(MPI_SKIP_COMPILER_WRAPPER ON)
set(MPI_CXX_HEADER_DIR ${openmpi}/include)
set(MPI_CXX_LIB_NAMES mpi)
set(MPI_mpi_LIBRARY ${openmpi}/lib/libmpi.so)
