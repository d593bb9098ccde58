# SPDX-License-Identifier: GPL-2.0-only
#
# Converts the facts of a generation (tests/abi/NAME.txt, and its base) into a C header:
# structures with padding between the fields, sizes, command numbers, and values.
# HAS_STRUCTURE_FIELD, CMD_NAME and VALUE_NAME are defined if the generation has them. Dots and
# brackets in names become underscores.
#
# usage: awk -f abi.awk ../abi/4.0.0.txt

FNR == 1 { folder = FILENAME; sub(/[^\/]*$/, "", folder) }
{ take($0) }

# Parses one line. Lines of the base come first, and later lines override them.
function take(line,    word, count, file, base) {
	count = split(line, word)
	if (word[1] == "base") {
		file = folder word[2] ".txt"
		while ((base = getline line < file) > 0)
			take(line)
		if (base < 0)
			missing = file
		close(file)
	} else if (word[1] == "without" && word[2] == "features") {
		features = ""
	} else if (word[1] == "without") {
		drop(word[2], word[3])
	} else if (word[1] == "member") {
		size[word[2]] = word[3]
		if (!(word[2] in known)) {
			known[word[2]] = 1
			order[++count_of_members] = word[2]
		}
	} else if (word[1] == "field" || word[1] == "header") {
		fields[word[1], word[2]] = word[3] " " word[4] " " word[5]
	} else if (word[1] == "command" || word[1] == "value") {
		numbers[word[1], word[2]] = word[3]
	} else if (word[1] == "generation") {
		name = name == "" ? word[2] : name
	} else if (word[1] == "version") {
		version = word[2]
	} else if (word[1] == "argument") {
		argument = word[2]
	} else if (word[1] == "sizes") {
		bytes = word[2]
	} else if (word[1] == "union") {
		union_at = word[2]
	} else if (word[1] == "features") {
		features = word[2]
	} else if (word[1] == "place") {
		place = word[2]
	}
}

# Removing a member removes its fields.
function drop(kind, what,    key, part) {
	delete fields[kind, what]
	delete numbers[kind, what]
	if (kind != "member")
		return
	delete size[what]
	for (key in fields) {
		split(key, part, SUBSEP)
		if (part[1] == "field" && index(part[2], what ".") == 1)
			delete fields[key]
	}
}

# Sorts the fields of a structure by offset: sorted[1] and so on. Returns their number.
function sort(kind, prefix,    key, part, n, at, fact) {
	n = 0
	for (key in fields) {
		split(key, part, SUBSEP)
		if (part[1] != kind || index(part[2], prefix) != 1)
			continue
		fact = substr(part[2], length(prefix) + 1) " " fields[key]
		for (at = n++; at > 0 && place_of(sorted[at]) > place_of(fact); at--)
			sorted[at + 1] = sorted[at]
		sorted[at + 1] = fact
	}
	return n
}

function place_of(fact,    part) {
	split(fact, part)
	return part[2] + 0
}

# Pads up to offset, and declares the field there.
function put(struct_, field, offset, length_, element,    plain, moved) {
	plain = field
	gsub(/[][.]+/, "_", plain)
	pad(offset)
	moved = ""
	# In programs with few bits, feature words come before the later fields.
	if (features != "" && struct_ == "QueryChipIdentity" && offset >= 12) {
		moved = " + 32 * ABI_MOVES"
		if (offset == 12) {
			print "#if ABI_MOVES\n#define HAS_QueryChipIdentity_chipFeatures 1"
			print "\tuint32_t chipFeatures;\n\tuint32_t chipMinorFeatures[7];\n#endif"
		}
	}
	has = has sprintf("#define HAS_%s_%s 1\n", struct_, plain)
	checks = checks sprintf("_Static_assert(offsetof(struct abi_%s, %s) == %d%s, \"%s.%s\");\n",
				struct_ == "header" ? "interface" : struct_, plain, offset, moved,
				struct_, field)
	if (element == "")
		element = 4
	# Only the start of a record's interface is declared: its command. The part from the union on
	# comes from the interface.
	if (field == "iface") {
		print "\tuint32_t iface;"
		length_ = 4
	} else if (length_ == 0) {
		printf "\tuint8_t %s[%d];\n", plain, size[struct_] - offset
		length_ = size[struct_] - offset
	} else if (length_ == 1 || length_ == 2 || length_ == 4 || length_ == 8) {
		printf "\tuint%d_t %s;\n", length_ * 8, plain
	} else {
		printf "\tuint%d_t %s[%d];\n", element * 8, plain, length_ / element
	}
	at = offset + length_
}

