/* What a tool is made of: version, compiler, flags, instruction sets, libraries. */
#ifndef NP_CMD_VERSION_H
#define NP_CMD_VERSION_H

#include <stdio.h>

void version_print(FILE *out, const char *tool);

#endif
