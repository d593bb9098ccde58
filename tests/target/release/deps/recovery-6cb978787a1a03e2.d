/work/main/tests/target/release/deps/recovery-6cb978787a1a03e2.d: selftests/src/bin/recovery.rs

/work/main/tests/target/release/deps/librecovery-6cb978787a1a03e2.rmeta: selftests/src/bin/recovery.rs

selftests/src/bin/recovery.rs:
