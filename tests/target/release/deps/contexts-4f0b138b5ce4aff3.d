/work/main/tests/target/release/deps/contexts-4f0b138b5ce4aff3.d: selftests/src/bin/contexts.rs

/work/main/tests/target/release/deps/libcontexts-4f0b138b5ce4aff3.rmeta: selftests/src/bin/contexts.rs

selftests/src/bin/contexts.rs:
