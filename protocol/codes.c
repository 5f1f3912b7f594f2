#include "protocol/codes.h"

const char *codes_close_reason(enum code_close code)
{
#define CODES_AS_CASE(symbol, number, reason, resume)                                              \
    case symbol:                                                                                   \
        return reason;
    switch (code) {
        CODES_CLOSES(CODES_AS_CASE)
    }
#undef CODES_AS_CASE
    return "";
}
