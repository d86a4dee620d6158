# SPDX-License-Identifier: Apache-2.0
# arm64: the tree, cross-compiled, and its programs under QEMU's user emulation, and in an emulated
# machine (docs/arm64.md). A part of the Makefile, included by it.

ARM64   := $(BUILD)/arm64
SYSROOT := $(abspath $(BUILD))/arm64-sysroot
DEPS_ARM64 := gcc-aarch64-linux-gnu qemu-user-static qemu-system-arm mmdebstrap e2fsprogs
.PHONY: arm64 test-arm64
$(SYSROOT)/.done: .ci/arm64/sysroot | $(B)/.deps-arm64
	@.ci/arm64/sysroot $(SYSROOT) $(filter %-dev,$(DEPS_BUILD))
arm64: $(SYSROOT)/.done
	@PKG_CONFIG_LIBDIR=$(SYSROOT)/usr/lib/aarch64-linux-gnu/pkgconfig:$(SYSROOT)/usr/share/pkgconfig PKG_CONFIG_SYSROOT_DIR=$(SYSROOT) \
	    $(MAKE) --no-print-directory -j$(shell nproc) BUILD=$(ARM64) CC='aarch64-linux-gnu-gcc --sysroot=$(SYSROOT)' AR=aarch64-linux-gnu-ar programs $(ARM64)/test/qemu-words

# Tests that user emulation cannot run, each with its reason.
NOT_EMULATED := $(shell sed 's/ *\#.*//' .ci/arm64/not-emulated)
ARM64_UNITS  := $(patsubst tests/unit/%.c,$(ARM64)/test/unit/%,$(filter-out $(NOT_EMULATED),$(UNIT_SRC)))
ARM64_REPLAYS := $(filter-out $(patsubst tests/fuzz/%.c,%,$(NOT_EMULATED)),$(notdir $(REPLAYS)))
ARM64_RUN    := $(abspath $(ARM64))/run
ARM64_MACHINE := $(abspath $(ARM64))/machine
ARM64_ENV    := $(TEST_ENV) BIN=$(ARM64_RUN) ENVD=$(ARM64_RUN)/envd ARM64_MACHINE=$(ARM64_MACHINE) \
                ARM64_WORDS="qemu-aarch64-static -L $(SYSROOT) $(abspath $(ARM64))/test/qemu-words"
# Some tests have limits that are short for emulation on a busy host, so those that fail are repeated alone.
ARM64_PROVE  := prove --statefile $(ARM64)/unit.prove --exec 'timeout -k 5 180 qemu-aarch64-static -L $(SYSROOT)'
test-arm64: arm64 $(TEST_PROGRAMS) $(B)/test/initramfs-pack $(VENV)/.done
	@rm -f $(ARM64)/unit.prove
	@$(ARM64_PROVE) -j $(shell nproc) --state=save $(ARM64_UNITS) || { echo "repeated, alone:"; $(ARM64_PROVE) --state=failed; }
	@for f in $(ARM64_REPLAYS); do timeout -k 5 180 qemu-aarch64-static -L $(SYSROOT) $(ARM64)/test/replay/$$f \
	    tests/fuzz/corpus/$${f#fuzz_} >$(ARM64)/replay.log || { cat $(ARM64)/replay.log; exit 1; }; done
	@.ci/arm64/wrappers $(ARM64_RUN) $(abspath $(B)/bin) $(SYSROOT) $(abspath $(ARM64))/guest/envd $(abspath $(ARM64))/bin/cubby-netd
	@.ci/arm64/machine $(ARM64_MACHINE) $(B)/test/initramfs-pack $(ARM64)/guest
	@dir=$$(mktemp -d -t cXXXX) && { $(ARM64_ENV) $(VENV)/bin/python -m pytest -q --timeout 180 --rootdir=. \
	    -p no:cacheprovider --basetemp=$$dir -n 2 $(addprefix --deselect=,$(filter tests/protocol/%,$(NOT_EMULATED))) \
	    tests/protocol/envd tests/protocol/netd tests/arm64; status=$$?; rm -rf $$dir; exit $$status; }