function pad(offset) {
	if (offset > at)
		printf "\tuint8_t pad%d[%d];\n", at, offset - at
	at = offset
}

function structure(struct_,    n, count, part) {
	printf "struct abi_%s {\n", struct_
	at = 0
	has = checks = ""
	count = sort("field", struct_ ".")
	for (n = 1; n <= count; n++) {
		split(sorted[n] "   ", part)
		put(struct_, part[1], part[2], part[3], part[4])
	}
	pad(size[struct_])
	printf "} __attribute__((packed, aligned(%d)));\n", size[struct_] % 4 ? 2 : 4
	printf "_Static_assert(sizeof(struct abi_%s) == %d%s, \"%s\");\n%s%s\n", struct_, size[struct_],
	       features != "" && struct_ == "QueryChipIdentity" ? " + 32 * ABI_MOVES" : "", struct_,
	       checks, has
}

# The whole interface. In some generations, a part of the header follows the union.
function interface(    n, count, part, end) {
	print "struct abi_interface {"
	at = 0
	has = checks = ""
	count = sort("header", "")
	end = bytes
	for (n = count; n >= 1 && place_of(sorted[n]) > union_at; n--)
		end = place_of(sorted[n])
	for (n = 1; n <= count && place_of(sorted[n]) < union_at; n++) {
		split(sorted[n] "   ", part)
		put("header", part[1], part[2], part[3], part[4])
	}
	pad(union_at)
	print "\tunion {"
	# The profiler's members are larger than the union of a build without profiler.
	for (n = 1; n <= count_of_members; n++)
		if (order[n] in size && order[n] !~ /^gc[so]/ && size[order[n]] + 0 <= end - union_at)
			printf "\t\tstruct abi_%s %s;\n", order[n], order[n]
	printf "\t\tuint8_t bytes[%d];\n\t} u;\n", end - union_at
	at = end
	for (n = 1; n <= count; n++) {
		split(sorted[n] "   ", part)
		if (part[2] + 0 > union_at)
			put("header", part[1], part[2], part[3], part[4])
	}
	pad(bytes)
	printf "} __attribute__((packed, aligned(8)));\n"
	printf "_Static_assert(sizeof(struct abi_interface) == %d, \"interface\");\n", bytes
	printf "_Static_assert(offsetof(struct abi_interface, u) == %d, \"union\");\n%s%s", union_at,
	       checks, has
}

END {
	if (missing != "") {
		printf "abi.awk: %s cannot be read\n", missing >"/dev/stderr"
		exit 1
	}
	print "/* SPDX-License-Identifier: GPL-2.0-only */"
	print "/* Made from tests/abi by abi.awk: do not change it here. */"
	print "#include <stddef.h>"
	print "#include <stdint.h>\n"
	printf "#define ABI_NAME \"%s\"\n", name
	printf "#define ABI_ARGUMENT %d\n#define ABI_BYTES %d\n", argument, bytes
	printf "#define ABI_PLACE %d\n", place
	if (split(version, part, ".") == 4)
		printf "#define ABI_VERSION %d, %d, %d, %d\n", part[1], part[2], part[3], part[4]
	if (features != "")
		printf "#define ABI_MOVES (__SIZEOF_POINTER__ * 8 <= %d)\n", features
	for (key in numbers) {
		split(key, part, SUBSEP)
		if (part[1] == "command" && numbers[key] + 0 > last)
			last = numbers[key] + 0
		printf "#define %s_%s %d\n", part[1] == "command" ? "CMD" : "VALUE", part[2], numbers[key]
	}
	printf "#define CMD_LAST %d\n", last
	for (n = 1; n <= count_of_members; n++)
		if (order[n] in size)
			structure(order[n])
	interface()
}
