# SPDX-License-Identifier: Apache-2.0
# Cubby. `make demo` on a bare Debian 12 machine installs, builds, and shows it at work; `make test`
# tests everything; `make help` lists the rest.

BUILD  ?= build
PREFIX ?= /usr/local
CC     ?= cc
PYTHON ?= python3
SAN    ?=
WERROR ?= -Werror
B      := $(BUILD)
V      ?=
Q      := $(if $(V),,@)

# ---- what is installed when it is missing (Debian package names)
DEPS_BUILD := gcc make pkg-config libc6-dev libuv1-dev libjansson-dev libcurl4-openssl-dev \
              libssl-dev libjose-dev node-llhttp libslirp-dev zlib1g-dev nettle-dev libseccomp-dev
DEPS_RUN   := qemu-system-x86 qemu-utils mmdebstrap e2fsprogs fakeroot uidmap xz-utils ca-certificates libjose0
# npm brings the official clients; a machine that has one of its own keeps it.
DEPS_TEST  := python3 python3-venv python3-ipython python3-matplotlib python3-numpy python3-pandas \
              libblas3 liblapack3 python3-munkres perl git procps iproute2 openssl curl $(if $(shell command -v npm),,nodejs npm)
DEPS_BENCH := wrk nginx-light runsc bubblewrap
DEPS_LINT  := clang clang-tidy clang-format cppcheck libclang-rt-14-dev

# ---- flags
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
        -Wvla -Wformat=2 -Wundef -Wpointer-arith -Wcast-qual -Wwrite-strings -Wswitch-enum \
        -Wimplicit-fallthrough -Wnull-dereference -Wconversion -Wno-sign-conversion $(WERROR)
HARD := -D_FORTIFY_SOURCE=2 -fstack-protector-strong
CFLAGS ?= -O2 -g
CPPFLAGS += -I. -I$(B)/gen -D_GNU_SOURCE
LLHTTP_DIR := /usr/share/llhttp
LLHTTP_INC := -isystem /usr/share/include/llhttp
STD := -std=gnu11

ifneq ($(SAN),)
CFLAGS := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
HARD   := -fstack-protector-strong
endif
HOST_CFLAGS  := $(STD) $(CFLAGS) $(WARN) $(HARD) -fPIE -MMD -MP
HOST_LDFLAGS := $(CFLAGS) -pie -Wl,-z,relro,-z,now -Wl,--as-needed $(LDFLAGS)
# The guest's parts are static and never sanitized: there is no shared library where they run.
GUEST_CFLAGS  := $(STD) -O2 -g -ffunction-sections -fdata-sections $(WARN) -D_FORTIFY_SOURCE=2 \
                 -fstack-protector-strong -MMD -MP
# libuv's look-ups of users and hosts, which envd never calls, make the linker warn of static glibc.
GUEST_LDFLAGS := -static -Wl,--gc-sections -Wl,-z,relro -Wl,--no-warnings

LIBS_BASE := -ljansson
LIBS_NET  := -luv -ljansson -lz
LIBS_ENVD := -lnettle
LIBS_CURL := -lcurl
LIBS_TLS  := -lssl -lcrypto
LIBS_MCP  := $(LIBS_CURL) $(LIBS_TLS)

