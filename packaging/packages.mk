# Rules for packages and for installation elsewhere (docs/install.md). Included by the Makefile.

.DEFAULT_GOAL := help
.PHONY: install deb wheel check-packages check-container packages-deb packages-container

install: build ## Put what was built under PREFIX (/usr/local), below DESTDIR
	scripts/install target/release

deb: build packages-deb ## A Debian package, in target/packages/
	scripts/deb target/release

wheel: build ## A Python wheel with the program in it, in target/packages/
	scripts/wheel --release

check-packages: build packages-deb ## Make them, install them into roots of their own, and use them from there
	scripts/check-packages target/release --release

check-container: packages-container deb wheel ## Install them on a Debian of its own, in a container: a run, the units under systemd, the wheel
	scripts/check-container

packages-container: packages-deb
	@scripts/packages debootstrap:debootstrap systemd-nspawn:systemd-container
packages-deb: packages-build
	@scripts/packages dpkg-deb:dpkg objdump:binutils gzip:gzip
