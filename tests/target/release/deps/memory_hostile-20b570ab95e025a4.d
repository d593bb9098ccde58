/work/main/tests/target/release/deps/memory_hostile-20b570ab95e025a4.d: selftests/src/bin/memory-hostile.rs

/work/main/tests/target/release/deps/libmemory_hostile-20b570ab95e025a4.rmeta: selftests/src/bin/memory-hostile.rs

selftests/src/bin/memory-hostile.rs:
