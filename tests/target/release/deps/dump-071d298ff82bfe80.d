/work/main/tests/target/release/deps/dump-071d298ff82bfe80.d: selftests/src/bin/dump.rs

/work/main/tests/target/release/deps/libdump-071d298ff82bfe80.rmeta: selftests/src/bin/dump.rs

selftests/src/bin/dump.rs:
