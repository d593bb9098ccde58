# SPDX-License-Identifier: GPL-2.0-only
#
# Turns the facts of a generation (tests/abi/NAME.txt) into what layout.h makes
# checks of. Names behind "absent:" in the C file are not in its header: a member, a
# structure, one of its fields, or a value, whose name may end in "*". One that the
# facts do not have either is an error.
#
# usage: awk -f facts.awk layout.c ../../abi/4.0.0.txt

/^ \* absent:/ {
	for (i = 3; i <= NF; i++)
		absent[$i]
	next
}
FNR == NR { next }

$1 == "argument" { printf "SIZE(struct gcsDRIVER_ARGS, %d)\n", $2 }
$1 == "sizes" { printf "SIZE(struct gcsHAL_INTERFACE, %d)\n", $2 }
$1 == "union" { start = $2; field("gcsHAL_INTERFACE", "u", start, 0) }
$1 == "header" { field("gcsHAL_INTERFACE", $2, $3, $4) }
$1 == "command" { value("HAL_" $2, $3) }
$1 == "value" { value($2, $3) }

$1 == "member" && !is_absent($2) {
	if (is_union($2))
		field("gcsHAL_INTERFACE", "u." $2, start, $3)
	else
		printf "SIZE(struct %s, %d)\n", $2, $3
}

$1 == "field" {
	dot = index($2, ".")
	structure = substr($2, 1, dot - 1)
	if (is_absent($2) || is_absent(structure))
		next
	if (is_union(structure))
		field("gcsHAL_INTERFACE", "u." $2, start + $3, $4)
	else
		field(structure, substr($2, dot + 1), $3, $4)
}

# A member of the union; others are structures of their own.
function is_union(name)
{
	return name !~ /^gc[so]/
}

# bytes: 0 where the facts do not say
function field(type, member, at, bytes)
{
	printf "PLACE(struct %s, %s, %d)\n", type, member, at
	if (bytes)
		printf "BYTES(struct %s, %s, %d)\n", type, member, bytes
}

function value(name, number,    pattern)
{
	for (pattern in absent)
		if (pattern ~ /\*$/ && index(name, substr(pattern, 1, length(pattern) - 1)) == 1)
			return seen[pattern] = 1
	if (!is_absent(name))
		printf "VALUE(gcv%s, %s)\n", name, number
}

function is_absent(name)
{
	return name in absent && seen[name] = 1
}

END {
	for (name in absent)
		if (!(name in seen)) {
			printf "facts.awk: %s is in no fact\n", name >"/dev/stderr"
			exit 1
		}
}
