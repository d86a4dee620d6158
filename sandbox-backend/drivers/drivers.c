// SPDX-License-Identifier: Apache-2.0
// The drivers of the shipped programs. A new driver is a folder beside microvm/ and a row here.
#include "sandbox-backend/drivers/bubblewrap/bubblewrap.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/drivers/gvisor/gvisor.h"
#include "sandbox-backend/drivers/microvm/microvm.h"
#include "sandbox-backend/drivers/none/none.h"

const struct driver *const DRIVERS[] = {&microvm_driver, &gvisor_driver, &bubblewrap_driver,
                                        &none_driver, NULL};