# ---- sources: one archive a room, one program a main.c
SB := sandbox-backend
LIB_SRC     := $(wildcard $(SB)/base/*.c $(SB)/log/*.c $(SB)/keys/*.c $(SB)/net/*.c $(SB)/connect/*.c $(SB)/client/*.c)
GUEST_LIB   := $(filter-out $(SB)/keys/% $(SB)/net/http_client% $(SB)/net/tls% $(SB)/client/%,$(LIB_SRC))
ENVD_SRC    := $(wildcard $(SB)/envd/*.c)
INIT_SRC    := $(wildcard $(SB)/guest/*.c)
NETD_SRC    := $(wildcard $(SB)/netd/*.c)
EGRESS_SRC  := $(wildcard $(SB)/egress/*.c)
# The daemon says what a jail is to be like, and the program builds it.
JAIL_LIB    := $(patsubst %,$(SB)/jail/%.c,jail walls)
JAIL_SRC    := $(wildcard $(SB)/jail/*.c)
DRIVERS_SRC := $(wildcard $(SB)/drivers/*.c $(SB)/drivers/*/*.c)
DAEMON_SRC  := $(wildcard $(SB)/daemon/*.c)
CLI_SRC     := $(wildcard $(SB)/cli/*.c)
MCP_SRC     := $(wildcard mcp-server/*.c mcp-server/*/*.c)
UNIT_SRC    := $(wildcard tests/unit/test_*.c)
FUZZ_SRC    := $(wildcard tests/fuzz/fuzz_*.c)
SCHEMAS     := $(wildcard schemas/*.json)
FIXTURES    := $(wildcard tests/fixtures/*.json)
FIXTURE_SRC := $(wildcard tests/fixtures/*.c)
# What differs where CUBBY_FAULTS is defined: files with FAULT() in them (base/fault.h).
FAULT_SRC   := $(SB)/base/fault.c $(shell grep -lw FAULT $(DAEMON_SRC) $(DRIVERS_SRC))
PROCESS_SRC := $(patsubst %,tests/lib/%.c,cubbyd_process process_driver process_request process_image \
               process_tree process_machine) $(patsubst %,$(SB)/drivers/microvm/%.c,subproc spawn)
FAULT_DAEMON = $(call fobj,$(filter $(FAULT_SRC),$(SB)/base/fault.c $(DAEMON_SRC)))

obj   = $(patsubst %.c,$(B)/obj/%.o,$(1))
fobj  = $(patsubst %.c,$(B)/obj-faults/%.o,$(1))
gobj  = $(patsubst %.c,$(B)/obj-guest/%.o,$(1))
parts = $(filter-out %/main.c,$(1))
LLHTTP_OBJ  := $(B)/obj/llhttp/api.o $(B)/obj/llhttp/http.o $(B)/obj/llhttp/llhttp.o
LLHTTP_GOBJ := $(patsubst $(B)/obj/%,$(B)/obj-guest/%,$(LLHTTP_OBJ))
ARCHIVES := $(foreach a,mcp daemon cli drivers netd egress envd,$(B)/lib/lib$(a).a) $(B)/lib/libcubby.a

BIN   := $(B)/bin/cubby $(B)/bin/cubbyd $(B)/bin/cubby-netd $(B)/bin/cubby-egress $(B)/bin/cubby-mcp $(B)/bin/cubby-qemu.so \
         $(B)/bin/cubby-jail
GUEST := $(B)/guest/envd $(B)/guest/init
# The Python kernel goes into templates as it is; a copy, without what Python leaves beside it.
KERNEL_DIR := $(SB)/guest/kernel
KERNEL_SRC := $(wildcard $(KERNEL_DIR)/*.py $(KERNEL_DIR)/*/*.py)
KERNEL := $(patsubst $(KERNEL_DIR)/%,$(B)/guest/kernel/%,$(KERNEL_SRC))
HOST_ENVD := $(B)/test/envd
TEST_PROGRAMS := $(HOST_ENVD) $(B)/test/cubbyd-process $(B)/test/machine-shell $(B)/test/http-serve \
                 $(B)/test/cubbyd-process-faults $(B)/test/faults/cubbyd $(B)/test/cubby-mcp-fixtures $(B)/test/breakout
TEST_HOME ?= $(abspath $(B)/test-home)
TEST_TEMPLATE := $(TEST_HOME)/templates/default/template.json
UNITS := $(patsubst tests/unit/%.c,$(B)/test/unit/%,$(UNIT_SRC))
REPLAYS := $(patsubst tests/fuzz/%.c,$(B)/test/replay/%,$(FUZZ_SRC))

.PHONY: all deps demo test prepare unit protocol e2e asan tidy fmt fmt-check layers headers fuzz fuzzers bench soak crash install clean help
.DELETE_ON_ERROR:
.SECONDARY:

all: $(BIN) $(GUEST) $(KERNEL)

# ---- compiling
$(B)/obj/%.o: %.c | $(B)/.deps
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(LLHTTP_INC) $(HOST_CFLAGS) -c $< -o $@
$(B)/obj-faults/%.o: %.c | $(B)/.deps
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -DCUBBY_FAULTS $(LLHTTP_INC) $(HOST_CFLAGS) -c $< -o $@
$(B)/obj-guest/%.o: %.c | $(B)/.deps
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(LLHTTP_INC) $(GUEST_CFLAGS) -c $< -o $@
$(B)/obj/llhttp/%.o: $(LLHTTP_DIR)/%.c | $(B)/.deps
	@mkdir -p $(@D)
	$(Q)$(CC) $(LLHTTP_INC) -O2 -g -w -fPIE $(if $(SAN),-fsanitize=address) -c $< -o $@
