/work/main/tests/target/release/deps/memory_banks-76629c77ba5f8c80.d: selftests/src/bin/memory-banks.rs

/work/main/tests/target/release/deps/libmemory_banks-76629c77ba5f8c80.rmeta: selftests/src/bin/memory-banks.rs

selftests/src/bin/memory-banks.rs:
