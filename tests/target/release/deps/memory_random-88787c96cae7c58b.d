/work/main/tests/target/release/deps/memory_random-88787c96cae7c58b.d: selftests/src/bin/memory-random.rs

/work/main/tests/target/release/deps/libmemory_random-88787c96cae7c58b.rmeta: selftests/src/bin/memory-random.rs

selftests/src/bin/memory-random.rs:
