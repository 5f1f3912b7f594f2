/* redis_policy.h - may this Redis throw rooms away? What INFO memory says. No I/O.
 *
 * With maxmemory and any policy but noeviction it may: then whole keys vanish, rooms or what
 * belongs to them, whenever memory runs short.
 */
#ifndef ROOMLOG_REDIS_POLICY_H
#define ROOMLOG_REDIS_POLICY_H

#include "protocol/str.h"

enum redis_policy { REDIS_POLICY_KEEPS, REDIS_POLICY_EVICTS, REDIS_POLICY_UNSAID };

/* info: INFO memory's text. *out_name borrows the policy's name from it, absent where UNSAID. */
enum redis_policy redis_policy_of(struct str info, struct str *out_name);

#endif
