// SPDX-License-Identifier: Apache-2.0
// The drivers of the tests' programs: the tests' own beside the shipped ones.
#include "sandbox-backend/drivers/bubblewrap/bubblewrap.h"
#include "sandbox-backend/drivers/gvisor/gvisor.h"
#include "sandbox-backend/drivers/microvm/microvm.h"
#include "sandbox-backend/drivers/none/none.h"
#include "tests/lib/process_driver/process_driver.h"

const struct driver *const DRIVERS[] = {&microvm_driver,
                                        &gvisor_driver,
                                        &process_driver,
                                        &plain_driver,
                                        &bubblewrap_driver,
                                        &none_driver,
                                        NULL};
