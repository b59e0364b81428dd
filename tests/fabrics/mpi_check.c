/* SPDX-License-Identifier: Apache-2.0
 * An MPI job that checks every byte it receives, and prints latency and bandwidth: messages of all sizes
 * between neighbours, both ways at once, collectives, and one-sided puts and gets. Exits with 1 and says
 * where a byte was wrong. Prints "payload N": the bytes that this rank handed to others.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kLargest = 4 << 20, kSmallRounds = 500, kLargeRounds = 20 };

static int rank, ranks;
static unsigned long long payload;

static unsigned char byte_of(int from, int round, size_t at) { return (unsigned char)(from * 31 + round * 7 + at * 13 + (at >> 8)); }

static void fill(unsigned char* to, size_t bytes, int from, int round) {
  for (size_t i = 0; i < bytes; ++i) to[i] = byte_of(from, round, i);
}

static void check(const unsigned char* got, size_t bytes, int from, int round, const char* what) {
  for (size_t i = 0; i < bytes; ++i) {
    if (got[i] == byte_of(from, round, i)) continue;
    printf("rank %d: %s of %zu bytes from rank %d: byte %zu is wrong\n", rank, what, bytes, from, i);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

static void neighbours(unsigned char* out, unsigned char* in) {
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  int round = 0;
  for (size_t bytes = 0; bytes <= kLargest; bytes = bytes == 0 ? 1 : bytes * 4 + (bytes & 1), ++round) {
    fill(out, bytes, rank, round);
    memset(in, 0xee, bytes);
    MPI_Sendrecv(out, (int)bytes, MPI_BYTE, to, round, in, (int)bytes, MPI_BYTE, from, round, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    check(in, bytes, from, round, "a message");
    payload += bytes;
  }
}

static void collectives(unsigned char* out, unsigned char* in) {
  const size_t each = 10007;
  for (int i = 0; i < ranks; ++i) fill(out + i * each, each, rank, i);
  MPI_Alltoall(out, (int)each, MPI_BYTE, in, (int)each, MPI_BYTE, MPI_COMM_WORLD);
  for (int i = 0; i < ranks; ++i) check(in + i * each, each, i, rank, "alltoall");
  payload += each * (size_t)(ranks - 1);
  double sum = 0, mine = rank + 0.5;
  MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (sum != ranks * ranks / 2.0) {
    printf("rank %d: the sum is %f\n", rank, sum);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

static void one_sided(unsigned char* out, unsigned char* in) {
  const size_t bytes = 300000;
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  MPI_Win window;
  MPI_Win_create(in, (MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  fill(out, bytes, rank, 99);
  MPI_Win_fence(0, window);
  MPI_Put(out, (int)bytes, MPI_BYTE, to, 0, (int)bytes, MPI_BYTE, window);
  MPI_Win_fence(0, window);
  check(in, bytes, from, 99, "a put");
  MPI_Get(out, (int)bytes, MPI_BYTE, to, 0, (int)bytes, MPI_BYTE, window);
  MPI_Win_fence(0, window);
  check(out, bytes, rank, 99, "a get");
  MPI_Win_free(&window);
  payload += bytes;
}

/* Between ranks 0 and 1; seconds for one way. */
static double ping_pong(unsigned char* buffer, int bytes, int rounds) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double began = MPI_Wtime();
  for (int i = 0; i < rounds && rank < 2; ++i) {
    if (rank == i % 2) {
      MPI_Send(buffer, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD);
      payload += (unsigned long long)bytes;
    } else {
      MPI_Recv(buffer, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }
  return (MPI_Wtime() - began) / rounds;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  unsigned char* const out = malloc(kLargest);
  unsigned char* const in = malloc(kLargest);
  neighbours(out, in);
  collectives(out, in);
  one_sided(out, in);
  const double latency = ping_pong(out, 8, kSmallRounds);
  const double transfer = ping_pong(out, 1 << 20, kLargeRounds);
  if (rank == 0) printf("latency of 8 bytes: %.1f us; bandwidth at 1 MiB: %.0f MB/s\n", latency * 1e6, (1 << 20) / transfer / 1e6);
  printf("payload %llu\n", payload);
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
