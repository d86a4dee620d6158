# SPDX-License-Identifier: Apache-2.0
# Releases: docs/releases.md. A part of the Makefile, included by it.

DIST := $(B)/dist
DEPS_DIST := minisign binutils python3
# Where the files of the release will be; the name in the MCP registry; a template archive to name or to
# pack; the secret key of minisign that signs the checksums.
RELEASE_URL   ?=
REGISTRY_NAME ?= localdomain.localhost/cubby-mcp
TEMPLATE_URL  ?=
TEMPLATE      ?=
SIGN          ?=
portable dist image rpm: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)

.PHONY: portable dist test-dist image test-image rpm test-rpm test-packages
# Programs for other distributions, with runsc, below build/portable/tree.
portable: $(RUNSC_BIN) | $(B)/.deps
	@mkdir -p $(B)/portable && ln -sfn $(abspath $(XTERM_DIR)) $(B)/portable/xterm
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/portable PORTABLE=1 RUNSC=$(abspath $(RUNSC_BIN)) all runsc stage
	@.ci/package/dist/portable $(B)/portable $(VERSION) $(B)/portable/tree
# The rpm, by Debian's rpmbuild; and by hand, as root: installed with rpm --root.
RPM := $(BUILD)/cubby-$(VERSION)-1.x86_64.rpm
DEPS_RPM := rpm
rpm: portable | $(B)/.deps-rpm
	@.ci/package/rpm $(B)/portable/tree $(VERSION) $(BUILD)
test-rpm: rpm $(VENV)/.done
	$(call pytest,tests/packages/test_rpm.py -- -n 0)
dist: portable | $(B)/.deps-dist
	@rm -rf $(DIST) && mkdir -p $(DIST)
	@if [ -n "$(TEMPLATE)" ]; then cp --reflink=auto $(TEMPLATE) $(DIST)/default.cubby; fi
	@if [ -n "$(TEMPLATE_URL)" ]; then .ci/package/dist/template-url $(TEMPLATE_URL) $(B)/portable/tree $(TEMPLATE); fi
	@.ci/package/dist/channels $(B)/portable/tree $(DIST) $(VERSION) --registry-name $(REGISTRY_NAME) \
	    $(if $(RELEASE_URL),--release-url $(RELEASE_URL)) $(if $(TEMPLATE),--template $(TEMPLATE))
	@sed 's#@VERSION@#$(VERSION)#; s#@GLIBC@#'"$$(cat $(B)/portable/tree/share/cubby/glibc)"'#; s#@URL@#$(RELEASE_URL)#' \
	    .ci/package/dist/install.sh >$(DIST)/install.sh
	@cp $(B)/portable/tree/share/doc/cubby/sbom.spdx.json $(DIST)/
	@for f in $(DEB) $(B)/cubby-template-default_$(VERSION)-1_amd64.deb $(RPM) $(B)/cubby-$(VERSION)-image.tar; do \
	    if [ -e $$f ]; then cp --reflink=auto $$f $(DIST)/; fi; done
	@cd $(DIST) && LC_ALL=C sha256sum * >../SHA256SUMS && mv ../SHA256SUMS .
	@if [ -n "$(SIGN)" ]; then minisign -S -s $(SIGN) -m $(DIST)/SHA256SUMS -t "cubby $(VERSION)" </dev/null; \
	    else echo "not signed: make dist SIGN=FILE names a secret key of minisign"; fi
	@echo "$(DIST): $$(ls $(DIST) | wc -l) files"
# By hand, with a network: the files as their readers judge them, signed with a key that is removed. They are
# not where a release is.
TEST_DIST := $(B)/package/dist
define signed_dist
	@mkdir -p $(B)/package && minisign -G -W -f -p $(TEST_DIST).pub -s $(TEST_DIST).key </dev/null >/dev/null
	@$(MAKE) --no-print-directory dist DIST=$(TEST_DIST) TEMPLATE=$(ARCHIVE) SIGN=$(TEST_DIST).key; \
	    status=$$?; rm -f $(TEST_DIST).key; exit $$status
endef
test-dist: $(ARCHIVE) $(VENV)/.done $(UV) | $(B)/.deps-dist
	$(signed_dist)
	$(call pytest,tests/packages/test_dist.py -- -n 0 -s)

# A container image, as an OCI archive, without an engine. It has the template of TEMPLATE, else that of the
# tests.
IMAGE := $(BUILD)/cubby-$(VERSION)-image.tar
DEPS_IMAGE := mmdebstrap buildah skopeo umoci runc
image: portable $(if $(TEMPLATE),,$(ARCHIVE)) | $(B)/.deps-image
	@.ci/package/dist/image $(B)/portable/tree $(or $(TEMPLATE),$(ARCHIVE)) $(VERSION) $(REGISTRY_NAME) $(IMAGE)
# By hand, as root: the image, run by runc as an ordinary user; ten minutes.
test-image: image $(VENV)/.done
	$(call pytest,tests/packages/test_image.py -- -n 0 -s)

# By hand, as root, with a network: each package and channel is built, and then used as its users do.
test-packages: deb deb-template image $(VENV)/.done $(UV) | $(B)/.deps-dist
	$(signed_dist)
	$(call pytest,tests/packages/test_packages.py tests/packages/test_image.py tests/packages/test_dist.py \
	    tests/protocol/packages -- -n 0 -s)
