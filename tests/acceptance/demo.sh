#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make demo: see to a template in the best tier of this host, then let an MCP client fix five bugs.
# BIN, PYTHON and MAKE are set by the Makefile. TIER: another tier than the best one.
set -e
cubby=$BIN/cubby

default_has() { "$cubby" template ls --json | grep -q "\"name\":\"default\"[^}]*$1"; }

# A guest that has no KVM is emulated. gVisor is several times faster then.
if ! default_has; then
    "$cubby" template build default
    if ! default_has '"accel":"kvm"' && ! default_has '"gvisor"'; then
        echo "KVM does not work here, so this builds gVisor as well (4 to 5 minutes of one processor)"
        if "$MAKE" runsc; then
            "$cubby" template build default
        else
            echo "gVisor could not be built: sandboxes are emulated virtual machines, which are slower"
        fi
    fi
fi
"$PYTHON" tests/acceptance/scenario.py --mode per-call ${TIER:+--tier "$TIER"} --transcript "$1"
echo "every call and answer: $1"
