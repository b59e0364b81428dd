// SPDX-License-Identifier: Apache-2.0
// librpma on the device: the client writes a pattern into the server's memory, flushes it, reads it back and compares.
// rpma_check PORT          the server; compares the pattern when the client has disconnected
// rpma_check PORT ADDRESS  the client
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBytes = 1 << 20, kPiece = 1 << 16 };

static void check(int result, const char* what) {
  if (result == 0) return;
  fprintf(stderr, "%s: %s\n", what, rpma_err_2str(result));
  exit(1);
}

static void fill(unsigned char* bytes) {
  unsigned state = 12345;
  for (int i = 0; i < kBytes; ++i) {
    state = state * 1103515245u + 12345u;
    bytes[i] = (unsigned char)(state >> 16);
  }
}

static void* memory(void) {
  void* const bytes = aligned_alloc(4096, kBytes);
  if (bytes == NULL) exit(1);
  memset(bytes, 0, kBytes);
  return bytes;
}

static struct rpma_peer* peer_at(const char* address) {
  struct ibv_context* context;
  struct rpma_peer* peer;
  check(rpma_utils_get_ibv_context(address, RPMA_UTIL_IBV_CONTEXT_LOCAL, &context), "ibv_context");
  check(rpma_peer_new(context, &peer), "peer");
  return peer;
}

static void expect(struct rpma_conn* connection, enum rpma_conn_event wanted) {
  enum rpma_conn_event event;
  check(rpma_conn_next_event(connection, &event), "event");
  if (event == wanted) return;
  fprintf(stderr, "event %s\n", rpma_utils_conn_event_2str(event));
  exit(1);
}

static void complete(struct rpma_conn* connection) {
  struct rpma_cq* queue;
  struct ibv_wc wc;
  check(rpma_conn_get_cq(connection, &queue), "cq");
  check(rpma_cq_wait(queue), "wait");
  check(rpma_cq_get_wc(queue, 1, &wc, NULL), "wc");
  if (wc.status == IBV_WC_SUCCESS) return;
  fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc.status));
  exit(1);
}

static int serve(const char* port) {
  unsigned char* const bytes = memory();
  unsigned char* const wanted = memory();
  unsigned char description[64];
  size_t size;
  struct rpma_peer* peer = peer_at("127.0.0.1");
  struct rpma_ep* endpoint;
  struct rpma_mr_local* region;
  struct rpma_conn_req* request;
  struct rpma_conn* connection;
  check(rpma_ep_listen(peer, "127.0.0.1", port, &endpoint), "listen");
  printf("ready\n");
  fflush(stdout);
  check(rpma_mr_reg(peer, bytes, kBytes,
                    RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, &region),
        "region");
  check(rpma_mr_get_descriptor_size(region, &size), "size");
  check(rpma_mr_get_descriptor(region, description), "descriptor");
  struct rpma_conn_private_data data = {description, (uint8_t)size};
  check(rpma_ep_next_conn_req(endpoint, NULL, &request), "request");
  check(rpma_conn_req_connect(&request, &data, &connection), "connect");
  expect(connection, RPMA_CONN_ESTABLISHED);
  expect(connection, RPMA_CONN_CLOSED);
  fill(wanted);
  const int equal = memcmp(bytes, wanted, kBytes) == 0;
  check(rpma_conn_disconnect(connection), "disconnect");
  check(rpma_conn_delete(&connection), "delete");
  check(rpma_mr_dereg(&region), "dereg");
  check(rpma_ep_shutdown(&endpoint), "shutdown");
  check(rpma_peer_delete(&peer), "peer");
  printf(equal ? "equal\n" : "different\n");
  return equal ? 0 : 1;
}

static int call(const char* port, const char* address) {
  unsigned char* const out = memory();
  unsigned char* const back = memory();
  struct rpma_peer* peer = peer_at("127.0.0.1");
  struct rpma_mr_local *source, *target;
  struct rpma_mr_remote* remote;
  struct rpma_conn_req* request;
  struct rpma_conn* connection;
  struct rpma_conn_private_data data;
  fill(out);
  check(rpma_mr_reg(peer, out, kBytes, RPMA_MR_USAGE_WRITE_SRC, &source), "source");
  check(rpma_mr_reg(peer, back, kBytes, RPMA_MR_USAGE_READ_DST, &target), "target");
  check(rpma_conn_req_new(peer, address, port, NULL, &request), "request");
  check(rpma_conn_req_connect(&request, NULL, &connection), "connect");
  expect(connection, RPMA_CONN_ESTABLISHED);
  check(rpma_conn_get_private_data(connection, &data), "private data");
  check(rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote), "remote");
  for (size_t at = 0; at < kBytes; at += kPiece) {
    check(rpma_write(connection, remote, at, source, at, kPiece, RPMA_F_COMPLETION_ALWAYS, NULL), "write");
    complete(connection);
  }
  check(rpma_flush(connection, remote, 0, kBytes, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS, NULL), "flush");
  complete(connection);
  for (size_t at = 0; at < kBytes; at += kPiece) {
    check(rpma_read(connection, target, at, remote, at, kPiece, RPMA_F_COMPLETION_ALWAYS, NULL), "read");
    complete(connection);
  }
  const int equal = memcmp(out, back, kBytes) == 0;
  check(rpma_mr_remote_delete(&remote), "remote");
  check(rpma_conn_disconnect(connection), "disconnect");
  expect(connection, RPMA_CONN_CLOSED);
  check(rpma_conn_delete(&connection), "delete");
  check(rpma_mr_dereg(&source), "dereg");
  check(rpma_mr_dereg(&target), "dereg");
  check(rpma_peer_delete(&peer), "peer");
  printf(equal ? "equal\n" : "different\n");
  return equal ? 0 : 1;
}

int main(int count, char** arguments) {
  if (count == 3) return call(arguments[1], arguments[2]);
  return count == 2 ? serve(arguments[1]) : 2;
}
