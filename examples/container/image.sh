#!/bin/sh
# Makes an image's root directory for container.toml: image.sh [debian]
#
# Busybox and its commands (Debian's busybox-static); or, with `debian`, Debian's base by
# debootstrap, which needs root, the archive and a minute. An image of podman's also works:
#   podman export "$(podman create IMAGE)" | tar -x -C image
set -eu
cd "$(dirname "$0")"
rm -rf image
mkdir image
[ "${1:-busybox}" != debian ] || debootstrap --variant=minbase bookworm image >/dev/null
mkdir -p image/bin image/opt
cp "$(command -v busybox)" image/bin/
[ -e image/bin/sh ] || chroot image /bin/busybox --install -s /bin
# Program of this example's controller: prints one line a minute, by its own clock.
cat >image/opt/logic <<'LOGIC'
#!/bin/sh
while :; do
    read -r up rest </proc/uptime
    echo "$(hostname) is process $$, up for $up s, and it is $(date -u '+%d %B %H:%M:%S')"
    sleep 60
done
LOGIC
chmod 755 image/opt/logic
