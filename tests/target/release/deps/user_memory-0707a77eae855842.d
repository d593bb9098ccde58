/work/main/tests/target/release/deps/user_memory-0707a77eae855842.d: selftests/src/bin/user-memory.rs

/work/main/tests/target/release/deps/libuser_memory-0707a77eae855842.rmeta: selftests/src/bin/user-memory.rs

selftests/src/bin/user-memory.rs:
