#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs the software GPU and your own kernel in QEMU, without the board's runner. The
# script is complete and easy to change. It needs cargo, dtc, cpio, QEMU 10.1 or newer,
# and a static busybox for the guest, but not root. Documentation/gpu-model.md explains
# each step.
#
# usage: standalone.sh BUILD BUSYBOX [COMMAND]
#
# BUILD    the build folder of a 32-bit ARM kernel with zImage and with etnaviv as modules
# BUSYBOX  a static busybox for armhf
# COMMAND  command for the guest's shell; default: print etnaviv's information on the GPU
#
# BOARD=gc2000|gc880|gc320|gc3000|dove, QEMU=PROGRAM, LIMIT=120
# Exit status: that of COMMAND; 3 if the GPU model recorded violations.

set -euo pipefail
[ $# -ge 2 ] || { sed -n '3,/^$/s/^# \{0,1\}//p' "$0" >&2; exit 64; }
build=$(realpath "$1")
busybox=$(realpath "$2")
command=${3:-'dmesg | grep etnaviv; cat /sys/kernel/debug/dri/*/gpu'}
tests=$(realpath "$(dirname "$0")/..")
qemu=${QEMU:-qemu-system-arm}
model=
work=$(mktemp -d /tmp/gpu.XXXXXX) # a socket's path has at most 107 bytes
trap '[ -z "$model" ] || kill "$model" 2>/dev/null || true; rm -rf "$work"' EXIT

# The GPU model runs on the host.
(cd "$tests" && cargo build --quiet --release -p gpu-model)
"${CARGO_TARGET_DIR:-$tests/target}/release/gpu-model" --socket "$work/socket" --report "$work/gpu.json" \
	--board "${BOARD:-gc2000}" &
model=$!

# The guest's files: busybox, the modules in load order, /init.
mkdir -p "$work"/root/{bin,dev,proc,sys,modules}
cp "$busybox" "$work/root/bin/busybox"
number=10
for module in i2c/i2c-core gpu/drm/drm_panel_orientation_quirks gpu/drm/drm gpu/drm/scheduler/gpu-sched \
	gpu/drm/etnaviv/etnaviv; do
	[ ! -e "$build/drivers/$module.ko" ] ||
		cp "$build/drivers/$module.ko" "$work/root/modules/$number-${module##*/}.ko"
	number=$((number + 1))
done
cat >"$work/root/init" <<END
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs devtmpfs /dev
mount -t debugfs debugfs /sys/kernel/debug
exec >/dev/ttyAMA0 2>&1
# The GPU's registers answer from here on.
echo 1 >/sys/bus/pci/devices/0000:00:01.0/enable
for module in /modules/*.ko; do insmod "\$module"; done
( $command )
echo "standalone: status \$?"
poweroff -f
END
chmod +x "$work/root/init"
(cd "$work/root" && find . | cpio --quiet -o -H newc) >"$work/initrd"

# The machine's device tree with the GPU as a platform device. The registers are at BAR 0 of PCI slot 1, and the
# interrupt is that slot's INTA.
machine=virt,highmem=off,memory-backend=ram
shared=(-m 512 -object "memory-backend-memfd,id=ram,size=512M,share=on" -nodefaults -display none)
"$qemu" -M "$machine,dumpdtb=$work/virt.dtb" -cpu cortex-a15 "${shared[@]}" 2>/dev/null
{
	dtc -q -I dtb -O dts "$work/virt.dtb"
	cat <<'END'
/ {
	gpu_clock: gpu-clock {
		compatible = "fixed-clock";
		#clock-cells = <0>;
		clock-frequency = <528000000>;
	};

	gpu@10000000 {
		compatible = "vivante,gc";
		reg = <0x0 0x10000000 0x0 0x40000>;
		interrupt-parent = <&{/intc@8000000}>;
		interrupts = <0 4 4>;
		clocks = <&gpu_clock>, <&gpu_clock>, <&gpu_clock>;
		clock-names = "bus", "core", "shader";
		dma-noncoherent;
	};
};
END
} >"$work/board.dts"
dtc -q -I dts -O dtb -o "$work/board.dtb" "$work/board.dts"

# The GPU can access the guest's memory only if it is shared (share=on, above).
tries=0
until [ -S "$work/socket" ]; do
	tries=$((tries + 1))
	[ "$tries" -lt 100 ] || { echo "standalone: the GPU does not listen" >&2; exit 69; }
	sleep 0.1
done
timeout "${LIMIT:-120}" "$qemu" -M "$machine" -cpu cortex-a15 -smp 1 "${shared[@]}" \
	-monitor none -serial stdio -no-reboot \
	-kernel "$build/arch/arm/boot/zImage" -initrd "$work/initrd" -dtb "$work/board.dtb" \
	-append "console=ttyAMA0 panic=-1 mem=384M" \
	-device "{\"driver\":\"vfio-user-pci\",\"socket\":{\"path\":\"$work/socket\",\"type\":\"unix\"},\"addr\":\"1\"}" |
	tee "$work/log"

# The model exits when the machine does. Its exit status shows whether there were violations.
status=0
wait "$model" || status=$?
model=
[ "$status" -eq 0 ] || { cat "$work/gpu.json" >&2; exit "$status"; }
exit "$(sed -n 's/^standalone: status \([0-9]*\).*/\1/p' "$work/log" | grep . || echo 73)"
