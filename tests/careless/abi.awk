# SPDX-License-Identifier: GPL-2.0-only
#
# Turns the facts of a generation (tests/abi/NAME.txt) into a C header of its own: structures with
# what lies between fields as padding, sizes, numbers of commands, values. HAS_STRUCTURE_FIELD,
# CMD_NAME and VALUE_NAME are there where the generation has them; dots and brackets in a name are
# underscores.
#
# usage: awk -f abi.awk ../abi/4.0.0.txt

BEGIN {
	print "/* SPDX-License-Identifier: GPL-2.0-only */"
	print "/* Made from tests/abi by abi.awk: do not change it here. */"
	print "#include <stddef.h>"
	print "#include <stdint.h>\n"
}

$1 == "generation" { printf "#define ABI_NAME \"%s\"\n", $2 }
$1 == "version" { split($2, part, "."); printf "#define ABI_VERSION %d, %d, %d, %d\n", part[1], part[2], part[3], part[4] }
$1 == "argument" { printf "#define ABI_ARGUMENT %d\n", $2 }
$1 == "sizes" { bytes = $2; printf "#define ABI_BYTES %d\n", bytes }
$1 == "union" { union_at = $2 }
$1 == "command" { printf "#define CMD_%s %d\n", $2, $3 }
$1 == "value" { printf "#define VALUE_%s %d\n", $2, $3 }
$1 == "header" {
	printf "#define HAS_header_%s 1\n", $2
	header[++headers] = $2 " " $3 " " $4
}
$1 == "member" {
	finish()
	name = $2
	size = $3
	at = 0
	checks = ""
	printf "struct abi_%s {\n", name
	# The profiler's are larger than the union of a build without it.
	if ($2 !~ /^gc[so]/ && size <= bytes - union_at)
		members[++count] = name
}
# In programs of few bits words of features come before the fields that follow.
$1 == "features" {
	printf "#define ABI_MOVES (__SIZEOF_POINTER__ * 8 <= %d)\n", $2
	moves = name
}
$1 == "field" {
	sub(/^[^.]*\./, "", $2)
	put($2, $3, $4)
}

# Pads up to offset, and declares what lies there.
function put(field, offset, length_) {
	gsub(/[][.]+/, "_", field)
	pad(offset)
	moved = ""
	if (moves != "" && moves == name && offset >= 12) {
		moved = " + 32 * ABI_MOVES"
		if (offset == 12) {
			print "#if ABI_MOVES\n#define HAS_QueryChipIdentity_chipFeatures 1"
			print "\tuint32_t chipFeatures;\n\tuint32_t chipMinorFeatures[7];\n#endif"
		}
	}
	if (name != "")
		has = has sprintf("#define HAS_%s_%s 1\n", name, field)
	checks = checks sprintf("_Static_assert(offsetof(struct abi_%s, %s) == %d%s, \"%s.%s\");\n",
				name == "" ? "interface" : name, field, offset, moved, name, field)
	# Where the interface of a record begins: its command. What comes of it from its union on.
	if (field == "iface") {
		print "\tuint32_t iface;"
		length_ = 4
	} else if (length_ == 0) {
		printf "\tuint8_t %s[%d];\n", field, size - offset
		length_ = size - offset
	} else if (length_ == 1 || length_ == 4 || length_ == 8) {
		printf "\tuint%d_t %s;\n", length_ * 8, field
	} else {
		printf "\tuint32_t %s[%d];\n", field, length_ / 4
	}
	at = offset + length_
}

function pad(offset) {
	if (offset > at)
		printf "\tuint8_t pad%d[%d];\n", at, offset - at
}

function finish() {
	if (name == "")
		return
	pad(size)
	printf "} __attribute__((packed, aligned(4)));\n"
	printf "_Static_assert(sizeof(struct abi_%s) == %d%s, \"%s\");\n%s%s\n", name, size,
	       moves != "" && moves == name ? " + 32 * ABI_MOVES" : "", name, checks, has
	has = checks = ""
}

END {
	finish()
	name = checks = ""
	at = 0
	print "struct abi_interface {"
	for (i = 1; i <= headers; i++) {
		split(header[i], part, " ")
		put(part[1], part[2], part[3])
	}
	pad(union_at)
	print "\tunion {"
	for (i = 1; i <= count; i++)
		printf "\t\tstruct abi_%s %s;\n", members[i], members[i]
	printf "\t\tuint8_t bytes[%d];\n\t} u;\n} __attribute__((packed, aligned(8)));\n", bytes - union_at
	printf "_Static_assert(sizeof(struct abi_interface) == %d, \"interface\");\n", bytes
	printf "_Static_assert(offsetof(struct abi_interface, u) == %d, \"union\");\n%s", union_at, checks
}
