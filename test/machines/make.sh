#!/usr/bin/env bash
# Makes the archives of testdata anew: starts Debian's kernels in virtual machines that
# QEMU emulates, and has each write what mqd check reads of it. The README says more.
#
#   make.sh [NAME...]     of all machines, or of those with the names
#
# Needs: Debian's apt, qemu-system-x86, qemu-system-arm, ipxe-qemu, seabios, cpio, zstd,
# xz-utils, kmod, xfsprogs, e2fsprogs, fdisk, and Go. No root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${WORK:-$(mktemp -d)}
version=${KERNEL:-6.12.117+deb12}
mkdir -p "$work"
cd "$work"

# kernel ARCHITECTURE: unpacks Debian's kernel for it into kernel-ARCHITECTURE.
kernel() {
	[ -d "kernel-$1" ] && return
	local apt=$work/apt-$1
	mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/deb"
	printf 'deb http://deb.debian.org/%s main\n' 'debian-security bookworm-security' 'debian bookworm-backports' >"$apt/list"
	local options=(-qq -o Dir::Etc::sourcelist="$apt/list" -o Dir::Etc::sourceparts=/nonexistent -o Dir::State="$apt/state"
		-o Dir::Cache="$apt/cache" -o APT::Architecture="$1" -o APT::Architectures="$1" -o APT::Sandbox::User=root)
	apt-get "${options[@]}" update
	(cd "$apt/deb" && apt-get "${options[@]}" download "linux-image-$version-$1")
	dpkg -x "$apt"/deb/*.deb "kernel-$1.part"
	rm -rf "$apt"
	depmod -b "kernel-$1.part" "$version-$1"
	mv "kernel-$1.part" "kernel-$1"
}

# initramfs ARCHITECTURE MODULE...: packs the first process and modules, with those that
# they need before them.
initramfs() {
	local arch=$1 lib=kernel-$1/lib/modules/$version-$1 root n=1000 module file
	shift
	root=$(mktemp -d)
	mkdir -p "$root/modules"
	(cd "$here" && GOOS=linux GOARCH=$arch CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$root/init" ./first)
	for module in "$@"; do
		modprobe -d "kernel-$arch" -S "$version-$arch" --show-depends "$module" | awk '$1 == "insmod" {print $2}'
	done | awk '!seen[$0]++' | while read -r file; do
		n=$((n + 1))
		xz -dc "$file" >"$root/modules/$n-$(basename "${file%.xz}")"
	done
	(cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc --quiet)
	rm -rf "$root"
}

# disk NAME SIZE [FS]: makes an image of a disk, with a filesystem.
disk() {
	rm -f "$1.img"
	truncate -s "$2" "$1.img"
	case ${3:-} in
	xfs) mkfs.xfs -q "$1.img" ;;
	ext4) mkfs.ext4 -q "$1.img" ;;
	esac
}

# partitioned NAME SIZE: makes an image with a partition table and ext4 on its second one.
partitioned() {
	disk "$1" "$2"
	printf 'label: gpt\nstart=2048,size=2048\nstart=4096\n' | sfdisk -q "$1.img"
	mkfs.ext4 -q -E offset=$((4096 * 512)) "$1.img" 32M
}

drive() { echo -drive "file=$1.img,if=none,id=$1,format=raw,snapshot=on"; }

# machine NAME ARCHITECTURE MODULES COMMANDLINE QEMU...: runs one, and keeps its archive.
machine() {
	local name=$1 arch=$2 modules=$3 line=$4
	shift 4
	kernel "$arch"
	# shellcheck disable=SC2086 # it is a list
	initramfs "$arch" $modules >"$name.cpio"
	for _ in 1 2 3; do # emulated CPUs now and then miss what another one has patched
		timeout "${LIMIT:-600}" "$@" -nodefaults -no-user-config -no-reboot -display none -serial "file:$name.log" -monitor none \
			-kernel "kernel-$arch/boot/vmlinuz-$version-$arch" -initrd "$name.cpio" -append "quiet panic=-1 mitigations=off $line" || true
		tr -d '\r' <"$name.log" | grep -a -e '^TUNE' -e '^FAILED' -e '^/modules' -e 'panic' || true
		tr -d '\r' <"$name.log" | sed -n 's/^ARCHIVE //p' | base64 -d >"$name.tar.gz"
		if gzip -qt "$name.tar.gz" 2>/dev/null; then
			mkdir -p "$here/testdata"
			cp "$name.tar.gz" "$here/testdata/$name.tar.gz"
			return
		fi
	done
	echo "$name: no archive came" >&2
	return 1
}

# x86 is QEMU for a machine that does not say that it is a virtual one.
x86=(qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -cpu "max,vendor=GenuineIntel,-hypervisor")

server() {
	disk one 320M xfs
	disk two 320M xfs
	disk three 320M ext4
	# shellcheck disable=SC2046
	machine server amd64 "nvme e1000e vmxnet3 xfs ext4 dm-mod" \
		"console=ttyS0 LINEAR=data:@80+n2 DATA=dm-0:ext4:/var/lib/mqd,@80+n1:xfs:/data/1,@20+n1:xfs:/data/0" \
		"${x86[@]}" -m 1024 -smp 16,sockets=2,cores=4,threads=2 \
		-object memory-backend-ram,id=m0,size=512M -numa node,nodeid=0,cpus=0-7,memdev=m0 \
		-object memory-backend-ram,id=m1,size=512M -numa node,nodeid=1,cpus=8-15,memdev=m1 \
		-device pxb-pcie,id=bus0,bus_nr=32,numa_node=0,bus=pcie.0 -device pxb-pcie,id=bus1,bus_nr=128,numa_node=1,bus=pcie.0 \
		-device pcie-root-port,id=port0,bus=bus0,chassis=1,slot=1 -device pcie-root-port,id=port1,bus=bus1,chassis=2,slot=2 \
		-device pcie-root-port,id=port2,bus=bus1,chassis=3,slot=3 -device pcie-root-port,id=port3,bus=bus0,chassis=4,slot=4 \
		$(drive one) $(drive two) $(drive three) \
		-device nvme,id=nvme0,bus=port0,serial=0,max_ioqpairs=16,drive=one \
		-device nvme,id=nvme1,bus=port1,serial=1,max_ioqpairs=16 \
		-device nvme-ns,bus=nvme1,drive=two,nsid=1 -device nvme-ns,bus=nvme1,drive=three,nsid=2 \
		-netdev user,id=n0 -device e1000e,netdev=n0,bus=port3 -netdev user,id=n1 -device vmxnet3,netdev=n1,bus=port2
}

multipath() {
	partitioned shared 64M
	# shellcheck disable=SC2046
	machine multipath amd64 "nvme e1000e ext4" \
		"console=ttyS0 isolcpus=managed_irq,domain,4-7 DATA=@nvme-subsystem+n1p2:ext4:/var/lib/mqd" \
		"${x86[@]}" -m 768 -smp 8,sockets=2,cores=4,threads=1 \
		-object memory-backend-ram,id=m0,size=384M -numa node,nodeid=0,cpus=0-3,memdev=m0 \
		-object memory-backend-ram,id=m1,size=384M -numa node,nodeid=1,cpus=4-7,memdev=m1 \
		-device pxb-pcie,id=bus0,bus_nr=32,numa_node=0,bus=pcie.0 -device pxb-pcie,id=bus1,bus_nr=128,numa_node=1,bus=pcie.0 \
		-device pcie-root-port,id=port0,bus=bus0,chassis=1,slot=1 -device pcie-root-port,id=port1,bus=bus1,chassis=2,slot=2 \
		$(drive shared) -device nvme-subsys,id=sub0 \
		-device nvme,id=nvme0,bus=port0,serial=0,max_ioqpairs=8,subsys=sub0 -device nvme,id=nvme1,bus=port1,serial=0,max_ioqpairs=8,subsys=sub0 \
		-device nvme-ns,bus=nvme1,drive=shared,nsid=1,shared=on \
		-netdev user,id=n0 -device e1000e,netdev=n0,bus=pcie.0
}

desktop() {
	disk sata 64M ext4
	disk scsi 320M xfs
	disk stick 64M ext4
	disk cd 1M
	# shellcheck disable=SC2046
	machine desktop amd64 "ahci virtio_pci virtio_scsi sd_mod sr_mod xhci_pci usb_storage e1000e xfs ext4 dm-mod" \
		"console=ttyS0 LINEAR=root:@/ata DATA=dm-0:ext4:/var/lib/mqd,@/virtio:xfs:/data/scsi,@/usb:ext4:/data/usb" \
		"${x86[@]}" -m 512 -smp 4,sockets=1,cores=2,threads=2 \
		$(drive sata) $(drive scsi) $(drive stick) $(drive cd) \
		-device ide-hd,drive=sata,rotation_rate=5400,serial=S,bus=ide.0 -device ide-cd,drive=cd,bus=ide.1 \
		-device virtio-scsi-pci,id=scsi0,num_queues=4 -device scsi-hd,drive=scsi,bus=scsi0.0 \
		-device qemu-xhci -device usb-storage,drive=stick \
		-netdev user,id=n0 -device e1000e,netdev=n0,bus=pcie.0
}

small() {
	disk root 64M ext4
	# shellcheck disable=SC2046
	machine small amd64 "virtio_mmio virtio_blk virtio_net ext4" \
		"console=ttyS0 DATA=vda:ext4:/var/lib/mqd" \
		qemu-system-x86_64 -machine microvm,pit=on,pic=on,rtc=on -accel tcg -cpu max -smp 1 -m 256 \
		$(drive root) -device virtio-blk-device,drive=root -netdev user,id=n0 -device virtio-net-device,netdev=n0
}

arm() {
	disk arm 64M ext4
	# shellcheck disable=SC2046
	machine arm arm64 "virtio_pci virtio_blk virtio_net ext4" \
		"console=ttyAMA0 DATA=vda:ext4:/var/lib/mqd" \
		qemu-system-aarch64 -machine virt,gic-version=3 -accel tcg,thread=multi -cpu cortex-a57 -smp 4,sockets=1,clusters=2,cores=2,threads=1 -m 512 \
		$(drive arm) -device virtio-blk-pci,drive=arm,num-queues=4 -netdev user,id=n0 -device virtio-net-pci,netdev=n0,romfile=
}

for name in ${*:-server multipath desktop small arm}; do
	echo "=== $name"
	"$name"
done
