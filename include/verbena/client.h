/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of a store that `verbena serve` offers over RDMA. verbena-client(3).
 *
 * Link with -lverbena-client (pkg-config verbena-client, or find_package(verbena-client)).
 *
 *   struct verbena_options options = verbena_options_init();
 *   struct verbena_client* client;
 *   options.host = "node1";
 *   if (verbena_connect(&options, &client) != VERBENA_OK) puts(verbena_last_error());
 *   verbena_put(client, verbena_name("greeting"), "Hello", 5, NULL, NULL);
 *   verbena_disconnect(client);
 *
 * Every call but verbena_disconnect() and the ones that free something may be made by any number of
 * threads at once. Calls return a verbena_status; verbena_last_error() has a sentence for people,
 * of the calling thread. A connection that is lost is made again, and what was under way goes on
 * where that is safe.
 *
 * Data is under a CRC-32/BZIP2 from the caller's memory to the stored chunk and back: what does not
 * match is an error, and never data.
 *
 * Structures begin with their size, which verbena_*_init() fills in, with zeros behind it: later
 * versions of the library have more members, and know by the size which ones the program has.
 */
#ifndef VERBENA_CLIENT_H
#define VERBENA_CLIENT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming,modernize-*): names as C has them. */

/* The version of this header; verbena_client_version() has that of the library. */
#define VERBENA_CLIENT_VERSION 0x00010000u /* 1.0: major << 16 | minor */
uint32_t verbena_client_version(void);

/* --- status */

enum verbena_status {
  VERBENA_OK = 0,
  /* The server's answers: nothing was changed. */
  VERBENA_NOT_FOUND = 1,    /* no such object */
  VERBENA_EXISTS = 2,       /* the id or name is in use */
  VERBENA_INVALID = 3,      /* an argument; also found out here */
  VERBENA_FULL = 4,         /* no space */
  VERBENA_NO_MEMORY = 5,    /* of the server, or of this process */
  VERBENA_DAMAGED = 6,      /* stored data does not match its checksum: the text has the place */
  VERBENA_CONFLICT = 7,     /* another client has registered the range */
  VERBENA_READ_ONLY = 8,    /* the store can only be read */
  VERBENA_IO = 9,           /* the medium failed */
  VERBENA_UNSUPPORTED = 10, /* by the server, or by this version of the library */
  VERBENA_TOO_LARGE = 11,   /* beyond a limit of the session, or a full queue */
  VERBENA_CORRUPTED = 12,   /* data arrived wrong, again and again */
  VERBENA_TRANSFER = 13,    /* RDMA to or from this process failed */
  VERBENA_BUSY = 15,        /* try again later */
  VERBENA_INTERNAL = 16,    /* an error of the server or the library */
  /* There is no answer. */
  VERBENA_UNREACHABLE = 32, /* none in time; nothing was changed */
  VERBENA_UNKNOWN = 33,     /* none, and the change may have been made, or not */
  VERBENA_REFUSED = 34, /* the server does not accept this client: its secret, version or fabric */
  VERBENA_CANCELLED = 35, /* by verbena_disconnect() */
  VERBENA_NO_DEVICE = 36, /* no RDMA device, libraries or descriptors here */
  VERBENA_AGAIN = 37      /* no completion, or not in time */
};

/* "not-found", ...; "unknown-status" for other numbers. A constant. */
const char* verbena_status_name(int status);
/* Why the last call of this thread failed that did; valid until its next call. Never NULL. */
const char* verbena_last_error(void);

/* --- connection */

struct verbena_client;

struct verbena_options {
  size_t size;
  const char* host;      /* name or address; NULL: 127.0.0.1 */
  const char* secret;    /* shared with the server; NULL: none */
  size_t secret_bytes;   /* 0: up to its NUL */
  const char* device;    /* an RDMA device of the system; NULL: the built-in one */
  const char* libraries; /* directory of libibverbs.so.1 and the like; NULL: Verbena's own, or with
                            `device` the system's. One process uses one. */
  uint32_t timeout_ms;   /* of connecting, and of each request; 0: 30 seconds */
  uint16_t port;         /* 0: 7471 */
  uint16_t passive_wait; /* not 0: as verbena_set_passive_wait() */
  const char* fabric;    /* "verbs", "ofi" or "ofi:PROVIDER" (libfabric); NULL: the best that the
                            server has, too */
};

/* Waits until there is a session. On failure *client is NULL. */
int verbena_connect(const struct verbena_options* options, struct verbena_client** client);
/* The same with an address and a port alone. */
int verbena_init(const char* ip, uint16_t port, struct verbena_client** client);
/* Requests that are under way end with VERBENA_CANCELLED before it returns. NULL is allowed. No
 * other thread may use the client any more. In a callback it does nothing, nor in a child of
 * fork(), to which the client does not belong: other calls return VERBENA_INVALID there. */