$(B)/obj-guest/llhttp/%.o: $(LLHTTP_DIR)/%.c | $(B)/.deps
	@mkdir -p $(@D)
	$(Q)$(CC) $(LLHTTP_INC) -O2 -g -w -ffunction-sections -c $< -o $@
$(LLHTTP_DIR)/%.c: | $(B)/.deps ;

# The schemas are part of the programs: schemas/x.json is SCHEMA_x in gen/schemas.h.
define embed
	@mkdir -p $(@D)
	@{ echo '// Made by the Makefile from $(dir $<)*.json.'; echo '#pragma once'; \
	   for f in $(filter %.json,$^); do n=$$(basename $$f .json | tr '.-' '__'); \
	     printf 'static const char $(1)_%s[] __attribute__((unused)) = {' $$n; od -An -v -tx1 $$f | \
	     sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'; echo '0};'; done; } > $@
endef
$(B)/gen/schemas.h: $(SCHEMAS) Makefile  ; $(call embed,SCHEMA)
# The same for what only the tests' server has: tests/fixtures/x.json is FIXTURE_x in gen/fixture_texts.h.
$(B)/gen/fixture_texts.h: $(FIXTURES) Makefile ; $(call embed,FIXTURE)
$(call obj,$(FIXTURE_SRC)): | $(B)/gen/fixture_texts.h
$(call obj,$(MCP_SRC) $(DAEMON_SRC) $(CLI_SRC) $(UNIT_SRC) $(FUZZ_SRC)) $(FAULT_DAEMON): | $(B)/gen/schemas.h

# ---- archives
define archive
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)ar rcs $@ $^
endef
$(B)/lib/libcubby.a: $(call obj,$(LIB_SRC)) $(LLHTTP_OBJ)        ; $(archive)
$(B)/lib/libmcp.a: $(call obj,$(call parts,$(MCP_SRC)))           ; $(archive)
$(B)/lib/libdaemon.a: $(call obj,$(call parts,$(DAEMON_SRC)))     ; $(archive)
$(B)/lib/libcli.a: $(call obj,$(call parts,$(CLI_SRC)))           ; $(archive)
$(B)/lib/libdrivers.a: $(call obj,$(DRIVERS_SRC) $(JAIL_LIB))     ; $(archive)
$(B)/lib/libnetd.a: $(call obj,$(call parts,$(NETD_SRC)))         ; $(archive)
$(B)/lib/libegress.a: $(call obj,$(call parts,$(EGRESS_SRC)))     ; $(archive)
$(B)/lib/libenvd.a: $(call obj,$(call parts,$(ENVD_SRC)))         ; $(archive)

# ---- programs
define link
	@mkdir -p $(@D)
	$(Q)$(CC) $(HOST_LDFLAGS) -o $@ $(filter %.o %.a,$^) $(LIBS_BASE) $(1)
endef
$(B)/bin/cubby-mcp: $(B)/obj/mcp-server/main.o $(B)/lib/libmcp.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_MCP) $(LIBS_NET))
$(B)/bin/cubbyd: $(B)/obj/$(SB)/daemon/main.o $(B)/lib/libdaemon.a $(B)/lib/libdrivers.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_CURL) $(LIBS_TLS) $(LIBS_NET))
$(B)/bin/cubby: $(B)/obj/$(SB)/cli/main.o $(B)/lib/libcli.a $(B)/lib/libdrivers.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_CURL) $(LIBS_TLS) $(LIBS_NET))
$(B)/bin/cubby-netd: $(B)/obj/$(SB)/netd/main.o $(B)/lib/libnetd.a $(B)/lib/libcubby.a
	$(call link,-lslirp $(LIBS_NET))
