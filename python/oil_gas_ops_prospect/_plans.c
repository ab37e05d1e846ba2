/* SPDX-License-Identifier: Apache-2.0 */
#include "_plans.h"

#include <string.h>

/* A key may lie in any of WAYS neighbours. A plan is about 2 KiB. */
enum { SLOTS = 1024, WAYS = 4 };

static struct plan_slot {
    struct plan_key key;
    ogp_plan *plan;
    int users;
    uint64_t used; /* when last */
} slots[SLOTS];
static uint64_t now;

/* FNV-1a, by words. */
static uint64_t hash_of(const struct plan_key *key)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t at = 0; at < sizeof *key; at += sizeof hash) {
        uint64_t word;
        memcpy(&word, (const char *)key + at, sizeof word);
        hash = (hash ^ word) * 0x100000001b3;
        hash ^= hash >> 32;
    }
    return hash;
}
_Static_assert(sizeof(struct plan_key) % sizeof(uint64_t) == 0, "keys are hashed by words");

static struct plan_slot *slot_of(uint64_t hash, int way)
{
    return &slots[(hash + (uint64_t)way) % SLOTS];
}

/* The least recently used slot of a hash that nobody uses, or NULL. */
static struct plan_slot *oldest(uint64_t hash)
{
    struct plan_slot *found = NULL;
    for (int way = 0; way < WAYS; way++) {
        struct plan_slot *const slot = slot_of(hash, way);
        if (slot->users == 0 && (!found || slot->used < found->used))
            found = slot;
    }
    return found;
}

enum ogp_status plans_take(struct shared_plan *plan, const struct plan_key *key, struct ogp_error *error)
{
    const uint64_t hash = hash_of(key);
    for (int way = 0; way < WAYS; way++) {
        struct plan_slot *const slot = slot_of(hash, way);
        if (slot->plan && memcmp(&slot->key, key, sizeof *key) == 0) {
            slot->users++;
            slot->used = ++now;
            *plan = (struct shared_plan){slot->plan, slot};
            return OGP_OK;
        }
    }
    const struct ogp_options options = {
        .size = sizeof options, .precision = key->precision, .workspace_limit = key->workspace_limit};
    const enum ogp_status status = ogp_plan_create(&plan->plan, &key->problem, key->pass, &options, error);
    plan->slot = status == OGP_OK ? oldest(hash) : NULL;
    if (plan->slot) {
        ogp_plan_destroy(plan->slot->plan);
        *plan->slot = (struct plan_slot){.key = *key, .plan = plan->plan, .users = 1, .used = ++now};
    }
    return status;
}

void plans_give_back(const struct shared_plan *plan)
{
    if (plan->slot)
        plan->slot->users--;
    else
        ogp_plan_destroy(plan->plan);
}