void verbena_disconnect(struct verbena_client* client);
/* The same. */
void verbena_fini(struct verbena_client* client);

struct verbena_limits {
  size_t size;
  uint64_t io_bytes;     /* of one read or write in one step; longer ones are split */
  uint32_t inline_bytes; /* up to this, data goes with the message instead of by RDMA */
  uint32_t window;       /* requests in flight; further ones wait */
};
int verbena_get_limits(struct verbena_client* client, struct verbena_limits* limits);
/* How often the connection was made again; ranges that were registered before are gone. */
int verbena_get_reconnects(struct verbena_client* client, uint64_t* reconnects);
/* "verbs, verbena0"; as long as the client. NULL for NULL. */
const char* verbena_provider_name(struct verbena_client* client);
/* Not 0: blocking calls sleep at once, instead of looking for their answer for 100 us. */
int verbena_set_passive_wait(struct verbena_client* client, int on);

struct verbena_ping {
  size_t size;
  uint64_t eager_min_ns, eager_mean_ns, eager_max_ns; /* of `count` messages there and back */
  uint64_t rdma_min_ns, rdma_mean_ns, rdma_max_ns;    /* of RDMA there and back */
};
/* `count` messages with `eager_bytes` of data, at most the inline limit, one after the other; then
 * the same with `rdma_bytes`, at most io_bytes, which are written to an object that nobody sees,
 * read back and compared (0: no such step). `ping` may be NULL. */
int verbena_ping_pong(struct verbena_client* client, uint32_t count, size_t eager_bytes,
                      size_t rdma_bytes, struct verbena_ping* ping);

/* --- objects */

struct verbena_id {
  uint64_t high;
  uint64_t low;
};
/* An object by its name, or if that is NULL, by its id. */
struct verbena_object {
  const char* name; /* UTF-8, at most 1000 bytes */
  struct verbena_id id;
};

struct verbena_info {
  size_t size;
  struct verbena_id id;
  uint64_t bytes;    /* of content */
  uint64_t chunks;   /* that hold it, shared ones too */
  uint64_t segments; /* runs of chunks */
  uint64_t created_ns;
  uint64_t modified_ns; /* since 1970 */
  char name[1008];      /* empty: none */
};

/* `name` may be NULL: none. *id is the id that the object is to have, or 0:0 for a random one, and
 * then the one it has; it may be NULL. */
int verbena_create(struct verbena_client* client, const char* name, struct verbena_id* id);
int verbena_remove(struct verbena_client* client, struct verbena_object object);
/* NULL or an empty name: it has none any more. */
int verbena_rename(struct verbena_client* client, struct verbena_object object, const char* name);
/* Cuts it off, or makes it longer, by zeros that take no space. */
int verbena_truncate(struct verbena_client* client, struct verbena_object object, uint64_t bytes);
/* The object has the content of `by` now, and `by` is gone, in one step. */
int verbena_replace(struct verbena_client* client, struct verbena_object object,
                    struct verbena_object by);
int verbena_stat(struct verbena_client* client, struct verbena_object object,
                 struct verbena_info* info);

struct verbena_clone_options {
  size_t size;
  uint64_t from_offset;
  uint64_t length; /* 0: to the end of the source */
  uint64_t to_offset;
  int allow_exist;  /* the destination may exist, and its range is replaced */
  const char* name; /* of a destination that is made and is called by its id; NULL: none */
};
/* Copy on write: no data is copied. `options` may be NULL: the whole object, to a new one. *id, if
 * not NULL, is the id of the destination. */
int verbena_clone(struct verbena_client* client, struct verbena_object source,
                  struct verbena_object destination, const struct verbena_clone_options* options,
                  struct verbena_id* id);
/* The same range of both (length 0: the whole source). */
int verbena_cow(struct verbena_client* client, struct verbena_object source,
                struct verbena_object destination, int allow_exist, uint64_t offset,
                uint64_t length);

/* What was acknowledged before is durable when it returns VERBENA_OK. Length 0: to the end. The
 * server may flush more. */
int verbena_flush(struct verbena_client* client, struct verbena_object object, uint64_t offset,
                  uint64_t length);
int verbena_flush_all(struct verbena_client* client);

enum verbena_access { VERBENA_ACCESS_READ = 0, VERBENA_ACCESS_WRITE = 1 };
/* VERBENA_CONFLICT if it overlaps with a range of another client and either is for writing. Length
 * 0: to the end, however long the object becomes. Ranges end with the connection. Clients that
 * register none are not kept out, unless the server says so. `access`: enum verbena_access. */
