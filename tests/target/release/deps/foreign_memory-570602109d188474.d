/work/main/tests/target/release/deps/foreign_memory-570602109d188474.d: selftests/src/bin/foreign-memory.rs

/work/main/tests/target/release/deps/libforeign_memory-570602109d188474.rmeta: selftests/src/bin/foreign-memory.rs

selftests/src/bin/foreign-memory.rs:
