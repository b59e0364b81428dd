// SPDX-License-Identifier: Apache-2.0
#include "processes/board.h"

#include <sys/mman.h>

#include "base/check.h"

namespace verbena::processes {

Board* make_board() {
  void* const at =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  VERBENA_CHECK(at != MAP_FAILED);
  return static_cast<Board*>(at);
}

void drop_board(Board* board) { ::munmap(board, sizeof(Board)); }

}  // namespace verbena::processes
