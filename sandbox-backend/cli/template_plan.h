// SPDX-License-Identifier: Apache-2.0
// cubby template build NAME -f DOCKERFILE, and --plan FILE.
#pragma once
#include <stdbool.h>

// Return whether the arguments of `template build` name a Dockerfile or a plan.
bool template_plan_is_meant(int argc, char **argv);
int template_plan_verb(int argc, char **argv);
