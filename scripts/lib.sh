# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Functions shared by the scripts. Source this file; it executes nothing by itself. Messages go to
# stderr, because stdout is for each script's result.

# The Linux releases that the driver was built for.
# shellcheck disable=SC2034 # for the scripts that source this
galcore_first=7.2 galcore_last=7.3
# The Debian suite with the kernel that the build environment itself can prepare.
# shellcheck disable=SC2034
galcore_backports=trixie-backports

# The folder of everything that is made outside the checkout.
galcore_cache() {
	printf '%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}/galcore"
}

# The checkout of this file.
galcore_top() {
	(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
}

say() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
}

# Prints one sentence with the error and its remedy, and exits.
die() {
	say "$*"
	exit 1
}

# usage: prints the text at the head of the running script.
usage() {
	sed -n '4,/^$/s/^# \{0,1\}//p' "$0"
}

# usage_line: prints only the forms of its command line.
usage_line() {
	usage | sed -nE '/^usage:/,/^$/s/^(usage:)? *(scripts[^(]*[^( ]).*/\2/p' | sed 's/   .*//' | paste -sd';' | sed 's/;/; or /g'
}

# options_are 'OPTION...' WORD...: call this first. Prints the usage if --help is among the words
# before "--", and refuses other options.
options_are() {
	local known=" $1 " word
	shift
	for word; do
		case $word in
		--) return 0 ;;
		-h | --help)
			usage
			exit 0
			;;
		-?*) [[ $known = *" ${word%%=*} "* ]] || refuse "$word" ;;
		esac
	done
}

# no_arguments WORD...: for a script without arguments.
no_arguments() {
	[ $# -eq 0 ] || refuse "$1"
}

refuse() {
	local kind=argument
	[[ $1 != -* ]] || kind=option
	die "unknown $kind '$1'; usage: $(usage_line)"
}

# Is this shell already inside the build environment?
in_env() {
	[ -e /etc/galcore-env ]
}

# Key of the folder for build output of cargo and Kbuild, so that two clones do not use each
# other's programs.
checkout_key() {
	galcore_top | short_hash
}

# commit_key PATH...: prints a key of the content of these paths, equal in all clones. Prints
# nothing if they have uncommitted changes; an edited tree keeps its build output private.
commit_key() {
	local top git
	top=$(galcore_top)
	git=(git --no-optional-locks -c safe.directory='*' -C "$top")
	[ -z "$("${git[@]}" status --porcelain -- "$@" 2>&1)" ] || return 0
	"${git[@]}" ls-tree HEAD "$@" 2>/dev/null | short_hash
}

# shared_output KIND KEY...: prints the folder for build output of the content with these keys,
# which all clones share. Only the newest folders of a kind are kept.
shared_output() {
	local kind=$1 keep=8 folder
	shift
	folder=$(galcore_cache)/built/$kind-$(short_hash <<<"$*")
	mkdir -p "$folder"
	touch "$folder"
	# Keeps folders from the last three hours, as another run may be using them.
	find "${folder%/*}" -mindepth 1 -maxdepth 1 -name "$kind-*" -mmin +180 -printf '%T@ %p\n' |
		sort -rn | tail -n +$((keep + 1)) | cut -d' ' -f2- | xargs -rd '\n' rm -rf
	printf '%s\n' "$folder"
}

# publish FOLDER FILE...: copies files there, each atomically.
publish() {
	local folder=$1 file new
	shift
	mkdir -p "$folder"
	for file; do
		new=$folder/.new-$$-${file##*/}
		cp "$file" "$new"
		mv "$new" "$folder/${file##*/}"
	done
}

# The selected kernel: a configuration of scripts/kernel-configs, or Debian's own,
# debian[-SUITE][-lpae|-arm64].
kernel_choice() {
	printf '%s\n' "${KERNEL:-armv7}"
}

# debian_suite NAME: prints the suite of a Debian kernel; fails for other names.
debian_suite() {
	local suite
	case $1 in
	debian | debian-*) suite=${1#debian} ;;
	*) return 1 ;;
	esac
	suite=${suite%-lpae}
	suite=${suite%-arm64}
	suite=${suite#-}
	printf '%s\n' "${suite:-forky}"
}

# debian_base SUITE: prints the suite with the rest of the system, for a SUITE that is only a
# part.
debian_base() {
	case $1 in
	*-backports) printf '%s\n' "${1%-backports}" ;;
	experimental) echo sid ;;
	*) printf '%s\n' "$1" ;;
	esac
}

# debian_flavour NAME: prints Debian's name of that kernel.
debian_flavour() {
	case $1 in
	*-lpae) echo armmp-lpae ;;
	*-arm64) echo arm64 ;;
	*) echo armmp ;;
	esac
}

# debian_arch NAME: prints Debian's architecture of that kernel.
debian_arch() {
	case $1 in
	*-arm64) echo arm64 ;;
	*) echo armhf ;;
	esac
}

# debian_release BUILD: prints the output of uname -r on the kernel that scripts/kernel-debian has
# prepared.
debian_release() {
	sed -nE 's/.*KERNELRELEASE=([^ ]+).*/\1/p' "$1/galcore-make"
}

# user_emulator ROOT ARCH: prints the path of that root's emulator for programs of Debian's
# architecture.
user_emulator() {
	case $2 in
	arm64) printf '%s\n' "$1/usr/bin/qemu-aarch64" ;;
	*) printf '%s\n' "$1/usr/bin/qemu-arm" ;;
	esac
}

# gnu_triple ARCH: prints the name prefix of the cross compiler for Debian's architecture.
gnu_triple() {
	case $1 in
	arm64) echo aarch64-linux-gnu ;;
	*) echo arm-linux-gnueabihf ;;
	esac
}