$(B)/bin/cubby-egress: $(B)/obj/$(SB)/egress/main.o $(B)/lib/libegress.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_TLS) $(LIBS_NET))
# What is preloaded into QEMU: never sanitized, as QEMU is not, and without _FORTIFY_SOURCE (its own page says why).
$(B)/bin/cubby-qemu.so: $(SB)/drivers/microvm/preload/qemu_preload.c $(SB)/drivers/microvm/qemu.h | $(B)/.deps
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -U_FORTIFY_SOURCE $(STD) -O2 -g $(WARN) -fPIC -fvisibility=hidden -fstack-protector-strong \
	    -shared -Wl,-z,relro,-z,now -Wl,-z,defs -o $@ $<
# Static: it is started before each machine's two programs, and needs no library in their roots.
$(B)/bin/cubby-jail: $(call gobj,$(JAIL_SRC) $(filter $(SB)/base/%,$(GUEST_LIB)))
	@mkdir -p $(@D)
	$(Q)$(CC) $(GUEST_LDFLAGS) -o $@ $^ -ljansson -lseccomp
# The daemon with a driver whose machines are processes: no QEMU in tests of its protocols.
$(B)/test/cubbyd-process: $(call obj,$(PROCESS_SRC)) $(B)/lib/libdaemon.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_CURL) $(LIBS_TLS) $(LIBS_NET) -lpthread)
# The daemon, with either driver, that ends itself where it is told to. Objects go before archives.
$(B)/test/cubbyd-process-faults: $(FAULT_DAEMON) $(call obj,$(PROCESS_SRC)) $(B)/lib/libdaemon.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_CURL) $(LIBS_TLS) $(LIBS_NET) -lpthread)
$(B)/test/faults/cubbyd: $(FAULT_DAEMON) $(call fobj,$(filter $(FAULT_SRC),$(DRIVERS_SRC))) $(B)/obj/$(SB)/daemon/main.o \
                         $(B)/lib/libdaemon.a $(B)/lib/libdrivers.a $(B)/lib/libcubby.a | $(B)/bin/cubby-netd $(B)/bin/cubby-qemu.so \
                         $(B)/bin/cubby-jail
	$(call link,$(LIBS_CURL) $(LIBS_TLS) $(LIBS_NET))
	@ln -sf ../../bin/cubby-netd ../../bin/cubby-jail ../../bin/cubby-qemu.so $(@D)
# The MCP server with what its conformance suite asks for besides; its CATALOG is the first one.
$(B)/test/cubby-mcp-fixtures: $(call obj,mcp-server/main.c $(FIXTURE_SRC)) $(B)/lib/libmcp.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_MCP) $(LIBS_NET))
# The microvm driver as a program that takes commands.
$(B)/test/machine-shell: $(B)/obj/tests/lib/machine_shell.o $(B)/lib/libdrivers.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_CURL) $(LIBS_TLS) $(LIBS_NET))
# What is started in place of QEMU and netd, in their jails: static, as nothing of the host is there.
$(B)/test/breakout: tests/attack/breakout.c | $(B)/.deps
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(STD) -O2 -g $(WARN) -static -o $@ $<
# The HTTP server alone: what its protocol tests and its benchmark speak to.
$(B)/test/http-serve: $(B)/obj/tests/bench/http_serve.o $(B)/lib/libcubby.a
	$(call link,$(LIBS_TLS) $(LIBS_NET))
# What netd's filter takes for a packet.
$(B)/test/filter-cost: $(B)/obj/tests/bench/filter_cost.o $(B)/lib/libnetd.a $(B)/lib/libcubby.a
	$(call link,-lslirp $(LIBS_NET))
$(HOST_ENVD): $(B)/obj/$(SB)/envd/main.o $(B)/lib/libenvd.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_NET) $(LIBS_ENVD))
$(B)/guest/envd: $(call gobj,$(ENVD_SRC) $(GUEST_LIB)) $(LLHTTP_GOBJ)
	@mkdir -p $(@D)
	$(Q)$(CC) $(GUEST_LDFLAGS) -o $@ $^ $$(pkg-config --static --libs libuv-static) -ljansson -lz $(LIBS_ENVD)
$(B)/guest/init: $(call gobj,$(INIT_SRC) $(filter $(SB)/base/%,$(GUEST_LIB)))
	@mkdir -p $(@D)
	$(Q)$(CC) $(GUEST_LDFLAGS) -o $@ $^ -ljansson
