/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts an object, reads a part of it back, clones it, and gets it without waiting.
 *
 *   verbena serve --memory 1G &
 *   cc put_get.c $(pkg-config --cflags --libs verbena-client) -o put_get && ./put_get 127.0.0.1
 * 7471
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <verbena/client.h>

static void check(int status, const char* what) {
  if (status == VERBENA_OK) return;
  fprintf(stderr, "put_get: %s: %s (%s)\n", what, verbena_last_error(),
          verbena_status_name(status));
  exit(1);
}

int main(int argc, char** argv) {
  static const char text[] = "Hello, chunk\n";
  struct verbena_options options = verbena_options_init();
  struct verbena_client* client = NULL;
  struct verbena_transfer transfer = verbena_transfer_init();
  struct verbena_completion completion = verbena_completion_init();
  struct verbena_request request = verbena_request_init();
  struct verbena_queue* queue = NULL;
  char part[5];

  if (argc > 1) options.host = argv[1];
  if (argc > 2) options.port = (uint16_t)atoi(argv[2]);
  check(verbena_connect(&options, &client), "connect");

  /* All of it, in one step: others see the old object or the new one. */
  check(verbena_put(client, verbena_name("greeting"), text, strlen(text), NULL, &transfer), "put");
  printf("put %llu bytes, CRC %08x\n", (unsigned long long)transfer.bytes, transfer.crc);

  /* A part of it. */
  check(verbena_read(client, verbena_name("greeting"), 7, part, sizeof part, NULL, NULL), "read");
  printf("read \"%.5s\"\n", part);

  /* A clone shares its data. */
  check(verbena_cow(client, verbena_name("greeting"), verbena_name("copy"), 1, 0, 0), "clone");

  /* The same without waiting: the queue has a descriptor for poll(2), too. */
  check(verbena_queue_create(16, &queue), "queue");
  request.operation = VERBENA_OP_GET;
  request.object = verbena_name("copy");
  request.queue = queue;
  check(verbena_submit(client, &request), "submit");
  check(verbena_queue_wait(queue, &completion, -1), "wait");
  if (completion.status != VERBENA_OK) {
    fprintf(stderr, "put_get: get: %s\n", completion.error);
    return 1;
  }
  printf("got %.*s", (int)completion.bytes, (const char*)completion.data);
  verbena_free(completion.data);

  check(verbena_remove(client, verbena_name("copy")), "remove");
  check(verbena_flush_all(client), "flush");
  verbena_queue_destroy(queue);
  verbena_disconnect(client);
  return 0;
}
