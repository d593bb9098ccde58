# SPDX-License-Identifier: GPL-2.0-only
#
# The commands of this checkout. The module itself is built by the kernel's
# build system from Kbuild, which it prefers to this file.

# What the kernel's build system does for a module outside of its tree: no build
# environment, and the arguments that the kernel's own build gets.
kbuild_goals := modules modules_install rust-analyzer

ifneq ($(filter $(kbuild_goals) rustfmt rustfmtcheck,$(MAKECMDGOALS)),)

KDIR ?= /lib/modules/$(shell uname -r)/build

.NOTPARALLEL:
.PHONY: $(kbuild_goals) rustfmt rustfmtcheck

$(kbuild_goals):
	$(MAKE) -C '$(KDIR)' M='$(CURDIR)' $@

# The kernel's own targets of these names are for its whole tree.
rustfmtcheck: check := --check
rustfmt rustfmtcheck:
	find src -name '*.rs' ! -name shim_bindings.rs -exec rustfmt $(check) --edition 2021 \
		--config-path "$$(d='$(KDIR)'; [ ! -e "$$d/source" ] || d=$$d/source; echo "$$d")/.rustfmt.toml" {} +

else

OUT ?= out
SUITE ?=
# Where none is named, make run takes the one that is there soonest.
run_kernel := $(KERNEL)
KERNEL ?= armv7
# A package is for a kernel of Debian's; the default of the others is none.
debian_kernel = $(if $(filter armv7,$(KERNEL)),debian,$(KERNEL))

# Everything runs in scripts/env, where host variables of these names mean nothing.
unexport MAKEFLAGS MFLAGS
export OUT KERNEL

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run test soak bench check check-debian land shell env kernel module deb tarball docs editor pictures clean distclean

help:
	@echo 'galcore in Rust: a Linux driver for Vivante GPUs'
	@echo
	@echo '  make run              boot the virtual board, draw a picture, print its path;'
	@echo '                        BOARD=dove, imx6q ... for another board'
	@echo '  make test             all tests; SUITE="NAME..." for some of them'
	@echo '  make soak             the long tests, those of check-debian, and, as root, make run and'
	@echo '                        make test on fresh Debian 12, 13 and Ubuntu 24.04'
	@echo '  make bench            what each operation costs: instructions, register accesses, time'
	@echo '  make check            formatting, lints, documentation, bindings, scripts'
	@echo '  make land             what CI does with this commit, in a clean clone; the last line says pass or fail'
	@echo '  make check-debian     the packages for Debian: lintian, installed, booted; the way through dkms'
	@echo '  make shell            a shell on the virtual board, the module loaded'
	@echo
	@echo '  make module           only build galcore.ko; prints its path'
	@echo '  make deb              packages for Debian forky'"'"'s own kernel: module and utilities;'
	@echo '                        KERNEL=debian-trixie-backports for Debian 13; with -arm64 for 64 bits'
	@echo '  make tarball          for other systems: source, programs and scripts/install'
	@echo '  make editor           rust-project.json for rust-analyzer, without further arguments'
	@echo '  make docs             the documentation as a site with search, and that of the'
	@echo '                        source; prints its first page'
	@echo '  make kernel           only build the kernel'
	@echo '  make env              only set up the build environment'
	@echo
	@echo '  make KDIR=BUILD modules    as any module outside of the tree, without the environment;'
	@echo '                        also modules_install, rust-analyzer, rustfmt, rustfmtcheck'
	@echo
	@echo '  make clean            remove what was built from this checkout'
	@echo '  make distclean        remove the build environment and kernels too'
	@echo
	@echo 'KERNEL=debian with any of them: on the unmodified armhf kernel of Debian forky,'
	@echo 'KERNEL=debian-arm64: its 64-bit one, see scripts/kernel; else on a kernel of our own with'
	@echo 'many checks on, but for make run: that of Debian 13 backports is there sooner.'
	@echo
	@echo 'Results go to OUT=$(OUT). On 2 cores, the first make run takes about 6 minutes, as'
	@echo 'it sets up what it needs; the first make test takes about an hour (it compiles three'
	@echo 'kernels), later ones 15 to 20 minutes. What they set up is kept in ~/.cache/galcore, or'
	@echo 'below XDG_CACHE_HOME.'

run:
	@KERNEL='$(run_kernel)' scripts/board demo --out '$(OUT)' $(if $(BOARD),--board '$(BOARD)')

test:
	@scripts/board test --out '$(OUT)' $(SUITE)

soak:
	@scripts/board soak --out '$(OUT)' $(SUITE)
	@$(if $(SUITE),:,scripts/board trees --kernel debian-trixie-backports --board sabrelite --out '$(OUT)/trees')
	@$(if $(SUITE),:,scripts/board trees --kernel debian-trixie-backports-arm64 --board imx8mm-evk --out '$(OUT)/trees-8mm')
	@$(if $(SUITE),:,scripts/board trees --kernel debian-trixie-backports-arm64 --board imx8mp-evk --out '$(OUT)/trees-8mp')
	@$(if $(SUITE),:,scripts/bare-roots)
	@$(if $(SUITE),:,scripts/perfetto --test)
	@$(if $(SUITE),:,KERNEL='$(debian_kernel)' scripts/check-debian)
	@$(if $(SUITE),:,KERNEL=debian-arm64 OUT='$(OUT)/debian-arm64' scripts/check-debian)

bench:
	@scripts/board bench --out '$(OUT)' --runs 2

land:
	@scripts/land

shell:
	@scripts/board shell

check:
	@scripts/check

env:
	@scripts/env

kernel:
	@scripts/kernel

module:
	@scripts/module

deb:
	@KERNEL='$(debian_kernel)' scripts/deb

tarball:
	@scripts/tarball

check-debian:
	@KERNEL='$(debian_kernel)' scripts/check-debian

docs:
	@scripts/docs

editor:
	@scripts/editor

pictures:
	@scripts/pictures

clean:
	@scripts/clean

distclean:
	@scripts/clean --all

endif