# kernel_arch BUILD: prints the kernel's name of the architecture of that build folder.
kernel_arch() {
	if grep -q '^CONFIG_ARM64=y' "$1/.config"; then echo arm64; else echo arm; fi
}

# kernel_image BUILD: prints the path of the bootable image.
kernel_image() {
	case $(kernel_arch "$1") in
	arm64) printf '%s\n' "$1/arch/arm64/boot/Image" ;;
	*) printf '%s\n' "$1/arch/arm/boot/zImage" ;;
	esac
}

# run_in_env NAME ARGS...: continues as scripts/NAME inside the environment.
run_in_env() {
	local name=$1
	shift
	[ -n "${GALCORE_INSIDE:-}" ] ||
		GALCORE_INSIDE=1 exec "$(galcore_top)/scripts/env" "$(galcore_top)/scripts/$name" "$@"
}

# run_in_debian SUITE NAME ARGS...: continues as scripts/NAME in a root of that suite.
run_in_debian() {
	local suite=$1 name=$2
	shift 2
	[ -n "${GALCORE_INSIDE:-}" ] ||
		GALCORE_INSIDE=1 exec "$(galcore_top)/scripts/env" --debian "$suite" "$(galcore_top)/scripts/$name" "$@"
}

# run_with_compilers SUITE NAME ARGS...: continues as scripts/NAME in the root with that suite's
# compilers. For the environment's own backports, this is the environment itself.
run_with_compilers() {
	if [ "$1" = "$galcore_backports" ]; then
		shift
		run_in_env "$@"
	else
		run_in_debian "$@"
	fi
}

# galcore_version: prints $GALCORE_VERSION if it is set, else the version in CHANGELOG.md. For a
# commit without that tag, prints an earlier version that sorts by time.
galcore_version() {
	local top version commit
	top=$(galcore_top)
	version=$(sed -nE 's/^## ([0-9.]+).*/\1/p' "$top/CHANGELOG.md" | head -n 1)
	[ -n "$version" ] || die "CHANGELOG.md has no line '## VERSION'"
	# Short, to keep file names short.
	commit=$(git -C "$top" log -1 --format=%cd --date=format:%y%m%d%H%M 2>/dev/null) || commit=
	if [ -n "$commit" ] && ! git -C "$top" tag --points-at HEAD | grep -qxF "v$version"; then
		version=$version~git$commit
	fi
	printf '%s\n' "${GALCORE_VERSION:-$version}"
}

# The first 12 digits of the SHA-256 of standard input, for folder names.
short_hash() {
	sha256sum | cut -c1-12
}

# free_gib DIR: prints the whole GiB of free space below DIR.
free_gib() {
	local kib
	kib=$(df -Pk "$1" | awk 'NR == 2 { print $4 }')
	printf '%s\n' $((kib / 1048576))
}

# namespace: prints the options for unshare that give this user private mounts: as root, as root
# of a user namespace with a range of ids, or, if newuidmap or the range is missing, with a single
# id. Fails if none of them works.
namespace() {
	local words
	for words in --mount '--mount --map-root-user --map-auto' '--mount --map-root-user'; do
		# shellcheck disable=SC2086 # words
		if unshare $words -- true 2>/dev/null; then
			printf '%s\n' "$words"
			return
		fi
	done
	return 1
}

# Does this user have only one id there?
has_one_id() {
	[ "$(namespace)" = '--mount --map-root-user' ]
}

# as_root CMD...: runs CMD with private mounts, as root or as root of a namespace.
as_root() {
	local words
	words=$(namespace) || return
	read -ra words <<<"$words"
	unshare "${words[@]}" -- "$@"
}

# An ordinary user alone cannot remove the root's files, which belong to other ids.
# --one-file-system: never cross a mount.
remove_tree() {
	[ ! -e "$1" ] || as_root rm -rf --one-file-system "$1" || rm -rf --one-file-system "$1"
}

# run_logged LABEL LOG CMD...: runs CMD with its output in LOG and its progress on stderr: every
# second in place on a terminal, otherwise a line every 15 seconds. Returns CMD's status. The
# progress is the output of progress_line LOG if the caller defines it, or the log's last line.
run_logged() {
	local label=$1 log=$2 start=$SECONDS status=0 last=0 job
	shift 2
	# A separate process group, so that an interrupt ends all of it.
	set -m
	"$@" >"$log" 2>&1 </dev/null &
	job=$!
	set +m
	trap 'kill -TERM -- "-$job"; wait "$job" || true; exit 130' INT TERM
	while kill -0 "$job" 2>/dev/null; do
		sleep 1
		if [ -t 2 ]; then
			show_progress "$label" "$log" $((SECONDS - start))
		elif ((SECONDS - last >= 15 && SECONDS - start >= 15)); then
			last=$SECONDS
			show_progress "$label" "$log" $((SECONDS - start))
		fi
	done
	wait "$job" || status=$?
	trap - INT TERM
	[ ! -t 2 ] || printf '\r\033[K' >&2
	if ((status == 0)); then
		say "$label: ready after $((SECONDS - start)) s"
	else
		say "$label: FAILED after $((SECONDS - start)) s"
	fi
	return "$status"
}

show_progress() {
	local label=$1 log=$2 elapsed=$3 text
	if declare -F progress_line >/dev/null; then
		text=$(progress_line "$log")
	else
		text=$(tail -n 1 "$log" | tr -d '\r')
	fi
	if [ -t 2 ]; then
		text="${0##*/}: $label: $elapsed s: $text"
		printf '\r\033[K%s' "${text:0:$((${COLUMNS:-80} - 1))}" >&2
	else
		say "$label: $elapsed s: ${text:0:100}"
	fi
}
