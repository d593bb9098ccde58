/work/main/tests/target/release/deps/memory-5562e4fc65cd8896.d: selftests/src/bin/memory.rs

/work/main/tests/target/release/deps/libmemory-5562e4fc65cd8896.rmeta: selftests/src/bin/memory.rs

selftests/src/bin/memory.rs:
