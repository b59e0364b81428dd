// SPDX-License-Identifier: Apache-2.0
// Windows: their states and how they move between them (picture in docs/memory.md; IBA 10.6.7).
#include "base/check.h"
#include "memory/domain.h"
#include "memory/resolve.h"
#include "memory/tables.h"

namespace verbena::memory {
namespace {

constexpr uint32_t kTagMask = 0xff;

// What a window may grant. A type 1 window is never zero-based (o10-36.2.2).
constexpr uint32_t grantable(Kind kind) {
  return kind == Kind::kWindow2 ? kAnyRemote | kZeroBased : kAnyRemote;
}

// Forgets what the window was bound to, if anything. Its key keeps leading to it, as unusable.
void unbind(const KeyTable& keys, Entry& window) {
  if (!window.usable) return;
  Entry* const region = keys.find(window.region.value);
  VERBENA_CHECK(region != nullptr && region->bound_windows > 0);
  --region->bound_windows;
  window.usable = false;
  window.qpn = Qpn{};
  window.access = 0;
  window.start = 0;
  window.layout = Layout();
  window.region = LKey{};
}

// A window that may be invalidated: type 2 (o10-37.2.26) and bound.
Result<Entry*, Fault> find_bound(const KeyTable& keys, RKey rkey, PdId pd) {
  Entry* const entry = keys.find(rkey.value);
  if (entry == nullptr || entry->rkey != rkey.value) return fail(Fault::kNoSuchKey);
  if (entry->kind != Kind::kWindow2 || !entry->usable) return fail(Fault::kWrongState);
  if (entry->pd != pd) return fail(Fault::kWrongPd);
  return entry;
}

}  // namespace

Result<RKey, Error> Domain::allocate_window(PdId pd, WindowType type) {
  if (!tables_->has_pd(pd)) return fail(Error::kNoSuchPd);
  if (tables_->windows >= tables_->options.limits.max_windows) return fail(Error::kTooMany);
  Entry& entry = tables_->keys.create();
  entry.kind = type == WindowType::kType1 ? Kind::kWindow1 : Kind::kWindow2;
  entry.pd = pd;
  entry.rkey = tables_->keys.add_key(entry);
  tables_->join_pd(pd);
  ++tables_->windows;
  return RKey{entry.rkey};
}

Result<void, Error> Domain::deallocate_window(RKey rkey) {
  Entry* const window = tables_->find_window(rkey);
  if (window == nullptr) return fail(Error::kNoSuchKey);
  unbind(tables_->keys, *window);
  tables_->leave_pd(window->pd);
  --tables_->windows;
  tables_->keys.remove_key(window->rkey);
  tables_->keys.destroy(*window);
  return {};
}

Result<RKey, Fault> Domain::bind_window(RKey rkey, const RemoteUser& user, const WindowBind& bind) {
  Entry* const window = tables_->find_window(rkey);
  if (window == nullptr) return fail(Fault::kNoSuchKey);
  const bool type2 = window->kind == Kind::kWindow2;
  if (type2 && window->usable) return fail(Fault::kWrongState);  // o10-37.2.30
  if (window->pd != user.pd) return fail(Fault::kWrongPd);       // C10-72
  if ((bind.access & ~grantable(window->kind)) != 0) return fail(Fault::kNoAccess);
  if (type2 && bind.length == 0) return fail(Fault::kOutOfBounds);  // o10-37.2.40

  Place place;
  if (bind.length > 0) {
    // The region: same PD, bindable (C10-73), writable by ourselves if by the peer (C10-74), and
    // around the whole window (C10-75).
    const bool writes = (bind.access & (kRemoteWrite | kRemoteAtomic)) != 0;
    const Use use{.key = bind.region.value,
                  .pd = user.pd,
                  .needed = writes ? kMwBind | kLocalWrite : kMwBind,
                  .addr = bind.addr,
                  .length = bind.length};
    const Fault fault = resolve<Side::kLocal>(tables_->keys, use, place);
    if (fault != Fault::kNone) return fail(fault);
  }

  unbind(tables_->keys, *window);
  const uint32_t tag = bind.tag ? *bind.tag : type2 ? 0 : (window->rkey + 1) & kTagMask;
  window->rkey = (window->rkey & ~kTagMask) | tag;
  if (bind.length > 0) {
    ++tables_->find_region(bind.region)->bound_windows;
    window->region = bind.region;
    window->qpn = type2 ? user.qpn : Qpn{};
    window->access = bind.access;
    window->start = (bind.access & kZeroBased) != 0 ? 0 : bind.addr;
    window->layout = place.layout->slice(place.offset, bind.length);
    window->usable = true;
  }
  return RKey{window->rkey};
}

Fault Domain::invalidate_local(RKey rkey, PdId pd) {
  if (Entry* const key = tables_->find_indirect(rkey.value)) return tables_->invalidate(*key, pd);
  const auto window = find_bound(tables_->keys, rkey, pd);
  if (!window) return window.error();
  unbind(tables_->keys, **window);
  return Fault::kNone;
}

Fault Domain::invalidate_remote(RKey rkey, const RemoteUser& user) {
  if (Entry* const key = tables_->find_indirect(rkey.value)) {
    const bool allowed = tables_->indirect.at(key)->spec().remote_invalidate;
    return allowed ? tables_->invalidate(*key, user.pd) : Fault::kNoAccess;
  }
  const auto window = find_bound(tables_->keys, rkey, user.pd);
  if (!window) return window.error();
  if ((*window)->qpn != user.qpn) return Fault::kWrongQp;
  unbind(tables_->keys, **window);
  return Fault::kNone;
}

}  // namespace verbena::memory