$(B)/guest/kernel/%.py: $(KERNEL_DIR)/%.py
	@install -D -m 644 $< $@

# ---- tests
$(B)/test/unit/test_mcp_auth $(B)/test/unit/test_mcp_key_source: $(B)/obj/tests/lib/jose_keys.o
$(B)/test/unit/%: $(B)/obj/tests/unit/%.o $(B)/obj/tests/lib/tap.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(Q)$(CC) $(HOST_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(ARCHIVES) -Wl,--end-group \
	    $(LIBS_MCP) -lslirp $(LIBS_NET) $(LIBS_ENVD)
$(B)/test/replay/%: $(B)/obj/tests/fuzz/%.o $(B)/obj/tests/fuzz/replay.o $(B)/obj/tests/lib/tap.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(Q)$(CC) $(HOST_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(ARCHIVES) -Wl,--end-group \
	    $(LIBS_MCP) -lslirp $(LIBS_NET) $(LIBS_ENVD)

# What `make test` and the sanitizer tree run is named by the environment, so that the programs of
# the right tree are tested.
TEST_ENV = BIN=$(abspath $(B)/bin) GUEST=$(abspath $(B)/guest) ENVD=$(abspath $(HOST_ENVD)) \
           TEST=$(abspath $(B)/test) CUBBY_TEST_HOME=$(TEST_HOME) SAN=$(SAN) PYTHONPATH=$(CURDIR)/tests/lib \
           CLIENTS=$(abspath $(CLIENTS))
VENV    := $(BUILD)/venv
CLIENTS := $(BUILD)/clients
ifneq ($(SAN),)
VENV    := $(dir $(BUILD))venv
CLIENTS := $(dir $(BUILD))clients
endif
$(VENV)/.done: tests/requirements.txt | $(B)/.deps-test
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install -q --disable-pip-version-check -r tests/requirements.txt
	@touch $@
# The official clients of newer releases and the conformance suite, with a Node.js new enough for them.
$(CLIENTS)/.done: tests/clients/package.json tests/clients/requirements.txt | $(B)/.deps-test
	@mkdir -p $(CLIENTS)
	@cp tests/clients/package.json $(CLIENTS)
	cd $(CLIENTS) && npm install --no-package-lock --no-audit --no-fund --loglevel error
	$(PYTHON) -m venv $(CLIENTS)/venv
	$(CLIENTS)/venv/bin/pip install -q --disable-pip-version-check -r tests/clients/requirements.txt
	@touch $@
# E2B's Python SDKs: today's, and those that a known user pins; each needs an environment of its own.
SDKS := $(CLIENTS)/e2b/.done $(CLIENTS)/e2b-1.9/.done
$(CLIENTS)/e2b/.done: tests/sdk/requirements.txt
$(CLIENTS)/e2b-1.9/.done: tests/sdk/requirements-1.9.txt
$(SDKS): | $(B)/.deps-test
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

# What failed is run once more, alone, and named if it passes then: tests/run.py says why.
pytest = @$(TEST_ENV) $(VENV)/bin/python tests/run.py $(B)/flaky/$@ $(1)
flaky  = @cat $(B)/flaky/* 2>/dev/null || true

# C units, and every fuzz target over its corpus. The same for units: prove keeps which failed.
PROVE := prove --statefile $(B)/test/unit.prove
unit: $(UNITS) $(REPLAYS) | $(B)/.deps-test
	@mkdir -p $(B)/flaky; rm -f $(B)/flaky/$@ $(B)/test/unit.prove
	@$(PROVE) --state=save --timer --exec 'timeout -k 5 60' $(UNITS) || { \
	    again=$$($(PROVE) --state=failed --dry | tr '\n' ' '); \
	    [ $$(echo $$again | wc -w) -le 5 ] && echo "run again, alone: $$again" && \
	    $(PROVE) --state=failed --exec 'timeout -k 5 60' && \
	    echo "flaky: passed when run again: $$again" | tee $(B)/flaky/$@; }
	@for r in $(notdir $(REPLAYS)); do \
	    echo "exec timeout -k 5 60 $(B)/test/replay/$$r tests/fuzz/corpus/$${r#fuzz_}" >$(B)/test/replay/$$r.t; done
	@prove --exec sh $(patsubst %,%.t,$(REPLAYS))
# One program each, with real or faked peers, official ones among them; no QEMU. Three files at a time at least:
# on two processors half of the time is waiting.
protocol: all $(TEST_PROGRAMS) $(VENV)/.done $(CLIENTS)/.done $(SDKS)
	$(call pytest,tests/protocol tests/clients tests/conformance tests/sdk -- -n $(if $(filter 1 2 3,$(shell nproc)),3,4) --dist loadfile)
# Everything real: QEMU, a template of this tree's own, the official clients.
# Two files at a time: a guest keeps one processor busy, and waits for the other programs of its test.
e2e: all $(TEST_PROGRAMS) $(VENV)/.done $(CLIENTS)/.done $(SDKS) $(TEST_TEMPLATE)
	$(call pytest,tests/e2e tests/acceptance tests/attack -- -n 2 --dist loadfile)
# What is installed, compiled and built for the tests, side by side; the tests then one after another.
prepare: all $(UNITS) $(REPLAYS) $(TEST_PROGRAMS) $(VENV)/.done $(CLIENTS)/.done $(SDKS) $(TEST_TEMPLATE)
test:
	@$(MAKE) --no-print-directory -j$(shell nproc) prepare
	@$(MAKE) --no-print-directory unit protocol e2e layers headers
	$(flaky)
	@echo "make test: units, protocol, end to end, layers and headers: all passed"
asan:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/asan SAN=1 TEST_HOME=$(abspath $(BUILD)/test-home) unit protocol e2e
	@cat $(BUILD)/asan/flaky/* 2>/dev/null || true

# The template that the tests use is built by this tree, into a state directory of its own, and again
# when what goes into it has changed.
$(TEST_TEMPLATE): $(GUEST) $(KERNEL) $(SB)/drivers/microvm/initramfs_modules.c | $(BIN) $(B)/.deps-run
	CUBBY_HOME=$(TEST_HOME) $(B)/bin/cubby template build default

demo: all $(VENV)/.done | $(B)/.deps-run
	@$(B)/bin/cubby template ls --json | grep -q '"default"' || $(B)/bin/cubby template build default
	@BIN=$(abspath $(B)/bin) $(VENV)/bin/python tests/acceptance/scenario.py --mode per-call \
	    --transcript $(B)/demo-transcript.jsonl
	@echo "every call and answer: $(B)/demo-transcript.jsonl"

bench: all $(TEST_PROGRAMS) $(B)/test/filter-cost $(VENV)/.done $(TEST_TEMPLATE) | $(B)/.deps-bench
	@$(TEST_ENV) $(VENV)/bin/python tests/bench/bench.py | tee $(B)/bench.json
	@/usr/bin/python3 tests/bench/picture.py $(B)/bench.json $(B)/performance.svg

# By hand, for docs/soak.md: long runs on real machines. tests/bench/soak.py has what can be said to it.
soak: all $(TEST_PROGRAMS) $(VENV)/.done $(TEST_TEMPLATE)
	@$(TEST_ENV) $(VENV)/bin/python tests/bench/soak.py
crash: all $(TEST_PROGRAMS) $(VENV)/.done $(TEST_TEMPLATE)
	@$(TEST_ENV) $(VENV)/bin/python tests/bench/crash_table.py

# ---- looking at the code
C_FILES = $(shell git ls-files -co --exclude-standard '*.c')
H_FILES = $(shell git ls-files -co --exclude-standard '*.h')
tidy: $(B)/.deps-lint $(B)/gen/schemas.h
	@echo $(filter-out tests/%,$(C_FILES)) | tr ' ' '\n' | xargs -P 2 -n 4 sh -c \
	    'clang-tidy --quiet "$$@" -- $(CPPFLAGS) $(LLHTTP_INC) $(STD) 2>/dev/null' clang-tidy
	cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
	    --suppress=missingIncludeSystem --suppress=nullPointerArithmeticRedundantCheck \
	    --error-exitcode=1 -j 2 -I. mcp-server sandbox-backend
fmt: $(B)/.deps-lint
	clang-format -i $(C_FILES) $(H_FILES)
fmt-check: $(B)/.deps-lint
	clang-format --dry-run -Werror $(C_FILES) $(H_FILES)
layers:
	@.ci/layers
# Every header compiles alone.
headers: | $(B)/.deps
	@for h in $(H_FILES); do \
	    echo "#include \"$$h\"" | $(CC) $(CPPFLAGS) $(LLHTTP_INC) $(STD) $(WARN) -Wno-unused-macros \
	        -fsyntax-only -x c - || exit 1; done; echo "headers: each compiles alone"

# ---- fuzzing, in a tree of its own: FUZZ_SECONDS of each target
FUZZ_SECONDS ?= 60
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/test/fuzz/%,$(FUZZ_SRC))
$(B)/test/fuzz/%: $(B)/obj/tests/fuzz/%.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(Q)$(CC) $(HOST_LDFLAGS) -fsanitize=fuzzer -o $@ $(filter %.o,$^) -Wl,--start-group $(ARCHIVES) -Wl,--end-group \
	    $(LIBS_MCP) -lslirp $(LIBS_NET) $(LIBS_ENVD)
fuzzers: $(FUZZERS)
fuzz: $(B)/.deps-lint
	@$(MAKE) --no-print-directory BUILD=$(B)/fuzz CC=clang WERROR= HARD= \
	    CFLAGS='-O1 -g -fsanitize=fuzzer-no-link,address,undefined' fuzzers
	@for f in $(notdir $(FUZZERS)); do c=tests/fuzz/corpus/$${f#fuzz_}; echo "== $$f"; mkdir -p $(B)/fuzz/found/$$f; \
	    $(B)/fuzz/test/fuzz/$$f -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
	        -print_final_stats=1 $(B)/fuzz/found/$$f $$c || exit 1; done

# ---- installing
DESTDIR ?=
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/cubby/guest $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(GUEST) $(DESTDIR)$(PREFIX)/lib/cubby/guest
	cd $(B)/guest && find kernel -name '*.py' -exec install -D -m 644 {} $(abspath $(DESTDIR)$(PREFIX))/lib/cubby/guest/{} \;
	install -m 644 $(wildcard docs/man/*.1) $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's#/usr/local/#$(PREFIX)/#' $(SB)/daemon/cubbyd.service >$(DESTDIR)$(PREFIX)/lib/systemd/system/cubbyd.service

help:
	@echo 'make demo      install what is missing, build, make the template, show five bugs being fixed'
	@echo 'make           build the programs into $(B)/bin and $(B)/guest'
	@echo 'make test      test everything; unit, protocol, e2e are its parts'
	@echo 'make asan      the same in a second tree, with address and undefined-behaviour sanitizers'
	@echo 'make bench     measure, and print the figures as JSON'
	@echo 'make soak      thousands of sandboxes in one daemon; make crash: it is killed at each step'
	@echo 'make tidy layers headers fmt fmt-check fuzz'
	@echo 'make install   DESTDIR= PREFIX=$(PREFIX)'

# ---- what must be installed: looked at once a tree, and again when this file changes
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
define need
	@missing=$$(for p in $(1); do dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	if [ -n "$$missing" ]; then \
	    echo "installing:" $$missing; \
	    $(SUDO) apt-get update -q >/dev/null && \
	    DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -q -y --no-install-recommends $$missing >$(2) 2>&1 || \
	    { tail -20 $(2); echo "could not install:" $$missing; exit 1; }; \
	fi
endef
$(B)/.deps: Makefile
	@mkdir -p $(B)
	$(call need,$(DEPS_BUILD),$(B)/deps.log)
	@touch $@
$(B)/.deps-run: Makefile | $(B)/.deps
	$(call need,$(DEPS_RUN),$(B)/deps.log)
	@touch $@
$(B)/.deps-test: Makefile | $(B)/.deps-run
	$(call need,$(DEPS_TEST),$(B)/deps.log)
	@touch $@
$(B)/.deps-lint: Makefile | $(B)/.deps
	$(call need,$(DEPS_LINT),$(B)/deps.log)
	@touch $@
$(B)/.deps-bench: Makefile | $(B)/.deps-test
	$(call need,$(DEPS_BENCH),$(B)/deps.log)
	@touch $@
deps: $(B)/.deps $(B)/.deps-run $(B)/.deps-test

clean:
	rm -rf $(B)

# ---- dependency files of the compilers
-include $(shell find $(B) -path $(B)/test-home -prune -o -name '*.d' -type f -print 2>/dev/null)
