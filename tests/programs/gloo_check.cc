// SPDX-License-Identifier: Apache-2.0
// Gloo's ibverbs transport on the device: ranks reduce, gather and broadcast, and compare with what
// must come out. gloo_check DIRECTORY GID RANK RANKS; the ranks exchange addresses through the
// directory. The transport has the algorithms over bound buffers only; gloo::allreduce() and its
// like need unbound ones.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <gloo/allgather_ring.h>
#include <gloo/allreduce_ring.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

namespace {

constexpr size_t kCount = 1 << 17;

float value(int rank, size_t i) { return static_cast<float>((rank + 1) * 1000 + i % 997); }

int fail(const char* what) {
  std::fprintf(stderr, "%s: wrong\n", what);
  return 1;
}

int run(const std::shared_ptr<gloo::Context>& context) {
  const int rank = context->rank;
  const int ranks = context->size;
  std::vector<float> in(kCount), sums(kCount), all(kCount * ranks), sent(kCount);
  for (size_t i = 0; i < kCount; ++i) in[i] = sums[i] = sent[i] = value(rank, i);

  // Their buffers must not be destroyed before the peers have taken everything.
  gloo::AllreduceRing<float> reduce(context, {sums.data()}, kCount);
  gloo::AllgatherRing<float> gather(context, {in.data()}, all.data(), kCount);
  gloo::BroadcastOneToAll<float> broadcast(context, {sent.data()}, kCount);
  gloo::BarrierAllToAll barrier(context);
  reduce.run();
  for (size_t i = 0; i < kCount; ++i) {
    float sum = 0;
    for (int r = 0; r < ranks; ++r) sum += value(r, i);
    if (sums[i] != sum) return fail("allreduce");
  }
  gather.run();
  for (int r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < kCount; ++i) {
      if (all[r * kCount + i] != value(r, i)) return fail("allgather");
    }
  }
  broadcast.run();
  for (size_t i = 0; i < kCount; ++i) {
    if (sent[i] != value(0, i)) return fail("broadcast");
  }
  barrier.run();
  std::printf("equal\n");
  std::exit(0);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  gloo::transport::ibverbs::attr attributes;
  attributes.name = "verbena0";
  attributes.port = 1;
  attributes.index = std::atoi(arguments[2]);
  auto device = gloo::transport::ibverbs::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(arguments[1]);
  auto context =
      std::make_shared<gloo::rendezvous::Context>(std::atoi(arguments[3]), std::atoi(arguments[4]));
  context->connectFullMesh(store, device);
  return run(context);
}