int verbena_register_range(struct verbena_client* client, struct verbena_object object,
                           uint64_t offset, uint64_t length, int access, uint64_t* range);
int verbena_unregister_range(struct verbena_client* client, uint64_t range);

struct verbena_list_options {
  size_t size;
  const char* prefix;         /* of names; NULL: all objects */
  const char* after_name;     /* with after_id: only what is behind; NULL: from the first on */
  struct verbena_id after_id; /* see above */
  uint64_t limit;             /* objects; 0: all */
};
struct verbena_list;
/* In order of name, then id; those without a name first. `options` may be NULL. */
int verbena_list_objects(struct verbena_client* client, const struct verbena_list_options* options,
                         struct verbena_list** list);
size_t verbena_list_count(const struct verbena_list* list);
/* VERBENA_INVALID: there is no such entry. */
int verbena_list_entry(const struct verbena_list* list, size_t index, struct verbena_info* info);
/* Not 0: the limit was reached, and there may be more. */
int verbena_list_more(const struct verbena_list* list);
void verbena_list_free(struct verbena_list* list);

/* --- data */

enum verbena_io_flags {
  VERBENA_IO_CRC = 1 << 0,        /* of a write: the data has `crc`, otherwise nothing is stored */
  VERBENA_IO_REPEATABLE = 1 << 1, /* a write that may be done again after the server was restarted:
                                     for the one writer of an object */
  VERBENA_IO_NO_CHECK = 1 << 2,   /* of a read: the caller compares the data with the CRC that it is
                                     handed, and here it is not */
  VERBENA_IO_NEW = 1 << 3,        /* of a put: VERBENA_EXISTS if there is such an object */
  VERBENA_IO_DURABLE = 1 << 4     /* of a put: durable when it is done */
};
struct verbena_io_options {
  size_t size;
  uint32_t flags;
  uint32_t crc;
};
struct verbena_transfer {
  size_t size;
  uint64_t bytes;
  struct verbena_id object;
  uint32_t crc; /* CRC-32/BZIP2 of the bytes, as they are stored */
};

/* Both structures may be NULL. Up to io_bytes (verbena_get_limits()) it is atomic; longer ones are
 * split, and each part is. A read at the end of the object has fewer bytes, and the rest of the
 * buffer may have changed as well; holes are zeros. */
int verbena_read(struct verbena_client* client, struct verbena_object object, uint64_t offset,
                 void* buffer, size_t bytes, const struct verbena_io_options* options,
                 struct verbena_transfer* transfer);
int verbena_write(struct verbena_client* client, struct verbena_object object, uint64_t offset,
                  const void* buffer, size_t bytes, const struct verbena_io_options* options,
                  struct verbena_transfer* transfer);
/* The whole content, in one step however long it is: others see the old content or the new one. An
 * object that is not there is made. */
int verbena_put(struct verbena_client* client, struct verbena_object object, const void* buffer,
                size_t bytes, const struct verbena_io_options* options,
                struct verbena_transfer* transfer);
/* The whole content, of one moment, in memory that verbena_free() gives back. */
int verbena_get(struct verbena_client* client, struct verbena_object object, void** data,
                size_t* bytes, struct verbena_transfer* transfer);
void verbena_free(void* data);

/* CRC-32/BZIP2 of a range (length 0: to the end), from the CRCs that are stored with it: nothing is
 * transferred. `bytes`, which may be NULL: how many there are of it. */
int verbena_stored_crc(struct verbena_client* client, struct verbena_object object, uint64_t offset,
                       uint64_t length, uint32_t* crc, uint64_t* bytes);
/* Of memory; and of A and B together, from those of A and of B. */
uint32_t verbena_crc32(const void* data, size_t bytes);
uint32_t verbena_crc32_join(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b);

/* --- asynchronous */

enum verbena_operation {
  VERBENA_OP_PING = 1, /* buffer, bytes: its data */
  VERBENA_OP_CREATE = 2,
  VERBENA_OP_REMOVE = 3,
  VERBENA_OP_RENAME = 4,
  VERBENA_OP_TRUNCATE = 5, /* length: the new size */
  VERBENA_OP_REPLACE = 6,  /* by `other` */
  VERBENA_OP_STAT = 7,     /* completion: a list of one */
  VERBENA_OP_LIST = 8,     /* all or `length` objects with the prefix `name` */
  VERBENA_OP_CLONE = 9,    /* object at `offset` to `other` at `other_offset`; name; allow_exist */
  VERBENA_OP_FLUSH = 10,   /* an object of no name and the id 0:0: everything */
  VERBENA_OP_REGISTER_RANGE = 11,
  VERBENA_OP_UNREGISTER_RANGE = 12,
  VERBENA_OP_READ = 13,
  VERBENA_OP_WRITE = 14,
  VERBENA_OP_PUT = 15,
  VERBENA_OP_GET = 16,
  VERBENA_OP_STORED_CRC = 17
};

