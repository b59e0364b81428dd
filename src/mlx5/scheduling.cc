// SPDX-License-Identifier: Apache-2.0
// Trees of bandwidth shares and limits. The device gives all queue pairs equal turns and has no
// limits: the trees are kept under the ConnectX identity alone (identity.h), and change nothing.
//
// Any call from any thread. An element that was destroyed is EINVAL.
#include <memory>
#include <type_traits>
#include <unordered_map>

#include <infiniband/mlx5dv.h>

#include "base/c_interface.h"
#include "base/mutex.h"
#include "mlx5/identity.h"
#include "mlx5/queue_pair.h"
#include "mlx5/service.h"

struct mlx5dv_sched_node {};
struct mlx5dv_sched_leaf {};

namespace {

using namespace verbena::mlx5;
using verbena::Mutex;
using verbena::MutexLock;

// Nodes or leaves: who is there, under which parent, over how many.
template <typename Element>
class Elements {
 public:
  struct Entry {
    std::unique_ptr<Element> element;
    mlx5dv_sched_node* parent = nullptr;
    uint32_t children = 0;
  };

  [[nodiscard]] Entry* find(const Element* element) {
    const auto place = entries_.find(element);
    return place != entries_.end() ? &place->second : nullptr;
  }
  [[nodiscard]] Element* add(mlx5dv_sched_node* parent) {
    auto element = std::make_unique<Element>();
    Element* const made = element.get();
    entries_.emplace(made, Entry{std::move(element), parent, 0});
    return made;
  }
  void remove(const Element* element) { entries_.erase(element); }

 private:
  std::unordered_map<const Element*, Entry> entries_;
};

struct Forest {
  Mutex mutex;
  Elements<mlx5dv_sched_node> nodes VERBENA_GUARDED_BY(mutex);
  Elements<mlx5dv_sched_leaf> leaves VERBENA_GUARDED_BY(mutex);

  template <typename Element>
  [[nodiscard]] Elements<Element>& all() VERBENA_REQUIRES(mutex) {
    if constexpr (std::is_same_v<Element, mlx5dv_sched_node>) return nodes;
    if constexpr (std::is_same_v<Element, mlx5dv_sched_leaf>) return leaves;
  }
};
// Outlives every program's last call.
Forest& forest() {
  static auto& only = *new Forest;
  return only;
}

[[nodiscard]] bool is_valid(const mlx5dv_sched_attr* attr) {
  constexpr uint32_t kKnown =
      MLX5DV_SCHED_ELEM_ATTR_FLAGS_BW_SHARE | MLX5DV_SCHED_ELEM_ATTR_FLAGS_MAX_AVG_BW;
  return attr != nullptr && attr->comp_mask == 0 && (attr->flags & ~kKnown) == 0;
}

template <typename Element>
[[nodiscard]] Element* create(ibv_context* context, const mlx5dv_sched_attr* attr,
                              bool needs_parent) {
  if (!looks_like_connectx(context)) return none(EOPNOTSUPP);
  if (!is_valid(attr) || (needs_parent && attr->parent == nullptr)) return none(EINVAL);
  const MutexLock lock(forest().mutex);
  auto* const parent = attr->parent != nullptr ? forest().nodes.find(attr->parent) : nullptr;
  if (attr->parent != nullptr && parent == nullptr) return none(EINVAL);
  try {
    // An unordered_map's entries stay where they are.
    Element* const made = forest().all<Element>().add(attr->parent);
    if (parent != nullptr) ++parent->children;
    return made;
  } catch (const std::bad_alloc&) {
    return none(ENOMEM);
  }
}

template <typename Element>
[[nodiscard]] int modify(const Element* element, const mlx5dv_sched_attr* attr) {
  if (!is_valid(attr)) return EINVAL;
  const MutexLock lock(forest().mutex);
  return forest().all<Element>().find(element) != nullptr ? 0 : EINVAL;
}

template <typename Element>
[[nodiscard]] int destroy(const Element* element) {
  const MutexLock lock(forest().mutex);
  Elements<Element>& elements = forest().all<Element>();
  const auto* const entry = elements.find(element);
  if (entry == nullptr) return EINVAL;
  if (entry->children != 0) return EBUSY;
  if (entry->parent != nullptr) --forest().nodes.find(entry->parent)->children;
  elements.remove(element);
  return 0;
}

}  // namespace

VERBENA_EXPORT mlx5dv_sched_node* mlx5dv_sched_node_create(ibv_context* context,
                                                           const mlx5dv_sched_attr* attr) {
  return create<mlx5dv_sched_node>(context, attr, false);
}
VERBENA_EXPORT mlx5dv_sched_leaf* mlx5dv_sched_leaf_create(ibv_context* context,
                                                           const mlx5dv_sched_attr* attr) {
  return create<mlx5dv_sched_leaf>(context, attr, true);
}
VERBENA_EXPORT int mlx5dv_sched_node_modify(mlx5dv_sched_node* node,
                                            const mlx5dv_sched_attr* attr) {
  return verbena::with_errno(modify(node, attr));
}
VERBENA_EXPORT int mlx5dv_sched_leaf_modify(mlx5dv_sched_leaf* leaf,
                                            const mlx5dv_sched_attr* attr) {
  return verbena::with_errno(modify(leaf, attr));
}
VERBENA_EXPORT int mlx5dv_sched_node_destroy(mlx5dv_sched_node* node) {
  return verbena::with_errno(destroy(node));
}
VERBENA_EXPORT int mlx5dv_sched_leaf_destroy(mlx5dv_sched_leaf* leaf) {
  return verbena::with_errno(destroy(leaf));
}

VERBENA_EXPORT int mlx5dv_modify_qp_sched_elem(ibv_qp* qp, const mlx5dv_sched_leaf* requestor,
                                               const mlx5dv_sched_leaf* responder) {
  using verbena::with_errno;
  if (qp == nullptr || find(qp) == nullptr) return with_errno(EINVAL);
  if (!looks_like_connectx(qp->context)) return with_errno(EOPNOTSUPP);
  const MutexLock lock(forest().mutex);
  for (const mlx5dv_sched_leaf* const leaf : {requestor, responder}) {
    if (leaf != nullptr && forest().leaves.find(leaf) == nullptr) return with_errno(EINVAL);
  }
  return 0;
}
