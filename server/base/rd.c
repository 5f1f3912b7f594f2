#include "base/rd.h"

#define TEXT(symbol, text) text,
static const char *const TEXTS[RD_ERR_COUNT] = {RD_ERRORS(TEXT)};

const char *rd_err_text(enum rd_err err)
{
    if ((unsigned)err >= RD_ERR_COUNT)
        return "unknown error";
    return TEXTS[err];
}