struct verbena_queue;

struct verbena_completion {
  size_t size;
  void* context;     /* of the request */
  int32_t operation; /* likewise */
  int32_t status;
  uint64_t bytes;            /* read, written, put, got, or that the CRC is of */
  struct verbena_id object;  /* that was read, written, put, got, made or cloned to */
  uint64_t range;            /* that was registered */
  uint32_t crc;              /* as verbena_transfer */
  uint32_t reserved;         /* 0 */
  struct verbena_list* list; /* STAT, LIST: yours, for verbena_list_free() */
  void* data;                /* GET: yours, for verbena_free() */
  char error[256];           /* a sentence for people, cut off if it is longer; empty: it is done */
};

struct verbena_request {
  size_t size;
  int32_t operation;
  uint32_t flags; /* verbena_io_flags */
  struct verbena_object object;
  struct verbena_object other;
  const char* name;
  uint64_t offset;
  uint64_t length;
  uint64_t other_offset;
  uint64_t range;
  void* buffer; /* the request's until it is complete; PUT and WRITE only read it */
  size_t bytes;
  uint32_t crc;
  uint32_t access;      /* verbena_access */
  uint32_t allow_exist; /* not 0: see verbena_clone() */
  uint32_t reserved;    /* 0 */
  /* One of the two. The callback is called once, by a thread of the library or one that waits in a
   * call, perhaps before verbena_submit() returns. It may submit requests, but not wait: no
   * blocking call, no verbena_disconnect(). `completion` is valid until it returns. */
  void (*callback)(const struct verbena_completion* completion);
  struct verbena_queue* queue;
  void* context;
};

/* Begins a request; names and the structure may be used again when it returns. If it does not
 * return VERBENA_OK, there will be no completion. Members that the operation does not need are
 * ignored. */
int verbena_submit(struct verbena_client* client, const struct verbena_request* request);

/* A queue of completions, of one client or several. `capacity`: requests that are under way, and
 * completions not yet taken; verbena_submit() returns VERBENA_TOO_LARGE beyond. */
int verbena_queue_create(uint32_t capacity, struct verbena_queue** queue);
/* Completions that were not taken are dropped, and those to come. NULL is allowed. */
void verbena_queue_destroy(struct verbena_queue* queue);
/* Takes one completion: VERBENA_OK whatever its status is; VERBENA_AGAIN: there is none. */
int verbena_queue_poll(struct verbena_queue* queue, struct verbena_completion* completion);
/* The same; waits for one. A negative timeout: for ever. */
int verbena_queue_wait(struct verbena_queue* queue, struct verbena_completion* completion,
                       int timeout_ms);
/* A descriptor for poll(2) and the like, readable while there are completions; the queue's. -1 for
 * NULL. */
int verbena_queue_fd(struct verbena_queue* queue);

/* --- what makes structures */

static inline struct verbena_object verbena_name(const char* name) {
  struct verbena_object object;
  object.name = name;
  object.id.high = object.id.low = 0;
  return object;
}
static inline struct verbena_object verbena_by_id(struct verbena_id id) {
  struct verbena_object object;
  object.name = NULL;
  object.id = id;
  return object;
}

#define VERBENA_DEFINE_INIT(type)               \
  static inline struct type type##_init(void) { \
    struct type made;                           \
    memset(&made, 0, sizeof made);              \
    made.size = sizeof made;                    \
    return made;                                \
  }
VERBENA_DEFINE_INIT(verbena_options)
VERBENA_DEFINE_INIT(verbena_limits)
VERBENA_DEFINE_INIT(verbena_ping)
VERBENA_DEFINE_INIT(verbena_info)
VERBENA_DEFINE_INIT(verbena_clone_options)
VERBENA_DEFINE_INIT(verbena_list_options)
VERBENA_DEFINE_INIT(verbena_io_options)
VERBENA_DEFINE_INIT(verbena_transfer)
VERBENA_DEFINE_INIT(verbena_completion)
VERBENA_DEFINE_INIT(verbena_request)
#undef VERBENA_DEFINE_INIT

/* NOLINTEND(readability-identifier-naming,modernize-*) */

#ifdef __cplusplus
}
#endif

#endif
