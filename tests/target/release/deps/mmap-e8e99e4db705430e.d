/work/main/tests/target/release/deps/mmap-e8e99e4db705430e.d: selftests/src/bin/mmap.rs

/work/main/tests/target/release/deps/libmmap-e8e99e4db705430e.rmeta: selftests/src/bin/mmap.rs

selftests/src/bin/mmap.rs:
